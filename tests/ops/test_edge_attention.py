"""Attention along edges: by hand, against the loop, in float32, corner cases."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from graphbench.ops.edge_attention import edge_attention
from graphbench.structures.adjacency import adjacency
from tests.contract import example_batch
from tests.ops.ragged_inputs import assert_same, assert_within_budget, normal

GRAPHS = {
    "batch": lambda: (example_batch().edge_index, 27),
    "loops_and_repeats": lambda: (torch.tensor([[0, 0, 1, 1, 3, 2, 2], [0, 1, 0, 0, 2, 2, 2]]), 5),
    "directed_star": lambda: (torch.stack([torch.arange(1, 70), torch.zeros(69, dtype=torch.int64)]), 70),
    "no_edges": lambda: (torch.empty(2, 0, dtype=torch.int64), 4),
    "no_nodes": lambda: (torch.empty(2, 0, dtype=torch.int64), 0),
}
EVERY = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
KINDS = pytest.mark.parametrize(
    ("clamp", "eps"), [(None, 0.0), (5.0, 1e-6), (0.5, 1e-6)], ids=["softmax", "clamp", "clamp_acts"]
)
WITH_EDGES = pytest.mark.parametrize("edges", [True, False], ids=["factors", "plain"])


def inputs_for(n: int, m: int, edges: bool) -> list[Tensor]:
    return [normal(n, 3, 4), normal(n, 3, 4), normal(n, 3, 5), *([normal(m, 3, 4)] if edges else [])]


def call(adj, clamp: float | None, eps: float, backend: str):
    return lambda q, k, v, e=None: edge_attention(adj, q, k, v, e, clamp=clamp, eps=eps, backend=backend)


def test_by_hand() -> None:
    """Node 2 sees 0 and 1 with exponents ln 3 and 0 (width 1, query 1): weights 3/4 and 1/4."""
    adj = adjacency(torch.tensor([[0, 1], [2, 2]]), 3)
    q, k = torch.ones(3, 1, 1), torch.tensor([math.log(3), 0.0, 9.0]).view(3, 1, 1)
    v = torch.tensor([4.0, 8.0, 100.0]).view(3, 1, 1)
    for backend in ("reference", "cpu"):
        out = edge_attention(adj, q, k, v, backend=backend)
        torch.testing.assert_close(out.flatten(), torch.tensor([0.0, 0.0, 5.0]))
        # an edge factor of 0 makes both exponents 0
        out = edge_attention(adj, q, k, v, torch.zeros(2, 1, 1), backend=backend)
        torch.testing.assert_close(out.flatten(), torch.tensor([0.0, 0.0, 6.0]))
        # exponents limited to 0.5 and 0, and a denominator larger by 1
        out = edge_attention(adj, q, k, v, clamp=0.5, eps=1.0, backend=backend)
        big = math.exp(0.5)
        torch.testing.assert_close(out.flatten()[2], torch.tensor((4 * big + 8) / (big + 2)))


@EVERY
@KINDS
@WITH_EDGES
def test_equals_the_loop(graph, clamp: float | None, eps: float, edges: bool) -> None:
    edge_index, n = graph()
    adj = adjacency(edge_index, n)
    inputs = inputs_for(n, adj.num_edges, edges)
    assert_same(call(adj, clamp, eps, "cpu"), call(adj, clamp, eps, "reference"), inputs)


@KINDS
@WITH_EDGES
def test_gradcheck(clamp: float | None, eps: float, edges: bool) -> None:
    edge_index, n = GRAPHS["loops_and_repeats"]()
    adj = adjacency(edge_index, n)
    assert torch.autograd.gradcheck(call(adj, clamp, eps, "cpu"), inputs_for(n, adj.num_edges, edges), fast_mode=True)


@KINDS
def test_error_in_float32(clamp: float | None, eps: float) -> None:
    edge_index, n = GRAPHS["directed_star"]()
    adj = adjacency(edge_index, n)
    inputs = inputs_for(n, adj.num_edges, True)
    assert_within_budget(call(adj, clamp, eps, "cpu"), call(adj, clamp, eps, "reference"), inputs)


def test_large_exponents_do_not_overflow() -> None:
    adj = adjacency(torch.tensor([[0, 1], [2, 2]]), 3)
    q = torch.full((3, 1, 1), 100.0)
    k, v = torch.tensor([10.0, 9.0, 0.0]).view(3, 1, 1), torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1)
    torch.testing.assert_close(edge_attention(adj, q, k, v)[2].item(), 1.0)


def test_edge_order_does_not_matter() -> None:
    edge_index, n = GRAPHS["batch"]()
    q, k, v, e = inputs_for(n, edge_index.shape[1], True)
    order = torch.randperm(edge_index.shape[1])
    out = edge_attention(adjacency(edge_index, n), q, k, v, e)
    torch.testing.assert_close(edge_attention(adjacency(edge_index[:, order], n), q, k, v, e[order]), out)


def test_bfloat16_computes_in_float32() -> None:
    edge_index, n = GRAPHS["batch"]()
    adj = adjacency(edge_index, n)
    half = [x.detach().bfloat16() for x in inputs_for(n, adj.num_edges, True)]
    out = edge_attention(adj, *half)
    truth = edge_attention(adj, *(x.double() for x in half), backend="reference")
    assert out.dtype == torch.bfloat16
    assert (out - truth).abs().max() <= torch.finfo(torch.bfloat16).eps * truth.abs().max()


def test_wrong_arguments_are_refused() -> None:
    edge_index, n = GRAPHS["batch"]()
    adj = adjacency(edge_index, n)
    q, k, v, e = inputs_for(n, adj.num_edges, True)
    with pytest.raises(ValueError, match=r"\(27, 2, 5\)"):
        edge_attention(adj, q, k, v[:, :2])
    with pytest.raises(ValueError, match=r"received \(3, 3, 4\)"):
        edge_attention(adj, q, k, v, e[:3])
    with pytest.raises(ValueError, match=r"clamp=-1.0"):
        edge_attention(adj, q, k, v, clamp=-1.0)
    with pytest.raises(ValueError, match=r"eps=0.1"):
        edge_attention(adj, q, k, v, eps=0.1)
