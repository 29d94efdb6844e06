"""Random-feature attention: by hand, against the dense formula, against softmax attention, corner cases."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from graphbench.ops.kernel_attention import edge_weights, feature_attention, kernel_attention
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import AWKWARD, assert_same, assert_within_budget, normal


def inputs_for(ragged: Ragged) -> list[Tensor]:
    n = ragged.num_rows
    return [normal(n, 3, 6), normal(n, 3, 6), normal(n, 3, 5)]


def directions(m: int = 9, d: int = 6) -> Tensor:
    return torch.randn(m, d, dtype=torch.float64)


def call(ragged: Ragged, projection: Tensor, backend: str):
    return lambda q, k, v: kernel_attention(q, k, v, projection, ragged, backend=backend)


def call_weighted(ragged: Ragged, projection: Tensor, backend: str):
    return lambda q, k, v, u: kernel_attention(q, k, v, projection, ragged, key_weights=u.exp(), backend=backend)


def test_by_hand() -> None:
    """Direction 1, width 1, eps 1, queries 0 (phi = 2), keys 0 and 1: phi(0) = e^-1 + 1, phi(1) = e^-1/2 + 1."""
    q, k = torch.zeros(2, 1, 1), torch.tensor([0.0, 1.0]).view(2, 1, 1)
    v = torch.tensor([4.0, 9.0]).view(2, 1, 1)
    zero, one = math.exp(-1) + 1, math.exp(-0.5) + 1
    expected = torch.full((2, 1, 1), (4 * zero + 9 * one) / (zero + one))
    for backend in ("reference", "cpu"):
        out = kernel_attention(q, k, v, torch.ones(1, 1), Ragged.from_sizes([2]), eps=1.0, backend=backend)
        torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
def test_equals_the_dense_formula(sizes: list[int]) -> None:
    ragged, projection = Ragged.from_sizes(sizes), directions()
    assert_same(call(ragged, projection, "cpu"), call(ragged, projection, "reference"), inputs_for(ragged))


@pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
def test_samples_of_key_weights_equal_the_dense_formula(sizes: list[int]) -> None:
    ragged, projection = Ragged.from_sizes(sizes), directions()
    inputs = [*inputs_for(ragged), normal(ragged.num_rows, 3, 4)]
    assert_same(call_weighted(ragged, projection, "cpu"), call_weighted(ragged, projection, "reference"), inputs)


@pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
def test_given_features_equal_the_dense_formula(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)

    def using(backend: str):
        return lambda k, v: feature_attention(k.sigmoid(), k.sigmoid(), v, ragged, backend=backend)

    inputs = inputs_for(ragged)[1:]
    assert_same(using("cpu"), using("reference"), inputs)


def test_key_weights_count_a_key_so_often() -> None:
    """A key of weight 2 is a key that is there twice."""
    q, k, v = (x.detach() for x in inputs_for(Ragged.from_sizes([3])))
    projection, weights = directions(), torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64).view(3, 1, 1).expand(3, 3, 1)
    out = kernel_attention(q, k, v, projection, Ragged.from_sizes([3]), key_weights=weights)
    twice = [torch.cat([x, x[2:]]) for x in (q, k, v)]
    torch.testing.assert_close(kernel_attention(*twice, projection, Ragged.from_sizes([4]))[:3], out)


def test_gradcheck() -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 4])
    assert torch.autograd.gradcheck(call(ragged, directions(), "cpu"), inputs_for(ragged), fast_mode=True)
    weighted = [*inputs_for(ragged), normal(ragged.num_rows, 3, 2)]
    assert torch.autograd.gradcheck(call_weighted(ragged, directions(), "cpu"), weighted, fast_mode=True)


@pytest.mark.parametrize("sizes", [[63, 64, 65], [3, 500, 20]], ids=str)
def test_error_in_float32(sizes: list[int]) -> None:
    ragged, projection = Ragged.from_sizes(sizes), directions()
    assert_within_budget(call(ragged, projection, "cpu"), call(ragged, projection, "reference"), inputs_for(ragged))


def test_many_directions_approach_softmax_attention() -> None:
    ragged = Ragged.from_sizes([40, 7])
    q, k, v = (scale * torch.randn(47, 2, 8, dtype=torch.float64) for scale in (0.5, 0.5, 1.0))
    blocks = [torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64)).Q for _ in range(512)]
    projection = torch.cat(blocks) * torch.randn(4096, 8, dtype=torch.float64).norm(dim=1, keepdim=True)
    out = kernel_attention(q, k, v, projection, ragged, eps=1e-9)
    exact = softmax_attention(q, k, v, ragged)
    assert (out - exact).square().mean().sqrt() < 0.03
    few = kernel_attention(q, k, v, projection[:8], ragged, eps=1e-9)
    assert (few - exact).square().mean().sqrt() > 0.05


def test_graphs_do_not_mix() -> None:
    sizes = [30, 4, 0, 11]
    ragged, projection = Ragged.from_sizes(sizes), directions()
    q, k, v = (x.detach() for x in inputs_for(ragged))
    out = kernel_attention(q, k, v, projection, ragged)
    for *inputs, expected in zip(*(x.split(sizes) for x in (q, k, v, out))):
        alone = kernel_attention(*inputs, projection, Ragged.from_sizes([len(expected)]))
        torch.testing.assert_close(alone, expected)


def test_large_queries_and_keys_stay_finite() -> None:
    ragged = Ragged.from_sizes([5])
    q, k, v = (100 * x.detach().float() for x in inputs_for(ragged))
    assert kernel_attention(q, k, v, directions().float(), ragged).isfinite().all()


def test_bfloat16_computes_in_float32() -> None:
    ragged, projection = Ragged.from_sizes([50]), directions()
    half = [x.detach().bfloat16() for x in inputs_for(ragged)]
    out = kernel_attention(*half, projection, ragged)
    truth = kernel_attention(*(x.double() for x in half), projection, ragged, backend="reference")
    assert out.dtype == torch.bfloat16
    assert (out - truth).abs().max() <= torch.finfo(torch.bfloat16).eps * truth.abs().max()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_changes_nothing(dtype: torch.dtype) -> None:
    ragged = Ragged.from_sizes([66000, 3])  # in half precision a sum over so many keys is infinite
    q, k, v = (torch.randn(66003, 1, 2) for _ in range(3))
    projection, edges = torch.randn(4, 2), torch.tensor([[0, 66001], [7, 66002]])
    attended, weights = kernel_attention(q, k, v, projection, ragged), edge_weights(q, k, projection, ragged, edges)
    with torch.autocast("cpu", dtype):
        assert torch.equal(kernel_attention(q, k, v, projection, ragged), attended)
        assert torch.equal(edge_weights(q, k, projection, ragged, edges), weights)


def test_weights_of_edges_stay_wide() -> None:
    ragged = Ragged.from_sizes([66000])
    q, k = (torch.zeros(66000, 1, 2, dtype=torch.float16) for _ in range(2))
    k[0] = 4.0
    weights = edge_weights(q, k, torch.randn(4, 2), ragged, torch.tensor([[0, 1], [1, 0]]), eps=1e-6)
    assert weights.dtype == torch.float32
    assert bool((weights > 0).all())


def test_wrong_arguments_are_refused() -> None:
    ragged = Ragged.from_sizes([2, 3])
    q, k, v = (x.detach() for x in inputs_for(ragged))
    with pytest.raises(ValueError, match=r"\(5, 2, 5\)"):
        kernel_attention(q, k, v[:, :2], directions(), ragged)
    with pytest.raises(ValueError, match=r"received \(9, 7\)"):
        kernel_attention(q, k, v, directions(d=7), ragged)
    with pytest.raises(ValueError, match="eps"):
        kernel_attention(q, k, v, directions(), ragged, eps=0.0)
    with pytest.raises(ValueError, match=r"key_weights must be \(5, H, 1 or more\)"):
        kernel_attention(q, k, v, directions(), ragged, key_weights=torch.ones(5, 3, 0))


@pytest.mark.parametrize("sizes", [[5, 0, 1, 9], [2], []], ids=str)
def test_weights_of_edges_equal_the_dense_formula(sizes: list[int]) -> None:
    ragged, projection = Ragged.from_sizes(sizes), directions()
    q, k, _ = inputs_for(ragged)
    pairs = [(s, t) for s in range(ragged.num_rows) for t in range(ragged.num_rows)]
    within = [(s, t) for s, t in pairs if ragged.graph_id[s] == ragged.graph_id[t]]
    edges = torch.tensor(within, dtype=torch.int64).view(-1, 2).t()
    found, expected = (
        lambda q, k, name=name: edge_weights(q, k, projection, ragged, edges, backend=name)
        for name in ("cpu", "reference")
    )
    assert_same(found, expected, [q, k])
    total = torch.zeros(ragged.num_rows, 3, dtype=torch.float64).index_add_(0, edges[1], found(q, k).detach())
    torch.testing.assert_close(total, torch.ones_like(total))


def test_weights_of_edges_refuse_what_attention_refuses() -> None:
    q = torch.ones(3, 1, 2)
    edges = torch.zeros(2, 1, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"must be \(4, H, d\)"):
        edge_weights(q, q, torch.ones(1, 2), Ragged.from_sizes([4]), edges)
    with pytest.raises(ValueError, match="eps must be positive, received 0"):
        edge_weights(q, q, torch.ones(1, 2), Ragged.from_sizes([3]), edges, eps=0.0)
