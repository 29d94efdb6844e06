"""The contract of every layer: whatever lands in the namespaces local and attention is tested the day it lands."""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from graphbench import registry
from graphbench.contract import HasAttentionWeights
from graphbench.errors import UserError
from graphbench.layers.gps import GPSBlock
from graphbench.testing.checks import check_dropout
from graphbench.testing.layers import DIM, call_local, layer_subject
from graphbench.train.forward_hooks import attention_weights
from tests.contract import (
    CHECKS,
    Subject,
    check_corner_cases,
    check_gradients,
    example_batch,
    shaken,
)

NAMESPACES = ("layers/local", "layers/attention", "layers/blocks")


def components(namespace: str) -> list[str]:
    """Every component once, under the name it was registered with."""
    return sorted({registry.lookup(namespace, name).registered_name for name in registry.names(namespace)})


EVERY = [
    pytest.param(namespace, name, id=f"{namespace.split('/')[1]}-{name}")
    for namespace in NAMESPACES
    for name in components(namespace)
]


def subject_of(namespace: str, name: str, **context: Any) -> Subject:
    return layer_subject(registry.lookup(namespace, name), **context)


def make(namespace: str, name: str, **context: Any) -> nn.Module:
    """The component as factory/layers.py makes it, in float64."""
    return subject_of(namespace, name, **context).module


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("namespace", "name"), EVERY)
def test_layer(namespace: str, name: str, check: str) -> None:
    component = registry.lookup(namespace, name)
    if check == "permutation" and not component.permutation_equivariant:
        pytest.skip(f"{name} declares that it depends on node order")
    context = {"dropout": 0.5} if check == "determinism" else {}
    CHECKS[check](subject_of(namespace, name, **context), example_batch())


@pytest.mark.parametrize(("namespace", "name"), EVERY)
def test_layer_corner_cases(namespace: str, name: str) -> None:
    check_corner_cases(subject_of(namespace, name))


@pytest.mark.parametrize(("namespace", "name"), EVERY)
def test_layer_in_float32_stays_float32(namespace: str, name: str) -> None:
    subject = subject_of(namespace, name)
    subject.module.float()
    for value in subject(example_batch(dtype=torch.float32)).values():
        assert value.dtype == torch.float32


@pytest.mark.parametrize(("namespace", "name"), EVERY)
def test_dropout_acts_in_training_only(namespace: str, name: str) -> None:
    if "dropout" not in registry.parameters(registry.lookup(namespace, name)):
        pytest.skip(f"{name} takes no dropout")
    check_dropout(subject_of(namespace, name, dropout=0.5), example_batch())


@pytest.mark.parametrize("name", components("layers/local"))
def test_local_layer_between_widths(name: str) -> None:
    batch = example_batch(node_dim=5)
    h, _ = make("layers/local", name, dim_in=5)(batch.x, batch.edge_attr, batch)
    assert h.shape == (batch.num_nodes, DIM)


@pytest.mark.parametrize("name", components("layers/local"))
def test_local_layer_declares_itself(name: str) -> None:
    component, batch = registry.lookup("layers/local", name), example_batch()
    assert isinstance(component.has_residual, bool)
    assert isinstance(component.needs_edges, bool)
    module = make("layers/local", name)
    if component.needs_edges:
        with pytest.raises(ValueError, match="edge"):
            module(batch.x, None, batch)
    else:
        h, e = module(batch.x, None, batch)
        assert e is None
        assert torch.isfinite(h).all()


@pytest.mark.parametrize("name", components("layers/attention"))
def test_attention_that_says_it_reads_no_edge_states_reads_none(name: str) -> None:
    """A GPU computes it beside the layer that makes them. Whoever says nothing may read them."""
    module, batch = make("layers/attention", name), example_batch()
    module.eval()
    assert batch.edge_attr is not None
    with torch.no_grad():
        outputs = [module(batch.x, e, batch) for e in (batch.edge_attr, torch.full_like(batch.edge_attr, math.nan))]
    expected, found = (each[0] if isinstance(each, tuple) else each for each in outputs)
    assert module.may_read_edge_states() or torch.equal(found, expected)


@pytest.mark.parametrize(("namespace", "name"), EVERY)
def test_unknown_activation_is_refused(namespace: str, name: str) -> None:
    if "act" not in registry.parameters(registry.lookup(namespace, name)):
        pytest.skip(f"{name} takes no activation")
    with pytest.raises(ValueError, match="'relun', did you mean 'relu'"):
        make(namespace, name, act="relun")


WEIGHTS_IN_SUMS_OF_ONE = {
    "DFi", "Transformer", "BiasedTransformer", "Gradformer", "FFGT", "GRPE", "SATLayer", "FullWidthSoftmax",
    "GlobalGAT", "DIFFormer",
}  # fmt: skip
"""Attentions whose rows of weights sum to one; of a sparse flow they sum to less."""
WITH_MATRIX = {"DIFFormer": {"kernel": "sigmoid"}}
"""Arguments of attentions that have no weights by default."""


