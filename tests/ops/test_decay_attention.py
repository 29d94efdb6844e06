"""Attention with a decay mask: fast path against the reference, every option, corner cases."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.ops.decay_attention import cpu, decay_attention, mask
from graphbench.ops.decay_attention.dense import dense
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import AWKWARD, assert_rounded_gradients, assert_same, assert_within_budget, normal

SIZES = pytest.mark.parametrize("sizes", AWKWARD.values(), ids=AWKWARD)
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "slope": {"slope": 0.2},
    "linear": {"kind": "linear", "end": 6.0},
    "linear_slope": {"kind": "linear", "end": 6.0, "slope": 0.1},
    "cut": {"decay": 0.0},
}
MODES = [(on, lost) for on in ("scores", "probs") for lost in ("far", "full", "mask")]


def index_for(ragged: Ragged, floating: bool = False, special: float = 0.2, largest: int = 12) -> Tensor:
    """Distances of all pairs, 0 from a node to itself; some pairs without a path or (bytes) with a token."""
    count = sum(size * size for size in ragged.sizes)
    lost = torch.rand(count) < special
    if floating:
        index = (largest * torch.rand(count, dtype=torch.float64)).masked_fill(lost, torch.inf)
    else:
        index = torch.randint(largest, (count,)).masked_fill(lost, 254).to(torch.uint8)
        index += (lost & (torch.rand(count) < 0.5)).to(torch.uint8)
    first = 0
    for size in ragged.sizes:
        index[first : first + size * size].view(size, size).fill_diagonal_(0)
        first += size * size
    return index


def inputs_for(ragged: Ragged, d: int = 5, e: int = 4) -> list[Tensor]:
    n = ragged.num_rows
    start = torch.tensor([0.3, 2.0, 5.0], dtype=torch.float64, requires_grad=True)
    return [normal(n, 3, d), normal(n, 3, d), normal(n, 3, e), start]


def call(ragged: Ragged, index: Tensor, backend: str = "auto", **options: Any):
    options = {"decay": 0.6, **options}
    return lambda q, k, v, s: decay_attention(q, k, v, ragged, index, s, backend=backend, **options)


def test_by_hand() -> None:
    """Scores 0 and ln 9 for the first query; one hop past the start, M = 1/2: weights 1/4 and 3/4."""
    ragged = Ragged.from_sizes([2, 1])
    q, k = torch.tensor([1.0, 0, 9]), torch.tensor([0.0, math.log(9), 9])
    v, index = torch.tensor([4.0, 8, 5]), torch.tensor([0, 3, 3, 0, 0], dtype=torch.uint8)
    for backend in ("reference", "cpu"):
        one = functools.partial(decay_attention, backend=backend, decay=0.5)
        out = one(*(x.view(3, 1, 1) for x in (q, k, v)), ragged, index, torch.tensor([2.0]))
        torch.testing.assert_close(out.flatten(), torch.tensor([7.0, 6.0, 5.0]))
        # on the weights, 1/10 and 9/10: 0.1 and 0.45, over their sum
        out = one(*(x.view(3, 1, 1) for x in (q, k, v)), ragged, index, torch.tensor([2.0]), mask_on="probs")
        torch.testing.assert_close(out[0].item(), (0.1 * 4 + 0.45 * 8) / 0.55)


def test_mask_by_hand() -> None:
    index, start = torch.tensor([0, 2, 3, 4, 254, 255], dtype=torch.uint8), torch.tensor([2.0])
    half = mask.Decay(0.5, slope=0.5).factors(index, start)[:, 0]
    torch.testing.assert_close(half, torch.tensor([2, 1, 0.5, 0.25, 1, 0]))
    linear = mask.Decay(0.5, kind="linear", end=4.0, unreachable="full").factors(index, start)[:, 0]
    torch.testing.assert_close(linear, torch.tensor([1, 1, 0.5, 0, 1, 1]))
    cut = mask.Decay(0.0).factors(index, start)[:, 0]
    assert cut.tolist() == [1, 1, 0, 0, 1, 0]


@SIZES
def test_equals_reference_for_awkward_sizes(sizes: list[int]) -> None:
    ragged = Ragged.from_sizes(sizes)
    index = index_for(ragged)
    assert_same(call(ragged, index, "cpu"), call(ragged, index, "reference"), inputs_for(ragged))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("floating", [False, True], ids=["hops", "floating"])
def test_equals_reference_for_every_option(options: dict[str, Any], floating: bool) -> None:
    ragged = Ragged.from_sizes([9, 0, 1, 30, 2, 31])
    for on, lost in MODES:
        for special in (0.0, 0.2):
            index = index_for(ragged, floating, special)
            both = (
                call(ragged, index, which, mask_on=on, unreachable=lost, **options) for which in ("cpu", "reference")
            )
            assert_same(*both, inputs_for(ragged))


@pytest.mark.parametrize("slope", [0.0, 0.1])
@pytest.mark.parametrize("start", [[-3.0, 5.0, 90.0], [-200.0, 300.0, 600.0]], ids=str)
def test_start_points_beyond_every_distance(start: list[float], slope: float) -> None:
    ragged = Ragged.from_sizes([9, 30, 31])
    index, (*qkv, _) = index_for(ragged, largest=250), inputs_for(ragged)
    given = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    options = {"slope": slope, "decay": 0.9}
    assert_same(call(ragged, index, "cpu", **options), call(ragged, index, "reference", **options), [*qkv, given])


@pytest.mark.parametrize("options", [{"decay": 0.0}, {"kind": "linear", "end": 0.5}], ids=str)
def test_rows_without_a_weight_are_means(options: dict[str, Any]) -> None:
    """No pair is near enough: ln 0 is one finite number, at every distance."""
    ragged = Ragged.from_sizes([5, 0, 3])
    index = 7 + index_for(ragged, True, special=0.0)
    both = (call(ragged, index, which, mask_on="probs", **options) for which in ("cpu", "reference"))
    assert_same(*both, inputs_for(ragged))


@pytest.mark.parametrize("block", [64, 1000, 20000])
@pytest.mark.parametrize("options", [{}, {"slope": 0.1}, {"mask_on": "probs"}], ids=str)
def test_a_graph_larger_than_a_block_is_cut(block: int, options: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_PAIRS", block)
    ragged = Ragged.from_sizes([4, 90, 3])
    index = index_for(ragged)
    assert_same(call(ragged, index, "cpu", **options), call(ragged, index, "reference", **options), inputs_for(ragged))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_path_of_other_devices_equals_reference(options: dict[str, Any]) -> None:
    ragged = Ragged.from_sizes([9, 0, 1, 30, 2, 31])
    index, how = index_for(ragged), mask.Decay(**{"decay": 0.6, "unreachable": "mask", **options})
    assert_same(
        lambda q, k, v, s: dense(q, k, v, ragged, index, s, how, 0.0),
        call(ragged, index, "reference", unreachable="mask", **options),
        inputs_for(ragged),
    )


@pytest.mark.parametrize("p", [0.0, 0.5])
@pytest.mark.parametrize("options", [{}, {"slope": 0.2}, {"mask_on": "probs"}, OPTIONS["linear"]], ids=str)
def test_gradcheck(p: float, options: dict[str, Any]) -> None:
    ragged = Ragged.from_sizes([3, 0, 1, 4])
    index, (q, k, v, _) = index_for(ragged), inputs_for(ragged, d=3, e=2)
    start = torch.tensor([0.3, 2.2, 4.7], dtype=torch.float64, requires_grad=True)

    def one(*inputs: Tensor) -> Tensor:
        torch.manual_seed(5)
        return call(ragged, index, dropout_p=p, **options)(*inputs)

    assert torch.autograd.gradcheck(one, (q, k, v, start), fast_mode=True)


@pytest.mark.parametrize("options", [{}, {"slope": 0.1}], ids=str)
@pytest.mark.parametrize("sizes", [[63, 64, 65], [1, 300, 8, 150]], ids=str)
def test_error_in_float32(sizes: list[int], options: dict[str, Any]) -> None:
    ragged = Ragged.from_sizes(sizes)
    index, inputs = index_for(ragged), inputs_for(ragged, d=24, e=24)
    both = (call(ragged, index, backend, **options) for backend in ("cpu", "reference"))
    assert_within_budget(*both, inputs, draws=4)  # the start points are three numbers


def test_without_decay_it_is_softmax_attention() -> None:
    ragged = Ragged.from_sizes([9, 0, 1, 30, 2, 31])
    *qkv, start = inputs_for(ragged)
    index = index_for(ragged)
    for slope, on in ((0.0, "scores"), (0.2, "scores"), (0.0, "probs")):
        assert_same(
            lambda q, k, v, slope=slope, on=on: decay_attention(
                q, k, v, ragged, index, start, decay=1.0, slope=slope, mask_on=on
            ),
            lambda q, k, v: softmax_attention(q, k, v, ragged),
            qkv,
        )
    out = decay_attention(*qkv, ragged, index, start, decay=1.0)
    assert torch.autograd.grad(out.square().sum(), start)[0].abs().max() == 0


def test_graphs_do_not_see_each_other_and_nodes_have_no_order() -> None:
    ragged = Ragged.from_sizes([5, 0, 70, 9])
    *qkv, start = (x.detach() for x in inputs_for(ragged))
    index = index_for(ragged)
    out = decay_attention(*qkv, ragged, index, start, decay=0.5, slope=0.1)
    order, first, pair = [], 0, 0
    for size in ragged.sizes:
        rows, cells = slice(first, first + size), index[pair : pair + size * size]
        alone = decay_attention(*(x[rows] for x in qkv), Ragged.from_sizes([size]), cells, start, decay=0.5, slope=0.1)
        torch.testing.assert_close(alone, out[rows])
        turn = torch.randperm(size)
        order.append((turn + first, cells.view(size, size)[turn][:, turn].reshape(-1)))
        first, pair = first + size, pair + size * size
    turned, moved = (torch.cat(x) for x in zip(*order))
    again = decay_attention(*(x[turned] for x in qkv), ragged, moved, start, decay=0.5, slope=0.1)
    torch.testing.assert_close(again, out[turned])


def test_other_distances_on_the_same_partition_are_not_mixed_up() -> None:
    ragged = Ragged.from_sizes([5, 6])
    *qkv, start = (x.detach() for x in inputs_for(ragged))
    for _ in range(3):
        index = index_for(ragged)
        found, expected = (call(ragged, index, which)(*qkv, start) for which in ("cpu", "reference"))
        torch.testing.assert_close(found, expected)


def test_layers_of_different_widths_share_a_partition() -> None:
    ragged = Ragged.from_sizes([5, 40, 6])
    *qkv, start = (x.detach() for x in inputs_for(ragged))
    index = index_for(ragged)
    for heads in (1, 3, 1):
        parts = [x[:, :heads] for x in qkv]
        for decay in (0.5, 0.7):
            found, expected = (
                call(ragged, index, which, decay=decay)(*parts, start[:heads]) for which in ("cpu", "reference")
            )
            torch.testing.assert_close(found, expected)


def test_dropout_is_reproducible_and_unbiased() -> None:
    ragged = Ragged.from_sizes([60, 40])
    *qkv, start = (x.detach() for x in inputs_for(ragged))
    dropping = functools.partial(call, ragged, index_for(ragged))
    exact, drawn = dropping()(*qkv, start), []
    for seed in (1, 1, *range(2, 300)):
        torch.manual_seed(seed)
        drawn.append(dropping(dropout_p=0.5)(*qkv, start))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    error = (torch.stack(drawn).mean(0) - exact).abs().mean()
    assert error < 0.1 * (drawn[0] - exact).abs().mean()


def test_half_precision_is_computed_in_single() -> None:
    ragged = Ragged.from_sizes([80, 20])
    index, inputs = index_for(ragged), [x.detach().bfloat16() for x in inputs_for(ragged)]
    out = call(ragged, index)(*inputs)
    truth = call(ragged, index, "reference")(*(x.double() for x in inputs))
    assert out.dtype == torch.bfloat16
    assert (out - truth).abs().max() <= torch.finfo(torch.bfloat16).eps * truth.abs().max()


def test_path_of_other_devices_widens_half_precision() -> None:
    """Scores of a wide range, values far from zero."""
    ragged = Ragged.from_sizes([20, 3])
    index, (q, k, v, start) = index_for(ragged), inputs_for(ragged)
    half = [x.detach().bfloat16().requires_grad_() for x in (5 * q, k, v + 100, start)]
    assert_rounded_gradients(
        lambda *x: dense(*x[:3], ragged, index, x[3], mask.Decay(0.6), 0.0), call(ragged, index, "reference"), half
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decay": 1.5}, r"decay must lie in \[0, 1\], received 1.5"),
        ({"slope": -0.1}, r"slope must lie in \[0, 1\], received -0.1"),
        ({"decay": 0.0, "slope": 0.1}, "decay 0 needs slope 0"),
        ({"kind": "square"}, "kind must be one of exponential, linear, received 'square'"),
        ({"kind": "linear"}, "needs end"),
        ({"mask_on": "x"}, "mask_on must be one of scores, probs, received 'x'"),
        ({"unreachable": "x"}, "unreachable must be one of far, full, mask, received 'x'"),
        ({"dropout_p": 2.0}, r"dropout_p must lie in \[0, 1\]"),
        ({"backend": "gpu"}, "backend"),
    ],
    ids=str,
)
def test_wrong_options(change: dict[str, Any], message: str) -> None:
    ragged = Ragged.from_sizes([2])
    with pytest.raises(ValueError, match=message):
        call(ragged, index_for(ragged), **change)(*inputs_for(ragged))


def test_wrong_shapes() -> None:
    ragged = Ragged.from_sizes([2])
    q, k, v, start = inputs_for(ragged)
    index = index_for(ragged)
    for inputs, message in (
        ((q[:1], k, v, ragged, index, start), "q, k must be"),
        ((q, k, v, ragged, index[:3], start), r"index must be uint8 or floating of shape \(4,\)"),
        ((q, k, v, ragged, index.long(), start), "received torch.int64"),
        ((q, k, v, ragged, index, start[:2]), "one number per head"),
        ((q, k, v, ragged, torch.zeros(4, requires_grad=True), start), "index gets no gradient"),
    ):
        with pytest.raises(ValueError, match=message):
            decay_attention(*inputs, decay=0.5)
