"""Softmax attention: fast paths against the reference, dropout, corner cases."""

from __future__ import annotations

import functools

import pytest
import torch
from torch import Tensor

from graphbench.ops.softmax_attention import cpu, cpu_small, softmax_attention
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import AWKWARD, assert_same, assert_within_budget, normal

SIZES = pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
reference = functools.partial(softmax_attention, backend="reference")


def inputs_for(ragged: Ragged, heads: int = 3, d: int = 5, e: int = 4, bias: bool = False) -> list[Tensor]:
    n = ragged.num_rows
    tensors = [normal(n, heads, d), normal(n, heads, d), normal(n, heads, e)]
    return [*tensors, normal(sum(s * s for s in ragged.sizes), heads)] if bias else tensors


def test_by_hand() -> None:
    """Two nodes, scores 0 and ln 3 for the first query: weights 1/4 and 3/4; the other graph sees itself only."""
    ragged = Ragged.from_sizes([2, 1])
    q = torch.tensor([[[1.0]], [[0.0]], [[9.0]]])
    k = torch.tensor([[[0.0]], [[3.0]], [[9.0]]]).log1p()
    k[1] = torch.tensor(3.0).log()
    v = torch.tensor([[[4.0]], [[8.0]], [[5.0]]])
    for backend in ("reference", "cpu"):
        out = softmax_attention(q, k, v, ragged, backend=backend)
        torch.testing.assert_close(out.flatten(), torch.tensor([7.0, 6.0, 5.0]))


@SIZES
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
def test_equals_reference(sizes: list[int], bias: bool) -> None:
    ragged = Ragged.from_sizes(sizes)
    inputs = inputs_for(ragged, bias=bias)

    def call(backend: str):
        return lambda q, k, v, *b: softmax_attention(q, k, v, ragged, bias=b[0] if b else None, backend=backend)

    assert_same(call("cpu"), call("reference"), inputs)


def packed_for(ragged: Ragged, heads: int = 3, d: int = 5) -> Tensor:
    """Queries, keys and values of one width."""
    return normal(ragged.num_rows, 3, heads, d)


@SIZES
@pytest.mark.parametrize("packed", [False, True], ids=["apart", "packed"])
def test_small_graphs_equal_reference(sizes: list[int], packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_small, "_STORED", 1 << 30)
    ragged = Ragged.from_sizes(sizes)

    def call(backend: str):
        return lambda qkv: softmax_attention(*qkv.unbind(1), ragged, packed=qkv if packed else None, backend=backend)

    assert_same(call("cpu"), call("reference"), [packed_for(ragged)])


