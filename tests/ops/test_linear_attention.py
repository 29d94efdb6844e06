"""SGFormer's linear attention: against the dense formula, recorded numbers, corner cases."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.ops.linear_attention import linear_attention, linear_attention_of_sums, linear_attention_sums
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import AWKWARD, assert_same, assert_within_budget, normal

NORMS = pytest.mark.parametrize("norm", ["frobenius", "l2"])
BASES = pytest.mark.parametrize("base", ["self", "uniform", "none"])


def inputs_for(ragged: Ragged, value_heads: int = 3) -> list[Tensor]:
    n = ragged.num_rows
    return [normal(n, 3, 6), normal(n, 3, 6), normal(n, value_heads, 5)]


def call(ragged: Ragged, norm: str, backend: str, base: str = "self"):
    return lambda q, k, v: linear_attention(q, k, v, ragged, norm=norm, base=base, backend=backend)


def test_by_hand() -> None:
    """Two nodes, unit vectors: q~ = k~ = (1, 0)/sqrt 2, (0, 1)/sqrt 2, so the weights are 2.5 : 0 and 0 : 2.5."""
    eye, v = torch.eye(2).unsqueeze(1), torch.tensor([[[4.0]], [[9.0]]])
    same = torch.ones(2, 1, 2) / 2**0.5
    for backend in ("reference", "cpu"):
        out = linear_attention(eye, eye, v, Ragged.from_sizes([2]), backend=backend)
        torch.testing.assert_close(out, v)
        # q~ . k~ = 1/2 for every pair: weights 2.5 and 0.5 of 3
        out = linear_attention(same, same, v, Ragged.from_sizes([2]), backend=backend)
        torch.testing.assert_close(out.flatten(), torch.tensor([2.5 * 4 + 0.5 * 9, 0.5 * 4 + 2.5 * 9]) / 3)


@pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.parametrize("value_heads", [3, 1])
@BASES
@NORMS
def test_equals_the_dense_formula(sizes: list[int], value_heads: int, norm: str, base: str) -> None:
    ragged = Ragged.from_sizes(sizes)
    inputs = inputs_for(ragged, value_heads)
    if ragged.num_rows:
        # Graphs of one or two nodes may put a denominator near zero; keep q and k on one side of the origin.
        inputs[:2] = [(x.detach().abs() + 0.1).requires_grad_() for x in inputs[:2]]
    assert_same(call(ragged, norm, "cpu", base), call(ragged, norm, "reference", base), inputs)


@NORMS
def test_weights_that_cancel_are_kept_from_zero(norm: str) -> None:
    """Without a base, sums of weights cross zero: values, both signs and the floor agree with the dense formula."""
    ragged = Ragged.from_sizes([400, 3, 1])
    inputs = inputs_for(ragged)
    assert_same(call(ragged, norm, "cpu", "none"), call(ragged, norm, "reference", "none"), inputs)
    q, k, v = (x.detach() for x in inputs)
    out = linear_attention(q, k, v, ragged, norm=norm, base="none")
    # However the weights cancel, their sizes sum to at most 100 after the division.
    assert out.abs().max() <= 100 * v.abs().max()
    total = torch.einsum("ihd,jhd->ihj", q[:400], k[:400]).sum(2)
    assert (total > 0).any()
    assert (total < 0).any()
    # Keys that cancel exactly: the sum of weights is 0, its floor is not.
    k[:400] = torch.cat([k[:200], -k[:200]])
    nothing = linear_attention(q, k, v, ragged, norm=norm, base="none")
    assert nothing.isfinite().all()
    # One node: its only weight, whatever the sign.
    torch.testing.assert_close(nothing[403:], v[403:])


@pytest.mark.parametrize("base", ["self", "uniform"])
@pytest.mark.parametrize(("sizes", "width"), [([1, 1], 6), ([1], 1), ([5, 3, 1, 2], 1)])
@NORMS
def test_a_sum_of_weights_that_is_zero(sizes: list[int], width: int, norm: str, base: str) -> None:
    """Keys opposite to queries take the whole base away: it alone is left, in values, gradients and sums."""
    ragged = Ragged.from_sizes(sizes)
    v = normal(ragged.num_rows, 3, 5)
    q = (normal(ragged.num_rows, 3, width).detach().abs() + 0.1).requires_grad_()
    for backend in ("cpu", "reference"):
        inputs = [q, (-q).detach().requires_grad_(), v]
        out = call(ragged, norm, backend, base)(*inputs)
        grads = torch.autograd.grad(out.square().sum(), inputs)
        assert all(grad.isfinite().all() for grad in (out, *grads))
        if norm == "l2" or max(sizes) == 1:
            mean = torch.cat([part.mean(0).expand_as(part) for part in v.split(sizes)])
            torch.testing.assert_close(out, v if base == "self" else mean)
        if norm == "l2":
            assert not grads[0].any()
    if len(sizes) == 1:
        tensors = q.detach(), -q.detach(), v.detach()
        from_sums = linear_attention_of_sums(
            tensors[0], tensors[2], linear_attention_sums(*tensors, norm=norm), norm=norm, base=base
        )
        torch.testing.assert_close(from_sums, tensors[2])


def test_no_base_by_hand() -> None:
    """q~ . k~ = 3 and 1 for the only query that counts: weights 3/4 and 1/4."""
    q, k = torch.tensor([1.0, 0.0]).view(2, 1, 1), torch.tensor([3.0, 1.0]).view(2, 1, 1)
    v = torch.tensor([4.0, 8.0]).view(2, 1, 1)
    for backend in ("reference", "cpu"):
        out = linear_attention(q, k, v, Ragged.from_sizes([2]), base="none", backend=backend)
        torch.testing.assert_close(out.flatten(), torch.tensor([5.0, 0.0]))
        # With q~ = 1, 0 and k~ = 3, 1 over sqrt 10, the first row of weights is 1 + 3 / sqrt 10, 1 + 1 / sqrt 10.
        weights = torch.tensor([[1 + 3 / 10**0.5, 1 + 1 / 10**0.5], [1.0, 1.0]])
        out = linear_attention(q, k, v, Ragged.from_sizes([2]), base="uniform", backend=backend)
        torch.testing.assert_close(out.flatten(), (weights / weights.sum(1, keepdim=True)) @ v.flatten())


@BASES
@NORMS
def test_gradcheck(norm: str, base: str) -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 4])
    inputs = [(x.detach().abs() + 0.1).requires_grad_() for x in inputs_for(ragged)]
    assert torch.autograd.gradcheck(call(ragged, norm, "cpu", base), inputs, fast_mode=True)


@pytest.mark.parametrize(
    ("sizes", "offset"),
    [([63, 64, 65], 0.0), ([63, 64, 65], 10.0), ([3, 500, 20], 0.0), ([3, 500, 20], 10.0), ([2000], 10.0)],
    ids=str,
)
@NORMS
def test_error_in_float32(sizes: list[int], offset: float, norm: str) -> None:
    """Values far from zero too: their mean must not drown what attention adds."""
    ragged = Ragged.from_sizes(sizes)
    q, k, v = inputs_for(ragged)
    v = (v.detach() + offset).requires_grad_()
    assert_within_budget(call(ragged, norm, "cpu"), call(ragged, norm, "reference"), [q, k, v])


@pytest.mark.parametrize("name", ["h1", "h3", "h3_shared_value", "one_node"])
def test_equals_released_code(name: str, golden: Any) -> None:
    arrays = golden(f"sgformer/full_attention_conv_{name}")
    inputs = [arrays[f"in/{x}"].double().requires_grad_() for x in "qkv"]
    out = linear_attention(*inputs, Ragged.from_sizes([len(inputs[0])]))
    torch.testing.assert_close(out, arrays["out/out"], rtol=1e-12, atol=1e-14)
    found = torch.autograd.grad(out, inputs, arrays["in/grad_seed.out"].double())
    for each, value in zip("qkv", found):
        torch.testing.assert_close(value, arrays[f"grad/in.{each}"], rtol=1e-10, atol=1e-14)


def test_graphs_do_not_mix() -> None:
    sizes = [30, 4, 0, 11]
    ragged = Ragged.from_sizes(sizes)
    q, k, v = (x.detach() for x in inputs_for(ragged))
    out = linear_attention(q, k, v, ragged)
    for *inputs, expected in zip(*(x.split(sizes) for x in (q, k, v, out))):
        torch.testing.assert_close(linear_attention(*inputs, Ragged.from_sizes([len(expected)])), expected)


@NORMS
def test_zero_queries_return_the_values_with_finite_gradients(norm: str) -> None:
    ragged = Ragged.from_sizes([4, 2])
    q, k, v = inputs_for(ragged)
    q = torch.zeros_like(q, requires_grad=True)
    out = linear_attention(q, k, v, ragged, norm=norm)
    torch.testing.assert_close(out, v)
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.sum(), (q, k, v)))


def test_bfloat16_computes_in_float32() -> None:
    ragged = Ragged.from_sizes([200])
    half = [x.detach().bfloat16() for x in inputs_for(ragged)]
    out = linear_attention(*half, ragged)
    truth = linear_attention(*(x.double() for x in half), ragged, backend="reference")
    assert out.dtype == torch.bfloat16
    assert (out - truth).abs().max() <= torch.finfo(torch.bfloat16).eps * truth.abs().max()


def test_wrong_arguments_are_refused() -> None:
    ragged = Ragged.from_sizes([2, 3])
    q, k, v = (x.detach() for x in inputs_for(ragged))
    with pytest.raises(ValueError, match=r"\(5, 2, 5\)"):
        linear_attention(q, k, v[:, :2], ragged)
    with pytest.raises(ValueError, match="'l1'"):
        linear_attention(q, k, v, ragged, norm="l1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"base must be one of .*, received 'loop'"):
        linear_attention(q, k, v, ragged, base="loop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"base must be one of .*, received 'loop'"):
        linear_attention_of_sums(q, v, linear_attention_sums(q, k, v), base="loop")


@pytest.mark.parametrize("value_heads", [3, 1])
@BASES
@NORMS
def test_sums_over_blocks_give_the_whole(value_heads: int, norm: str, base: str) -> None:
    q, k, v = (x.detach() for x in inputs_for(Ragged.from_sizes([500]), value_heads))
    k[3] = 0  # a row of zeros stays a row of zeros
    expected = linear_attention(q, k, v, Ragged.from_sizes([500]), norm=norm, base=base, backend="reference")
    parts = [x.split([1, 99, 400]) for x in (q, k, v)]
    first, second, third = (linear_attention_sums(*part, norm=norm) for part in zip(*parts, strict=True))
    whole = first + second + third
    assert whole.count == 500
    found = [linear_attention_of_sums(a, c, whole, norm=norm, base=base) for a, _, c in zip(*parts, strict=True)]
    torch.testing.assert_close(torch.cat(found), expected, rtol=1e-10, atol=1e-12)


def test_sums_of_zeros_and_of_half_precision() -> None:
    zeros, v = torch.zeros(4, 1, 2), torch.arange(4.0).view(4, 1, 1)
    sums = linear_attention_sums(zeros, zeros, v)
    assert torch.equal(linear_attention_of_sums(zeros, v, sums), v)  # no flow: every row keeps its value
    q = torch.randn(64, 2, 3)
    sums = linear_attention_sums(q.bfloat16(), q.bfloat16(), q.bfloat16())
    out = linear_attention_of_sums(q.bfloat16(), q.bfloat16(), sums)
    assert out.dtype is torch.bfloat16
    exact = linear_attention(q.double(), q.double(), q.double(), Ragged.from_sizes([64]), backend="reference")
    torch.testing.assert_close(out.double(), exact, rtol=0.05, atol=0.05)


def test_sums_refuse_an_unknown_norm() -> None:
    q = torch.ones(2, 1, 2)
    with pytest.raises(ValueError, match=r"norm must be one of \('frobenius', 'l2'\), received 'l1'"):
        linear_attention_sums(q, q, q, norm="l1")


def test_autocast_changes_nothing() -> None:
    ragged = Ragged.from_sizes([300, 2])
    results = []
    for enabled in (False, True):
        torch.manual_seed(0)
        q, k, v = (torch.randn(302, 2, 4, requires_grad=True) for _ in range(3))
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = linear_attention(q, k, v, ragged)
            blocks = linear_attention_of_sums(q[:300], v[:300], linear_attention_sums(q[:300], k[:300], v[:300]))
        out.square().sum().backward()
        results.append([out, q.grad, k.grad, v.grad, blocks])
    for plain, cast in zip(*results, strict=True):
        assert torch.equal(plain, cast)
