"""Circular convolution: against the circulant matrix, against the paper's matrix, corner cases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from graphbench.ops.circular_conv import circular_conv, cpu, fourier, padded
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import AWKWARD, assert_same, assert_within_budget, normal

SIZES = AWKWARD | {
    "primes": [2, 3, 31, 37, 131, 257, 499, 37],
    "powers_of_two": [1, 2, 32, 64, 128, 512, 64],
    "around_the_limit": [31, 32, 33, 34, 32],
    "interleaved": [40, 5, 40, 0, 5, 37],
}
GATED = pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])


def inputs_for(ragged: Ragged, gated: bool = True, width: int = 3) -> list[Tensor]:
    rows = [ragged.num_rows, sum(ragged.distinct_sizes), ragged.num_rows]
    return [normal(n, width) for n in rows[: 3 if gated else 2]]


def call(ragged: Ragged, backend: str = "auto") -> Callable[..., Tensor]:
    return lambda u, filters, gate=None: circular_conv(u, filters, ragged, gate=gate, backend=backend)


@pytest.mark.parametrize("backend", ["reference", "cpu", "gpu", "auto"])
def test_by_hand(backend: str) -> None:
    """Graphs of 2, 3 and 2 nodes: two share the filter (1, 10), the other has (1, 10, 100)."""
    ragged = Ragged.from_sizes([2, 3, 2])
    assert ragged.distinct_sizes == (2, 3)
    filters = torch.tensor([1.0, 10.0, 1.0, 10.0, 100.0]).unsqueeze(1)
    u = torch.tensor([1.0, 2.0, 1.0, 2.0, 3.0, 0.0, 5.0]).unsqueeze(1)
    expected = [1 + 20, 10 + 2, 1 + 200 + 30, 10 + 2 + 300, 100 + 20 + 3, 50, 5]
    out = circular_conv(u, filters, ragged, backend=backend)
    torch.testing.assert_close(out.flatten(), torch.tensor(expected, dtype=torch.float32))
    gate = torch.arange(7.0).unsqueeze(1)
    gated = circular_conv(u, filters, ragged, gate=gate, backend=backend)
    torch.testing.assert_close(gated.flatten(), torch.arange(7.0) * torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize(
    "limits", [(32, 0), (0, 0), (1000, 0), cpu._ELSEWHERE], ids=["as_it_is", "only_fft", "only_matrices", "on_a_gpu"]
)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@GATED
def test_equals_the_circulant_matrix(
    sizes: list[int], gated: bool, limits: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every transform on every size."""
    monkeypatch.setitem(cpu._LIMITS, "cpu", limits)
    ragged = Ragged.from_sizes(sizes)
    assert_same(call(ragged), call(ragged, "reference"), inputs_for(ragged, gated))


def test_channels_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fourier, "_CHUNK", 1)
    ragged = Ragged.from_sizes([40, 37, 40, 3])
    assert len(fourier.Fourier(40, 2).columns(37)) == 3
    assert_same(call(ragged), call(ragged, "reference"), inputs_for(ragged, width=37))