@pytest.mark.parametrize("sizes", [[3, 0, 1, 4], [6], [5, 5], [40, 39, 3, 12]], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_small_graphs_keep_the_weights_that_tiles_keep(
    sizes: list[int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    ragged = Ragged.from_sizes(sizes)
    qkv = packed_for(ragged).detach().to(dtype).requires_grad_()
    found = []
    for stored in (1 << 18, 0):
        monkeypatch.setattr(cpu_small, "_STORED", stored)
        torch.manual_seed(5)
        out = softmax_attention(*qkv.unbind(1), ragged, dropout_p=0.5, packed=qkv)
        found.append((out, *torch.autograd.grad(out, qkv, torch.ones_like(out))))
    for small, tiles in zip(*found, strict=True):
        assert small.dtype == dtype
        roundings = 4 if dtype == torch.bfloat16 else 1000  # what is computed in fp32 is rounded to bf16 at the end
        budget = roundings * torch.finfo(dtype).eps * max(tiles.abs().max().item(), 1.0)
        torch.testing.assert_close(small, tiles, rtol=0, atol=budget)


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_gradcheck_of_small_graphs(p: float) -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 4])

    def call(qkv: Tensor) -> Tensor:
        torch.manual_seed(5)
        return softmax_attention(*qkv.unbind(1), ragged, dropout_p=p, packed=qkv)

    assert torch.autograd.gradcheck(call, [packed_for(ragged, heads=2, d=3)], fast_mode=True)


def test_what_is_stored_of_small_graphs_is_bounded() -> None:
    heads, width = 8, 4
    for sizes in ([60] * 9, [60] * 10, [20] * 200, [500]):
        ragged = Ragged.from_sizes(sizes)
        qkv = packed_for(ragged, heads, width).detach().float().requires_grad_()
        saved: list[Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, saved=saved: saved.append(t) or t, lambda t: t):
            softmax_attention(*qkv.unbind(1), ragged, dropout_p=0.5, packed=qkv)
        assert sum(x.numel() for x in saved) <= qkv.numel() + 2 * cpu_small._STORED


@SIZES
def test_fused_path_equals_reference(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)
    if ragged.num_rows:
        inputs = inputs_for(ragged, bias=True)
        assert_same(
            lambda q, k, v, b: cpu.fused(q, k, v, ragged, 0.0, b),
            lambda q, k, v, b: reference(q, k, v, ragged, bias=b),
            inputs,
        )
        assert_same(
            lambda q, k, v: cpu.fused(q, k, v, ragged, 0.0, None),
            lambda q, k, v: reference(q, k, v, ragged),
            inputs[:3],
        )


@pytest.mark.parametrize("block", [64, 1000, 20000])
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
def test_a_graph_larger_than_a_block_is_cut(block: int, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_PAIRS", block)
    ragged = Ragged.from_sizes([4, 150, 3])
    inputs = inputs_for(ragged, bias=bias)

    def call(backend: str):
        return lambda q, k, v, *b: softmax_attention(q, k, v, ragged, bias=b[0] if b else None, backend=backend)

    assert_same(call("cpu"), call("reference"), inputs)


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
def test_gradcheck(p: float, bias: bool) -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 4])
    inputs = inputs_for(ragged, heads=2, d=3, e=2, bias=bias)

    def call(q: Tensor, k: Tensor, v: Tensor, b: Tensor | None = None) -> Tensor:
        torch.manual_seed(5)
        return softmax_attention(q, k, v, ragged, dropout_p=p, bias=b)

    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)


@pytest.mark.parametrize("sizes", [[63, 64, 65], [1, 444, 8, 150], [900], [23] * 32], ids=str)
def test_error_in_float32(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)
    inputs = inputs_for(ragged, heads=4, d=24, e=24)  # of equal widths: small ones are stored
    assert_within_budget(
        lambda q, k, v: softmax_attention(q, k, v, ragged), lambda q, k, v: reference(q, k, v, ragged), inputs
    )


@pytest.mark.parametrize("path", ["tiles", "fused"])
def test_a_bias_of_minus_infinity(path: str) -> None:
    """Of the first pair of a graph, which padding repeats: no row of padding may be without a key."""
    ragged = Ragged.from_sizes([5, 3])
    *inputs, bias = inputs_for(ragged, bias=True)
    closed = torch.zeros_like(bias).index_fill_(0, torch.tensor([0, 25]), -torch.inf)

    def ours(q: Tensor, k: Tensor, v: Tensor, b: Tensor) -> Tensor:
        if path == "fused":
            return cpu.fused(q, k, v, ragged, 0.0, b + closed)
        return softmax_attention(q, k, v, ragged, bias=b + closed, backend="cpu")

    assert_same(ours, lambda q, k, v, b: reference(q, k, v, ragged, bias=b + closed), [*inputs, bias])


def test_large_scores_do_not_overflow() -> None:
    ragged = Ragged.from_sizes([50, 7])
    q, k, v = (x.detach().float() for x in inputs_for(ragged))
    out = softmax_attention(100 * q, 100 * k, v, ragged)
    assert out.isfinite().all()
    torch.testing.assert_close(out, reference(100 * q, 100 * k, v, ragged))