@pytest.mark.parametrize("namespace", ["layers/attention", "layers/blocks"])
def test_attention_weights_times_values_are_what_the_operator_computes(
    namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = example_batch((7, 0, 1, 12))
    for name in components(namespace):
        component = registry.lookup(namespace, name)
        assert issubclass(component, HasAttentionWeights) == (name in {*WEIGHTS_IN_SUMS_OF_ONE, "SFi"})
        if not issubclass(component, HasAttentionWeights):
            continue
        subject = subject_of(namespace, name, **WITH_MATRIX.get(name, {}))
        layer = subject.module.eval()
        if name == "GRPE":  # the relations of its pairs have values, too
            for reader, table in layer.tables.tables.items():
                table.data *= not reader.startswith("value")
        biased = batch.with_state(pair_bias=torch.randn(batch.ragged.num_pairs, 3, dtype=torch.float64))
        calls: list[tuple[torch.Tensor, torch.Tensor]] = []

        def spied(operator: Callable[..., torch.Tensor], calls: list[Any] = calls) -> Callable[..., torch.Tensor]:
            def call(*args: Any, **kwargs: Any) -> torch.Tensor:
                mixed = operator(*args, **kwargs)
                calls.append((inspect.signature(operator).bind(*args, **kwargs).arguments["v"], mixed))
                return mixed

            return call

        module = inspect.getmodule(type(layer).forward)
        for operator in ("softmax_attention", "decay_attention", "focal_attention", "sparse_flow", "pair_attention"):
            if hasattr(module, operator):
                monkeypatch.setattr(module, operator, spied(getattr(module, operator)))
        subject(biased)
        monkeypatch.undo()
        [(v, mixed)] = calls
        weights = layer.attention_weights(biased.x, biased.edge_attr, biased)
        assert [each.shape for each in weights] == [(3, size, size) for size in batch.ragged.sizes]
        values = v.expand(-1, 3, -1).split(batch.ragged.sizes)
        parts = [torch.einsum("hij,jhd->ihd", *pair) for pair in zip(weights, values, strict=True)]
        torch.testing.assert_close(mixed, torch.cat(parts), rtol=1e-10, atol=1e-12)
        for each in weights:
            assert (each.sum(2) < 1 + 1e-12).all()
            assert name == "SFi" or torch.allclose(each.sum(2), torch.ones_like(each.sum(2)), rtol=1e-12)


def test_the_message_about_weights_names_every_layer_that_has_them() -> None:
    with pytest.raises(UserError) as told:
        attention_weights(nn.Identity(), lambda: None)
    named = re.search(r"weights\. (.*) do, where", str(told.value))
    assert named is not None
    assert set(named[1].split(", ")) == {*WEIGHTS_IN_SUMS_OF_ONE, "SFi"}


def _blocks() -> list[Any]:
    """(local layer, attention, norm of the block).

    Each layer passes the same checks by itself, so CI takes those here whose parts meet: states of edges that both
    change, biases, flows; and of other norms than BatchNorm one pair.
    """
    beside = [(local, "Transformer") for local in components("layers/local")]
    beside += [("GINE", attention) for attention in components("layers/attention") if attention != "Transformer"]
    first, more = ("GINE", "Transformer"), (pytest.mark.slow, pytest.mark.exhaustive)
    meeting = {"CustomGatedGCN", "GatedGCN", "SPN", "ETransformer", "Exphormer", "Gradformer", "GRPE", "SFi", "GECO"}
    return [
        pytest.param(*pair, norm, id=f"{'+'.join(pair)}-{norm}", marks=() if seen else more)
        for pair in beside
        for norm in ("batch", "layer", "graph", "none")
        for seen in [pair == first or (norm == "batch" and not meeting.isdisjoint(pair))]
    ]


def _block(local: str | None, attention: str | None, norm: str) -> Subject:
    block = GPSBlock(
        DIM,
        [
            None if local is None else make("layers/local", local),
            None if attention is None else make("layers/attention", attention),
        ],
        act="relu",
        norm=norm,
    )
    return Subject(shaken(block.double()), call_local, {"h": "node", "e": "edge"}, {"h": DIM, "e": DIM})


@pytest.mark.parametrize(("local", "attention", "norm"), _blocks())
def test_block(local: str, attention: str, norm: str) -> None:
    subject, batch = _block(local, attention, norm), example_batch()
    pair = (registry.lookup("layers/local", local), registry.lookup("layers/attention", attention))
    ordered = not all(component.permutation_equivariant for component in pair)
    for name, check in CHECKS.items():
        if not (ordered and name == "permutation"):
            check(subject, batch)
    check_corner_cases(subject)


MISSING: list[tuple[str | None, str | None, Callable[[str], bool]]] = [
    (None, "Transformer", lambda name: name.startswith("branches.0.norm.")),
    ("GINE", None, lambda name: name.startswith("branches.1.norm.")),
]


@pytest.mark.parametrize(("local", "attention", "idle"), MISSING)
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_missing_branch_owns_its_norm(
    local: str | None, attention: str | None, idle: Callable[[str], bool], norm: str
) -> None:
    subject = _block(local, attention, norm)
    names = frozenset(name for name, _ in subject.module.named_parameters() if idle(name))
    assert len(names) == 2
    check_gradients(dataclasses.replace(subject, idle=names), example_batch())
    check_corner_cases(subject)
