"""Attention by weights of pairs: by hand, against the dense formula, in blocks, corner cases."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphbench.ops.pair_attention import cpu, pair_attention
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import AWKWARD, assert_same, assert_within_budget, normal

WEIGHTS = pytest.mark.parametrize("weight", ["sigmoid", "additive"])


def inputs_for(ragged: Ragged, value_heads: int = 3) -> list[Tensor]:
    n = ragged.num_rows
    return [normal(n, 3, 4), normal(n, 3, 4), normal(n, value_heads, 5)]


def call(ragged: Ragged, weight: str, backend: str):
    return lambda q, k, v: pair_attention(q, k, v, ragged, weight=weight, backend=backend)


def test_by_hand() -> None:
    """Queries 0 weigh all keys alike by sigmoids; scores ln 2 and -5 ln 2 weigh 2 and 1/2 by GAT."""
    q, v = torch.zeros(2, 1, 1), torch.tensor([4.0, 9.0]).view(2, 1, 1)
    k = torch.tensor([1.0, -5.0]).view(2, 1, 1) * torch.tensor(2.0).log()
    for backend in ("reference", "cpu"):
        out = pair_attention(q, k, v, Ragged.from_sizes([2]), weight="sigmoid", backend=backend)
        torch.testing.assert_close(out, torch.full((2, 1, 1), 6.5))
        out = pair_attention(q, k, v, Ragged.from_sizes([2]), weight="additive", backend=backend)
        torch.testing.assert_close(out, torch.full((2, 1, 1), (2 * 4 + 0.5 * 9) / 2.5))


@pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.parametrize("value_heads", [3, 1])
@WEIGHTS
def test_equals_the_dense_formula(sizes: list[int], value_heads: int, weight: str) -> None:
    ragged = Ragged.from_sizes(sizes)
    inputs = inputs_for(ragged, value_heads)
    assert_same(call(ragged, weight, "cpu"), call(ragged, weight, "reference"), inputs)


@WEIGHTS
def test_blocks_change_nothing_and_are_not_kept(weight: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ragged = Ragged.from_sizes([50, 61, 8])
    inputs = inputs_for(ragged)
    monkeypatch.setattr(cpu, "_PAIRS", 2000)
    assert_same(call(ragged, weight, "cpu"), call(ragged, weight, "reference"), inputs)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda each: kept.append(each.numel()) or each, lambda each: each):
        pair_attention(*inputs, ragged, weight=weight)
    assert max(kept) < 61 * 61


@WEIGHTS
def test_gradcheck(weight: str) -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 4])
    assert torch.autograd.gradcheck(call(ragged, weight, "cpu"), inputs_for(ragged))


@WEIGHTS
def test_error_in_float32(weight: str) -> None:
    ragged = Ragged.from_sizes([3, 300, 20])
    assert_within_budget(call(ragged, weight, "cpu"), call(ragged, weight, "reference"), inputs_for(ragged))


@WEIGHTS
def test_far_from_zero(weight: str) -> None:
    """All sigmoids of a row are below the smallest float, or all exponentials above the largest; ratios stay."""
    q, v = torch.ones(3, 1, 1), torch.arange(3.0).view(3, 1, 1)
    shift = -200.0 if weight == "sigmoid" else 500.0
    k = torch.tensor([0.0, 1.0, 2.0]).view(3, 1, 1) + shift
    expected = torch.softmax(torch.arange(3.0), 0) @ v.flatten()
    out = pair_attention(q, k, v, Ragged.from_sizes([3]), weight=weight)
    torch.testing.assert_close(out.flatten(), expected.expand(3))


def test_bfloat16_computes_in_float32() -> None:
    ragged = Ragged.from_sizes([100])
    half = [x.detach().bfloat16() for x in inputs_for(ragged)]
    out = pair_attention(*half, ragged, weight="sigmoid")
    truth = pair_attention(*(x.double() for x in half), ragged, weight="sigmoid", backend="reference")
    assert out.dtype == torch.bfloat16
    assert (out - truth).abs().max() <= torch.finfo(torch.bfloat16).eps * truth.abs().max()


def test_wrong_arguments_are_refused() -> None:
    ragged = Ragged.from_sizes([2, 3])
    q, k, v = (x.detach() for x in inputs_for(ragged))
    with pytest.raises(ValueError, match=r"\(4, 3, 5\)"):
        pair_attention(q, k, v[:4], ragged, weight="sigmoid")
    with pytest.raises(ValueError, match="3 heads or 1, received 2"):
        pair_attention(q, k, v[:, :2], ragged, weight="sigmoid")
    with pytest.raises(ValueError, match=r"\('sigmoid', 'additive'\), received 'softmax'"):
        pair_attention(q, k, v, ragged, weight="softmax")  # type: ignore[arg-type]


def test_second_derivatives_are_refused() -> None:
    """They were 0 without a word."""
    ragged = Ragged.from_sizes([3])
    x = torch.randn(3, 1, 2, dtype=torch.float64, requires_grad=True)
    out = pair_attention(x, x, x, ragged, weight="sigmoid", backend="cpu")
    with pytest.raises(RuntimeError, match="first derivatives only; call backward without create_graph"):
        torch.autograd.grad(out.square().sum(), x, create_graph=True)