def test_autocast_changes_nothing() -> None:
    ragged = Ragged.from_sizes([5, 9, 30])
    half = [x.detach().bfloat16() for x in inputs_for(ragged)]
    expected = softmax_attention(*half, ragged)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(softmax_attention(*half, ragged), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_accumulates_in_single(dtype: torch.dtype) -> None:
    ragged = Ragged.from_sizes([300, 20])
    exact = [x.detach() for x in inputs_for(ragged, heads=2, d=8, e=8)]
    half = [x.to(dtype) for x in exact]
    out = softmax_attention(*half, ragged)
    assert out.dtype == dtype
    truth = reference(*(x.double() for x in half), ragged)
    assert (out - truth).abs().max() <= torch.finfo(dtype).eps * truth.abs().max()


@pytest.mark.parametrize("sizes", [[40, 39, 3], [30]], ids=str)
def test_half_precision_with_a_bias(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)
    half = [x.detach().bfloat16().requires_grad_() for x in inputs_for(ragged, bias=True)]
    q, k, v, bias = half
    out = softmax_attention(q, k, v, ragged, bias=bias)
    out.sum().backward()
    exact = [x.detach().double().requires_grad_() for x in half]
    truth = reference(*exact[:3], ragged, bias=exact[3])
    truth.sum().backward()
    assert (out - truth).abs().max() <= torch.finfo(torch.bfloat16).eps * truth.abs().max()
    for ours, theirs in zip(half, exact, strict=True):
        assert ours.grad.dtype == torch.bfloat16
        assert (ours.grad - theirs.grad).abs().max() <= 2 * torch.finfo(torch.bfloat16).eps * theirs.grad.abs().max()


def test_batch_independence_and_permutation() -> None:
    ragged = Ragged.from_sizes([5, 0, 70, 9])
    q, k, v = (x.detach() for x in inputs_for(ragged))
    out = softmax_attention(q, k, v, ragged)
    parts = [x.split([5, 0, 70, 9]) for x in (q, k, v, out)]
    for *inputs, expected in zip(*parts):
        torch.testing.assert_close(softmax_attention(*inputs, Ragged.from_sizes([len(expected)])), expected)
    perm = torch.cat([torch.randperm(5), 5 + torch.randperm(70), 75 + torch.randperm(9)])
    torch.testing.assert_close(softmax_attention(q[perm], k[perm], v[perm], ragged), out[perm])


def kept(ragged: Ragged, p: float, heads: int = 2) -> Tensor:
    """Which attention weights dropout kept: uniform weights and one-hot values make them visible."""
    n = ragged.num_rows
    q, v = torch.zeros(n, heads, 2), torch.eye(n)[:, None, :].expand(n, heads, n)
    return softmax_attention(q, q, v, ragged, dropout_p=p)


def test_dropout_rate_scale_and_independence() -> None:
    n, p = 120, 0.3
    weights = kept(Ragged.from_sizes([n]), p) * n * (1 - p)
    on = weights > 0
    torch.testing.assert_close(weights[on], torch.ones(int(on.sum())), rtol=1e-4, atol=0)
    assert on.double().mean().item() == pytest.approx(1 - p, abs=0.01)
    assert on.double().mean((1, 2)).std().item() < 0.05
    both = (on[:, 0] & on[:, 1]).double().mean().item()
    assert both == pytest.approx((1 - p) ** 2, abs=0.02)


def test_dropout_follows_the_global_generator() -> None:
    ragged = Ragged.from_sizes([30, 40, 2])
    torch.manual_seed(1)
    first, second = kept(ragged, 0.5), kept(ragged, 0.5)
    torch.manual_seed(1)
    assert torch.equal(kept(ragged, 0.5), first)
    assert not torch.equal(first, second)


def test_dropping_everything_gives_zero() -> None:
    assert not kept(Ragged.from_sizes([5]), 1.0).any()


def test_memory_of_one_large_graph_is_linear() -> None:
    """What the forward pass keeps for the backward pass are its inputs."""
    ragged = Ragged.from_sizes([2000])
    inputs = [normal(2000, 1, 8, dtype=torch.float32) for _ in range(3)]
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        softmax_attention(*inputs, ragged, dropout_p=0.5)
    assert sum(x.numel() for x in saved) <= 3 * 2000 * 8


def test_wrong_shapes_are_refused() -> None:
    ragged = Ragged.from_sizes([2, 3])
    q, k, v = (x.detach() for x in inputs_for(ragged))
    with pytest.raises(ValueError, match=r"\(4, 3, 5\)"):
        softmax_attention(q[:4], k[:4], v[:4], ragged)
    with pytest.raises(ValueError, match=r"bias must be \(13, 3\)"):
        softmax_attention(q, k, v, ragged, bias=torch.zeros(12, 3))
    with pytest.raises(ValueError, match=r"received 1\.5"):
        softmax_attention(q, k, v, ragged, dropout_p=1.5)
    with pytest.raises(ValueError, match="'gpuu'"):
        softmax_attention(q, k, v, ragged, backend="gpuu")