def test_padded_in_pieces_and_without_spectra(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU does with batches of many large graphs."""
    monkeypatch.setitem(cpu._LIMITS, "cpu", cpu._ELSEWHERE)
    for name in ("_CHUNK", "SMALL"):
        monkeypatch.setattr(padded, name, 0)
    ragged = Ragged.from_sizes([40, 37, 0, 40, 3])
    (group,) = cpu._groups(ragged)
    assert not group.transform.keeps_spectra
    assert len(group.transform.columns(5)) == 5
    assert_same(call(ragged), call(ragged, "reference"), inputs_for(ragged, width=5))


def test_which_graphs_share_transforms() -> None:
    """Sizes and how many there are, on a GPU: a usual batch is one group, giants and outliers stay alone."""
    usual = dict.fromkeys(range(9, 445), 1)
    assert cpu._together(usual, *cpu._ELSEWHERE) == [list(usual)]
    assert cpu._together({5: 1, 4096: 1, 5000: 1, 5001: 2}, *cpu._ELSEWHERE) == [[5, 4096], [5000], [5001]]
    assert cpu._together({10: 9000, 11: 9000, 4000: 1}, *cpu._ELSEWHERE) == [[10, 11], [4000]]
    assert cpu._together({3: 1, 32: 4, 33: 1, 40: 1}, 32, 0) == [[3, 32], [33], [40]]


def test_a_result_lies_in_memory_as_its_input() -> None:
    """Also channel by channel, as layers with one long graph on a GPU pass it."""
    ragged = Ragged.from_sizes([48])
    u, filters, gate = (x.detach() for x in inputs_for(ragged))
    expected = circular_conv(u, filters, ragged, gate=gate)
    u, filters, gate = (x.t().contiguous().t().requires_grad_() for x in (u, filters, gate))
    out = circular_conv(u, filters, ragged, gate=gate)
    assert out.stride() == u.stride() == (1, 48)
    torch.testing.assert_close(out, expected)
    assert_same(call(ragged), call(ragged, "reference"), [u, filters, gate])


@pytest.mark.parametrize("n", [131101, 131072, 2 * 3 * 5 * 7 * 11 * 13])
def test_one_long_graph(n: int) -> None:
    """A prime number of nodes (padded to a power of two), a power of two and another product of small primes."""
    u, filters = (torch.randn(n, 1, dtype=torch.float64) for _ in range(2))
    out = circular_conv(u, filters, Ragged.from_sizes([n]))
    some = np.random.default_rng(0).integers(n, size=20)
    for t in some:
        expected = u[:, 0] @ filters[(t - torch.arange(n)) % n, 0]
        assert abs(out[t, 0] - expected) < 1e-10 * n**0.5


def test_padded_lengths_hold_both_ends() -> None:
    for least in [*range(2, 3000), 2 * 131101, 300000, (1 << 20) + 2]:
        length = fourier._padded(least)
        assert least <= length <= least * (9 / 8 if least <= 1 << 18 else 2)
        odd = length // (length & -length)
        assert odd <= (15 if least <= 1 << 18 else 1)


@pytest.mark.parametrize(("sizes", "width"), [([3, 0, 1, 4, 3], 2), ([35, 2], 1), ([37, 2], 1)], ids=str)
@GATED
def test_gradcheck(sizes: list[int], width: int, gated: bool) -> None:
    ragged = Ragged.from_sizes(sizes)
    assert torch.autograd.gradcheck(call(ragged), inputs_for(ragged, gated, width))


LENGTHS = [[1, 2, 3] * 5, [23] * 5, [31, 32, 32], [63, 64, 65], [3, 500, 20], [997], [1500]]


@pytest.mark.parametrize("sizes", LENGTHS, ids=str)
@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_error_in_float32(sizes: list[int], offset: float) -> None:
    """Rows and taps far from zero, too."""
    ragged = Ragged.from_sizes(sizes)
    inputs = [(x.detach() + offset).requires_grad_() for x in inputs_for(ragged)]
    assert_within_budget(call(ragged), call(ragged, "reference"), inputs)


@pytest.mark.parametrize("sizes", [[9, 3], [48], [41, 2, 41]], ids=str)
def test_equals_the_surrogate_attention(sizes: list[int]) -> None:
    """Eq. 12 of the paper: two gated convolutions are diag(P_2) S_2 diag(P_1) S_1, S_i the circulant of F_i."""
    ragged = Ragged.from_sizes(sizes)
    v, first_filters, first_gate = (x.detach() for x in inputs_for(ragged))
    _, second_filters, second_gate = (x.detach() for x in inputs_for(ragged))
    out = circular_conv(v, first_filters, ragged, gate=first_gate)
    out = circular_conv(out, second_filters, ragged, gate=second_gate)
    taps = dict(zip(ragged.distinct_sizes, range(len(ragged.distinct_sizes)), strict=True))
    pieces = [x.split(list(ragged.distinct_sizes)) for x in (first_filters, second_filters)]
    for graph, n in enumerate(sizes):
        rows = slice(int(ragged.ptr[graph]), int(ragged.ptr[graph + 1]))
        for channel in range(3):
            surrogate = torch.eye(n, dtype=torch.float64)
            for gate, filters in zip((first_gate, second_gate), pieces, strict=True):
                column = filters[taps[n]][:, channel]
                circulant = torch.stack([column.roll(shift) for shift in range(n)], dim=1)
                surrogate = gate[rows, channel].diag() @ circulant @ surrogate
            torch.testing.assert_close(out[rows, channel], surrogate @ v[rows, channel], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shift", [1, 7])
def test_a_shift_of_the_nodes_shifts_the_output(shift: int) -> None:
    sizes = [12, 50, 0, 37, 12]
    ragged = Ragged.from_sizes(sizes)
    u, filters, gate = (x.detach() for x in inputs_for(ragged))

    def shifted(x: Tensor) -> Tensor:
        return torch.cat([part.roll(shift, 0) for part in x.split(sizes)])

    out = circular_conv(u, filters, ragged, gate=gate)
    torch.testing.assert_close(circular_conv(shifted(u), filters, ragged, gate=shifted(gate)), shifted(out))


def test_known_filters() -> None:
    """A one at tap k moves every row by k; taps of one give the sum."""
    sizes = [5, 40, 37]
    ragged = Ragged.from_sizes(sizes)
    u = torch.randn(82, 2)
    delta = torch.cat([torch.eye(n, 1).roll(2, 0).expand(-1, 2) for n in ragged.distinct_sizes])
    moved = torch.cat([part.roll(2, 0) for part in u.split(sizes)])
    torch.testing.assert_close(circular_conv(u, delta, ragged), moved)
    total = torch.cat([part.sum(0, keepdim=True).expand(len(part), -1) for part in u.split(sizes)])
    torch.testing.assert_close(circular_conv(u, torch.ones(82, 2), ragged), total, rtol=1e-5, atol=1e-5)


def test_graphs_do_not_mix() -> None:
    sizes = [30, 4, 0, 40, 37, 4]
    ragged = Ragged.from_sizes(sizes)
    u, filters, gate = (x.detach() for x in inputs_for(ragged))
    taps = dict(zip(ragged.distinct_sizes, filters.split(list(ragged.distinct_sizes)), strict=True))
    out = circular_conv(u, filters, ragged, gate=gate)
    for part, factor, expected in zip(*(x.split(sizes) for x in (u, gate, out)), strict=True):
        n = len(part)
        alone = circular_conv(part, taps.get(n, filters[:0]), Ragged.from_sizes([n]), gate=factor)
        torch.testing.assert_close(alone, expected, rtol=1e-12, atol=1e-12)
    u[30:34] = torch.inf  # what one graph holds reaches no other
    others = torch.cat([torch.arange(30), torch.arange(34, 115)])
    assert torch.equal(circular_conv(u, filters, ragged, gate=gate)[others].isfinite(), torch.ones(111, 3).bool())


def test_views_and_repeats() -> None:
    """Columns of a wider tensor (as a layer cuts them) give the same, and so does the same call again, bit for bit."""
    ragged = Ragged.from_sizes([6, 40, 37, 6])
    wide, filters = torch.randn(89, 9, requires_grad=True), torch.randn(83, 6, requires_grad=True)

    def run(copy: bool) -> list[Tensor]:
        parts = [*wide.chunk(3, dim=1), *filters.chunk(2, dim=1)]
        p, q, v, f, g = (x.clone() if copy else x for x in parts)
        v = circular_conv(circular_conv(v, f, ragged, gate=p), g, ragged, gate=q)
        return [v, *torch.autograd.grad(v.sum(), (wide, filters))]

    for a, b, c in zip(run(False), run(False), run(True), strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a, c)


def test_gradients_twice_and_some_only() -> None:
    ragged = Ragged.from_sizes([6, 40, 37])
    inputs = inputs_for(ragged)
    out = call(ragged)(*inputs)
    both = [torch.autograd.grad(out.sum(), inputs, retain_graph=True) for _ in range(2)]
    for a, b in zip(*both, strict=True):
        assert torch.equal(a, b)
    for place, each in enumerate(inputs):
        alone = [other.detach() for other in inputs]
        alone[place] = each
        torch.testing.assert_close(torch.autograd.grad(call(ragged)(*alone).sum(), each)[0], both[0][place])


def test_what_is_kept_for_the_backward_pass() -> None:
    """Never more than rows and taps: spectra of that size, or the inputs where spectra would be twice as wide."""
    for n, width in ((20, 64), (1024, 4), (1021, 4)):
        ragged = Ragged.from_sizes([n] * 3)
        u, filters = torch.randn(3 * n, width, requires_grad=True), torch.randn(n, width, requires_grad=True)
        kept: list[Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(kept.append, pytest.fail):
            circular_conv(u, filters, ragged)
        values = sum(x.numel() * (2 if x.is_complex() else 1) for x in kept)
        # The spectrum of an even length has two reals more; small filters keep an even and an odd part.
        assert values <= 3 * n * width + 2 * n * width + 8 * width
        with torch.no_grad(), torch.autograd.graph.saved_tensors_hooks(pytest.fail, pytest.fail):
            circular_conv(u, filters, ragged)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_computes_in_float32(dtype: torch.dtype) -> None:
    ragged = Ragged.from_sizes([200, 30, 37])
    half = [x.detach().to(dtype).requires_grad_() for x in inputs_for(ragged)]
    out = circular_conv(half[0], half[1], ragged, gate=half[2])
    truth = call(ragged, "reference")(*(x.detach().double() for x in half))
    assert out.dtype == dtype
    assert (out - truth).abs().max() <= torch.finfo(dtype).eps * truth.abs().max()
    grads = torch.autograd.grad(out.sum(), half)
    assert [x.dtype for x in grads] == [dtype] * 3
    assert all(x.isfinite().all() for x in grads)


def test_taps_may_be_wider_than_rows() -> None:
    """A filter's network stays in float32 under autocast; the rows do not."""
    ragged = Ragged.from_sizes([40, 5])
    u, filters, _ = (x.detach().float() for x in inputs_for(ragged))
    out = circular_conv(u.bfloat16(), filters.requires_grad_(), ragged)
    expected = circular_conv(u.bfloat16().float(), filters, ragged)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, expected.bfloat16())
    assert torch.autograd.grad(out.sum(), filters)[0].dtype == torch.float32


