"""Checks of what a configuration takes from plug-ins: ``graphbench check FILE --contract``."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from graphbench import plug_ins, registry, testing
from graphbench.config.components import components_of_users
from graphbench.errors import UserError
from graphbench.factory.model import build_model
from graphbench.factory.transforms import build_transforms
from graphbench.heads.contract import Head
from graphbench.layers.contract import GraphLayer
from graphbench.models.contract import Model
from graphbench.preflight import outline
from graphbench.registry import UNSET, Construction
from graphbench.structures import GraphBatch
from graphbench.testing.examples import encoded, labelled
from graphbench.testing.graphs import SIZES, Example, example_batch
from graphbench.testing.suite import kind_of
from graphbench.transforms.base import Transform

if TYPE_CHECKING:
    from graphbench.config import Config
    from graphbench.factory.outline import Outline


def print_contract(config: Config) -> None:
    """Says of every component that comes from a plug-in which checks it passes, and which components have none.

    Raises:
        UserError: what fails, of all of them.
    """
    with registry.constructions() as made:
        built = outline(config)
    own = list(_of_users(made, built.model))
    failed = _failures(built, [each for each in own if issubclass(each.component, Transform)])
    others = [each for each in own if not issubclass(each.component, Transform)]
    modules = [each for each in others if issubclass(each.component, nn.Module)]
    obstacle = "the encodings fail" if failed else _obstacle(built) if modules else ""
    if modules and obstacle:
        others = [each for each in others if each not in modules]
        names = ", ".join(each.component.registered_name for each in modules)
        print(f"contract: not checked, since there are no graphs for it ({obstacle}): {names}")
    failed += _failures(built, others)
    if not own:
        print("contract: nothing in use comes from a plug-in; the package's own components pass it in its tests")
    used = {each.component for each in own}
    unused = [name for name, each in components_of_users(config.values).items() if each not in used]
    if unused:
        print(f"contract: named, but not in use: {', '.join(unused)}")
    if failed:
        raise UserError("\n".join(failed))


def _obstacle(built: Outline) -> str:
    """Why random graphs cannot be encoded as the configuration says, such as too small a table of degrees; or empty."""
    try:
        _graphs(built)()
    except (UserError, ValueError) as error:
        return str(error)
    return ""


def _failures(built: Outline, components: Iterable[Construction]) -> list[str]:
    """Prints which checks components pass, and returns what others fail."""
    failed = []
    for each in components:
        component, kind = each.component, kind_of(each.component)
        if kind is None:
            print(f"contract: {component.registered_name} is in use; there are no checks for what it is")
            continue
        try:
            passed = _check(built, each, getattr(testing, kind.function))
        except AssertionError as error:
            failed.append(f"{plug_ins.place(component)}: {error}")
            continue
        sizes = ", ".join(f"{name} {value}" for name, value in _filled(each).items() if type(value) is int)
        with_sizes = f" (with {sizes})" if sizes else ""
        print(f"contract: {component.registered_name} passes {', '.join(passed)}{with_sizes}")
    return failed


def _of_users(made: Iterable[Construction], model: Model) -> Iterator[Construction]:
    """Constructions of users' classes, each once; of modules only those that the model has."""
    inside, seen = {type(module) for module in model.modules()}, set[type]()
    for each in made:
        component = each.component
        if component in seen or component.__module__.startswith("graphbench."):
            continue
        if component in inside or not issubclass(component, nn.Module):
            seen.add(component)
            yield each


def _check(built: Outline, made: Construction, check: Callable[..., list[str]]) -> list[str]:
    """Runs the checks of one component, made as the configuration makes it, on graphs like those of its data set."""
    component, context = made.component, _filled(made)
    if issubclass(component, Model):
        make = functools.partial(build_model, built.config, built.info)
        return check(component, example=_graphs(built), make=make, out_dim=built.info.out_dim)
    examples: dict[str, Example] = {}
    if issubclass(component, Transform):
        examples["example"] = _features(built, connected=True, pairs=False, dtype=torch.float32)
    elif issubclass(component, GraphLayer | Head):
        examples["example"] = _with_states(_graphs(built), context["dim_in"], context.get("dim_edge", 0))
    elif issubclass(component, nn.Module):
        examples["example"] = _graphs(built)
    return check(component, context=context, **examples, **made.arguments)


def _filled(made: Construction) -> dict[str, Any]:
    """Values of the context that are known."""
    if made.context is None:
        return {}
    values = {field.name: getattr(made.context, field.name) for field in dataclasses.fields(made.context)}
    return {name: value for name, value in values.items() if value is not UNSET}


def _features(built: Outline, **options: Any) -> Example:
    """Maker of random graphs with features as the data set has them."""
    types, info = built.info.vocabularies, built.info
    return functools.partial(
        example_batch,
        node_dim=info.node_in,
        edge_dim=info.edge_in,
        node_types=types.get("node") or None,
        edge_types=types.get("edge") or None,
        **options,
    )


def _graphs(built: Outline) -> Example:
    """Maker of random graphs with features and encodings as the configuration has them."""
    return encoded(labelled(_features(built)), build_transforms(built.config))


def _with_states(example: Example, dim: int, dim_edge: int) -> Example:
    """Maker of the graphs of another one, with hidden states in place of features."""

    def graphs(sizes: Iterable[int] = SIZES, *, edges: bool = True) -> GraphBatch:
        batch, generator = example(sizes, edges=edges), torch.Generator().manual_seed(0)
        h = torch.randn(batch.num_nodes, dim, generator=generator, dtype=torch.float64)
        e = torch.randn(batch.num_edges, dim_edge, generator=generator, dtype=torch.float64)
        return batch.replace(x=h, edge_attr=e if dim_edge else None)

    return graphs
