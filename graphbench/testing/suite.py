"""Which function checks a class, and how its checks are run: every one of them, one message about those that fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from graphbench import registry
from graphbench.contract import HasAttentionWeights
from graphbench.encoders.contract import FeatureEncoder, PositionalEncoder
from graphbench.errors import UserError
from graphbench.heads.contract import Head
from graphbench.layers.contract import GraphLayer
from graphbench.models.contract import Model
from graphbench.structures import GraphBatch
from graphbench.tasks.loss import Loss
from graphbench.tasks.metric import Metric, StatisticMetric
from graphbench.testing.checks import (
    CHECKS,
    Level,
    Subject,
    check_attention_weights,
    check_corner_cases,
    check_dropout,
    number_of_rows,
)
from graphbench.testing.graphs import Example
from graphbench.transforms.base import Transform

FAILURES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    UserError,
)


@dataclass(frozen=True)
class Kind:
    """Components that one function checks.

    Attributes:
        function: its name in :mod:`graphbench.testing`.
        bases: base classes of the components.
        what: what it takes, for messages.
        plural: how these are called.
    """

    function: str
    bases: tuple[type, ...]
    what: str
    plural: str


KINDS = (
    Kind("check_layer", (GraphLayer,), "an attention, a local layer or a block (graphbench.layers.contract)", "layers"),
    Kind(
        "check_encoder",
        (FeatureEncoder, PositionalEncoder),
        "a feature encoder or a positional encoder (graphbench.encoders.contract)",
        "encoders",
    ),
    Kind("check_transform", (Transform,), "a transform (graphbench.transforms.base)", "transforms"),
    Kind("check_head", (Head,), "a head (graphbench.heads.contract)", "heads"),
    Kind("check_model", (Model,), "a model (graphbench.models.contract)", "models"),
    Kind("check_loss", (Loss,), "a loss (graphbench.tasks.loss)", "losses"),
    Kind("check_metric", (Metric,), "a metric of predictions and targets (graphbench.tasks.metric)", "metrics"),
)


def kind_of(component: object) -> Kind | None:
    """The kind of a class; None where no function checks it (data sets, optimisers, statistics of a head)."""
    if not isinstance(component, type) or issubclass(component, StatisticMetric):
        return None
    return next((kind for kind in KINDS if issubclass(component, kind.bases)), None)


def require_kind(function: str, component: object) -> None:
    """Refuses what a function does not check.

    Raises:
        TypeError: what it takes and received, and the function for that.
    """
    wanted = next(kind for kind in KINDS if kind.function == function)
    kind = kind_of(component)
    if kind is wanted:
        return
    received = f"an object of {type(component).__name__}"
    if isinstance(component, type):
        received = f"the class {component.__qualname__}"
    other = f", which {kind.function} checks" if kind else ""
    raise TypeError(f"{function} takes the class of {wanted.what}, received {received}{other}")


def run_checks(component: type, checks: Mapping[str, Callable[[], object]]) -> list[str]:
    """Runs all checks of a component.

    Returns:
        Their names.

    Raises:
        AssertionError: what fails, a line for each check.
    """
    failed = []
    for name, check in checks.items():
        try:
            check()
        except FAILURES as error:
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            failed.append(f"  {name}: {kind}{error}")
    if failed:
        kind_of_component = kind_of(component)
        plural = kind_of_component.plural if kind_of_component else "components"
        raise AssertionError("\n".join([f"{component.__qualname__} breaks the contract of {plural}:", *failed]))
    return list(checks)


def module_checks(component: type[nn.Module], *, equivariant: bool = True) -> list[str]:
    """Names of the checks of a module: permutation where node order says nothing, dropout where it takes one."""
    names = [name for name in CHECKS if equivariant or name != "permutation"]
    weights = ["attention_weights"] if issubclass(component, HasAttentionWeights) else []
    dropout = ["dropout"] if "dropout" in registry.parameters(component) else []
    return [*names, "corner_cases", *weights, *dropout]


def check_module(
    component: type[nn.Module],
    make: Callable[..., Subject],
    example: Example,
    *,
    numbered: bool = False,
    finished: bool = False,
) -> list[str]:
    """Runs the checks of a module.

    Args:
        component: the class.
        make: makes the subject; called with ``dropout=0.5``, too, for what is random, where the class takes one.
        example: makes the graphs, called with ``sizes`` and ``edges``.
        numbered: whether the graphs name nodes or edges by numbers, which another order would have to change.
        finished: whether no argument can be changed, so that nothing is known of its dropout.
    """
    subject = make()
    equivariant = all(getattr(each, "permutation_equivariant", True) for each in subject.module.modules())
    checks = dict.fromkeys(module_checks(component, equivariant=equivariant and not numbered), subject)
    if finished:
        checks.pop("dropout", None)
    if "dropout" in checks:
        checks["determinism"] = checks["dropout"] = make(dropout=0.5)
    return run_checks(component, {name: partial(check_one, name, each, example) for name, each in checks.items()})


def of_one_output(
    name: str,
    module: nn.Module,
    call: Callable[[nn.Module, GraphBatch], Tensor],
    example: Example,
    width: int | None,
    levels: Sequence[Level],
) -> Subject:
    """The subject of a module with one result.

    Args:
        name: of the result, for messages.
        module: the module.
        call: ``(module, batch) -> result``.
        example: makes the graphs.
        width: last dimension of the result; None: any.
        levels: kinds of rows that it may have: the one that the first result has as many of, or the first.
    """
    level, inner = levels[0], tuple[int, ...]()
    batch = example()
    with suppress(Exception):  # what cannot be called is told by the checks
        result = call(module, batch)
        inner = tuple(result.shape[1:-1])  # positions of a sequence
        level = next((each for each in levels if number_of_rows(batch, each) == len(result)), level)
    shape = None if width is None else (*inner, width)
    return Subject(module, lambda own, graphs: {name: call(own, graphs)}, {name: level}, {name: shape})


def check_one(name: str, subject: Subject, example: Example) -> None:
    """One of :func:`module_checks`, by name."""
    if name == "corner_cases":
        check_corner_cases(subject, example)
    elif name == "dropout":
        check_dropout(subject, example())
    elif name == "attention_weights":
        check_attention_weights(subject, example())
    else:
        CHECKS[name](subject, example())