def test_autocast_changes_nothing() -> None:
    ragged = Ragged.from_sizes([20, 40, 37])
    results = []
    for enabled in (False, True):
        torch.manual_seed(0)
        inputs = [x.detach().float().requires_grad_() for x in inputs_for(ragged)]
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = call(ragged)(*inputs)
            results.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    for plain, cast in zip(*results, strict=True):
        assert torch.equal(plain, cast)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_no_graphs(backend: str) -> None:
    for sizes in ([], [0, 0]):
        ragged = Ragged.from_sizes(sizes)
        assert ragged.distinct_sizes == ()
        out = circular_conv(torch.empty(0, 4, requires_grad=True), torch.empty(0, 4), ragged, backend=backend)
        assert out.shape == (0, 4)


def test_wrong_arguments_are_refused() -> None:
    ragged = Ragged.from_sizes([2, 3, 2])
    u, filters = torch.ones(7, 4), torch.ones(5, 4)
    with pytest.raises(ValueError, match=r"u must be \(7, d\), received \(6, 4\)"):
        circular_conv(u[1:], filters, ragged)
    with pytest.raises(ValueError, match=r"filters must be \(5, 4\), .*, received \(7, 4\)"):
        circular_conv(u, u, ragged)
    with pytest.raises(ValueError, match=r"gate must be \(7, 4\), as u, received \(7, 1\)"):
        circular_conv(u, filters, ragged, gate=u[:, :1])
    with pytest.raises(ValueError, match=r"backend of circular_conv must be one of .*, received 'fft'"):
        circular_conv(u, filters, ragged, backend="fft")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_same_on_a_gpu() -> None:
    sizes = [9, 40, 37, 0, 9, 512]
    inputs = inputs_for(Ragged.from_sizes(sizes))
    expected = call(Ragged.from_sizes(sizes), "reference")(*inputs)
    ragged, inputs = Ragged.from_sizes(sizes, "cuda"), [x.cuda() for x in inputs]
    torch.testing.assert_close(call(ragged)(*inputs).cpu(), expected)
    try:
        torch.cuda.set_sync_debug_mode("error")  # the first call has made the index of the partition
        out = call(ragged)(*inputs)
        torch.autograd.grad(out, inputs, torch.ones_like(out))
    finally:
        torch.cuda.set_sync_debug_mode("default")
