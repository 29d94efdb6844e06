"""The kernels of propagate against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from graphbench.ops.propagate import cpu, gated_mean, gpu, propagate, relu_sum
from graphbench.structures.adjacency import Adjacency, LoopedAdjacency, adjacency, in_pieces
from tests.ops.ragged_inputs import DEVICE, assert_rounded_gradients, assert_same, assert_within_budget, normal
from tests.ops.test_propagate import GRAPHS

WIDTH = 20
# The interpreter is numpy, which warns about lanes that are computed and thrown away.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of channels."""
    monkeypatch.setattr(gpu, "COLUMNS", 16)


def part(x: Tensor) -> Tensor:
    """``x`` as a part of wider rows."""
    return torch.cat([x, x], dim=1)[:, : x.shape[1]]


def operators(adj: Adjacency) -> dict[str, tuple[Callable[..., Tensor], list[Tensor]]]:
    """By name: function of inputs and backend, inputs."""
    n, e = (normal(rows, WIDTH).detach().to(DEVICE) for rows in (adj.num_nodes, adj.num_edges))
    nodes, edges = (lambda: torch.randn_like(n).requires_grad_()), (lambda: torch.randn_like(e).requires_grad_())
    gated = [nodes(), nodes(), edges(), nodes()]

    def mean(t: Tensor, s: Tensor, m: Tensor, v: Tensor, **b: str) -> tuple[Tensor, Tensor]:
        return gated_mean(adj, part(t), s, part(m), part(v), **b)

    def side_by_side(own: bool, x: Tensor, m: Tensor, **b: str) -> tuple[Tensor, Tensor]:
        t, s, v, o = x.unbind(1)
        packed = x if own else part(x.flatten(1)).view_as(x)[:, :3]
        return gated_mean(adj, t, s, m, v, o if own else None, packed=packed, **b)

    packed = [torch.randn_like(n[:, None].expand(-1, 4, -1)).requires_grad_(), edges()]
    return {
        "relu_sum": (lambda h, m, **b: relu_sum(adj, part(h), part(m), **b)[0], [nodes(), edges()]),
        "relu_sum_handed_on": (
            lambda h, m, **b: torch.cat([part(x) for x in relu_sum(adj, h, part(m), **b)]),
            [nodes(), edges()],
        ),
        "edges_handed_on": (lambda h, m, **b: relu_sum(adj, h, m, **b)[1], [nodes(), edges()]),
        "relu_sum_own": (
            lambda h, m, **b: relu_sum(adj, h, m, eps=torch.full((1,), 0.5, device=DEVICE), **b)[0],
            [nodes(), edges()],
        ),
        "relu_sum_learned": (
            lambda h, m, eps, **b: relu_sum(adj, h, m, eps=eps, **b)[0],
            [nodes(), edges(), normal(1).detach().to(DEVICE).requires_grad_()],
        ),
        "gated_mean": (lambda *x, **b: mean(*x, **b)[0], gated),
        "gated_mean_and_logit": (lambda *x, **b: part(torch.cat(mean(*x, **b))), gated),
        "logit": (lambda *x, **b: mean(*x, **b)[1], gated),
        "gated_mean_own": (
            lambda t, s, m, v, o, **b: part(gated_mean(adj, t, s, m, v, part(o), **b)[0]),
            [*gated, nodes()],
        ),
        "packed_mean": (lambda *x, **b: side_by_side(False, *x, **b)[0], packed),
        "packed_mean_own_and_logit": (lambda *x, **b: torch.cat(side_by_side(True, *x, **b)), packed),
        "packed_logit": (lambda *x, **b: side_by_side(True, *x, **b)[1], packed),
    }


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize(
    "name",
    [
        *("relu_sum", "relu_sum_handed_on", "edges_handed_on", "relu_sum_own", "relu_sum_learned"),
        *("gated_mean", "gated_mean_and_logit", "logit", "gated_mean_own"),
        *("packed_mean", "packed_mean_own_and_logit", "packed_logit"),
    ],
)
def test_equals_reference(graph: Callable[[], tuple[Tensor, int]], name: str) -> None:
    edge_index, n = graph()
    function, inputs = operators(adjacency(edge_index.to(DEVICE), n))[name]
    assert_same(partial(function, backend="gpu"), partial(function, backend="reference"), inputs)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("shape", [(WIDTH,), (2, 3)], ids=str)
def test_loops_and_normalisation_without_lists(
    graph: Callable[[], tuple[Tensor, int]], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel reads the plain lists; the others are not made."""
    edge_index, n = graph()
    edge_index = torch.cat([edge_index, edge_index[:1, :2].expand(2, -1)], dim=1).to(DEVICE)  # two loops
    expected = adjacency(edge_index, n, norm="sym", self_loops=True)
    found = LoopedAdjacency(adjacency(edge_index, n), lambda: pytest.fail("made") if n else expected)
    h = [part(normal(n, WIDTH)).detach().to(DEVICE)[:, : math.prod(shape)].view(n, *shape).requires_grad_()]
    assert_same(lambda h: propagate(found, h, backend="gpu"), lambda h: propagate(expected, h, backend="reference"), h)


@pytest.mark.parametrize("name", ["relu_sum", "gated_mean_and_logit", "packed_mean_own_and_logit"])
def test_error_in_float32(name: str) -> None:
    edge_index, n = GRAPHS["directed_star"]()
    function, inputs = operators(adjacency(edge_index.to(DEVICE), n))[name]
    assert_within_budget(partial(function, backend="gpu"), partial(function, backend="reference"), inputs)


@pytest.mark.parametrize("name", ["gated_mean", "gated_mean_own"])
def test_gradients_in_half_precision(name: str) -> None:
    """Of values far from zero, from whose mean gradients are differences."""
    edge_index, n = GRAPHS["directed_star"]()
    function, inputs = operators(adjacency(edge_index.to(DEVICE), n))[name]
    inputs[3] = inputs[3] + 100
    half = [x.detach().bfloat16().requires_grad_() for x in inputs]
    assert_rounded_gradients(partial(function, backend="gpu"), partial(function, backend="reference"), half)


def test_hubs_and_further_gates_take_the_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    edge_index, n = GRAPHS["directed_star"]()
    adj = adjacency(edge_index.to(DEVICE), n)
    monkeypatch.setattr(gpu, "_launch", None)
    for name in ("relu_sum", "gated_mean", "gated_mean_and_logit", "packed_mean_own_and_logit"):
        function, inputs = operators(in_pieces(adj))[name]
        assert_same(partial(function, backend="gpu"), partial(function, backend="cpu"), inputs)
    gate = torch.rand(adj.num_edges, 1, dtype=torch.float64, device=DEVICE)
    inputs = operators(adj)["gated_mean"][1]
    expected = cpu.gated_mean(adj, *inputs, None, gate, 1e-6)
    torch.testing.assert_close(gated_mean(adj, *inputs, gate=gate, backend="gpu"), expected, rtol=0, atol=0)
