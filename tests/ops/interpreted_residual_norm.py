"""The kernels of residual_norm against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from graphbench.ops.gpu_tiles import kept
from graphbench.ops.residual_norm import Fusion, Normalization, NormInput, gpu, residual_norm, residual_norms
from graphbench.structures.capacity import RealRows
from tests.ops.ragged_inputs import DEVICE, assert_same, assert_within_budget, normal
from tests.ops.test_residual_norm import FUSED, OF_THE_SAME_ROWS, TOGETHER, WIDTH, case, normalization, together

# The interpreter is numpy, which warns about lanes that are computed and thrown away.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture(params=["one share", "several shares"], autouse=True)
def _small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of rows and of channels, from 17 rows on; several shares where many rows are cut into shares."""
    monkeypatch.setattr(gpu, "NARROW", (16, 16))
    monkeypatch.setattr(gpu, "BROAD", (16, 16))
    if request.param == "several shares":
        monkeypatch.setattr(gpu, "FEW", 3)
        monkeypatch.setattr(gpu, "SHARES", 3)
        monkeypatch.setattr(gpu, "SHARE", 8)


@pytest.mark.parametrize("longest", [0, 1, 3, 4, 25, 37, 2048, 2049, 16384, 16385, 33600, 66432, 1_000_000])
def test_programs_cover_every_input(longest: int) -> None:
    for rows in {longest, *(max(longest - less, 0) for less in (1, 7, 128, 1000)), longest // 2, longest // 3, 0}:
        inputs = [torch.empty(number, 1, device="meta") for number in (rows, longest)]
        common = gpu._Rows(inputs)
        assert all(common.shares * common.share(h) >= len(h) for h in inputs), rows


@pytest.mark.parametrize("rows", [0, 1, 2, 37])
@pytest.mark.parametrize("name", FUSED)
def test_equals_reference(name: str, rows: int) -> None:
    using, inputs = case(name, rows, device=DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)


@pytest.mark.parametrize("real", [0, 1, 2])
def test_padding_is_normalised_by_the_statistics_of_real_rows(real: int) -> None:
    using, inputs = case("all", 31, real, device=DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)


def test_a_single_real_row_is_normalised_by_the_running_statistics() -> None:
    using, inputs = case("all", 3, 1, device=DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)


@pytest.mark.parametrize(("name", "summed"), [*((x, False) for x in TOGETHER), *((x, True) for x in OF_THE_SAME_ROWS)])
def test_several_in_one_launch(name: str, summed: bool) -> None:
    cases = (OF_THE_SAME_ROWS if summed else TOGETHER)[name]
    using, inputs = together(cases, summed, real=2, device=DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)


@pytest.mark.parametrize("summed", [False, True])
def test_several_in_evaluation(summed: bool) -> None:
    using, inputs = together(OF_THE_SAME_ROWS["of three with a residual"], summed, training=False, device=DEVICE)
    with torch.no_grad():
        torch.testing.assert_close(using("gpu")(*inputs), using("reference")(*inputs))


def test_several_of_which_some_have_a_gradient() -> None:
    """As edge states that no layer reads any more."""
    using, inputs = together(TOGETHER["of nodes and edges"], False, device=DEVICE)

    def first(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda *tensors: function(*tensors)[:19]

    assert_same(first(using("gpu")), first(using("reference")), inputs)
    outputs = residual_norms(
        [NormInput(h, normalization(device=DEVICE)) for h in (inputs[0], inputs[5])], backend="gpu"
    )
    outputs[0].sum().backward()
    assert inputs[5].grad is None


def test_error_of_a_sum_in_float32() -> None:
    using, inputs = together(OF_THE_SAME_ROWS["of three with a residual"], True, device=DEVICE)
    assert_within_budget(using("gpu"), using("reference"), inputs)


def test_masks_of_several_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = torch.tensor([3, 4], device=DEVICE)
    monkeypatch.setattr(torch, "randint", lambda *_, **__: seeds)
    h, more = (torch.ones(rows, WIDTH, dtype=torch.float64, device=DEVICE) for rows in (20, 37))
    norm = normalization(False, device=DEVICE)
    inputs = [NormInput(x, norm, Fusion(x, 0.5, "identity", 0.25)) for x in (h, more)]
    with torch.no_grad():
        both = residual_norms(inputs, backend="gpu")
        each = [residual_norm(x.h, norm, x.fused, backend="gpu") for x in inputs]
    assert torch.equal(torch.cat(both), torch.cat(each))


def test_evaluation() -> None:
    using, inputs = case("all", 20, training=False, device=DEVICE)
    with torch.no_grad():
        torch.testing.assert_close(using("gpu")(*inputs), using("reference")(*inputs))
    assert_same(using("gpu"), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case("all", 37, device=DEVICE)
    assert_within_budget(using("gpu"), using("reference"), inputs)


def test_parts_of_wider_rows() -> None:
    using, inputs = case("all", 20, device=DEVICE)

    def part(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda h, weight, bias, *others: function(_wide(h), weight, bias, *(_wide(x) for x in others))

    assert_same(part(using("gpu")), part(using("reference")), inputs)


def test_parameters_and_masks_that_are_parts() -> None:
    using, (h, weight, bias, *_) = case("alone", 20, device=DEVICE)

    def part(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda h, weight, bias: function(h, weight.expand(WIDTH), torch.stack([bias, bias], 1)[:, 0])

    one = [weight.detach()[:1].requires_grad_(), bias]
    assert_same(part(using("gpu")), part(using("reference")), [h, *one])
    mask = (torch.arange(40, device=DEVICE) % 3 > 0)[::2]
    running = torch.stack([torch.zeros(WIDTH), torch.ones(WIDTH)], dim=1).double().to(DEVICE)
    found = []
    for backend in ("gpu", "reference"):
        mean, var = running.clone().unbind(1)
        given = Normalization(weight.detach(), bias.detach(), mean, var, True)
        found.append((residual_norm(h, given, real=RealRows(mask), backend=backend), mean, var))
    torch.testing.assert_close(*found)


def test_constants_far_from_zero_have_no_variance() -> None:
    norm, h = normalization(dtype=torch.float32, device=DEVICE), torch.full((37, WIDTH), 123.456, device=DEVICE)
    assert not residual_norm(h, norm, backend="gpu").any()


def _wide(x: Tensor) -> Tensor:
    return torch.cat([x, x], dim=1)[:, WIDTH:]


def test_running_statistics_are_those_of_the_reference() -> None:
    h, ours, theirs = normal(37, WIDTH).to(DEVICE), normalization(device=DEVICE), normalization(device=DEVICE)
    residual_norm(h, ours, backend="gpu")
    residual_norm(h, theirs, backend="reference")
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


@triton.jit
def _write_kept(
    seed, out, P: tl.constexpr, ROWS: tl.constexpr, SPAN: tl.constexpr, INTERLEAVE: tl.constexpr
):  # fmt: skip
    o_n = tl.arange(0, ROWS).to(tl.int64)
    b_kept = kept(seed, o_n, tl.program_id(0) * SPAN, P, SPAN, INTERLEAVE)
    o_c = tl.program_id(0) * SPAN + tl.arange(0, SPAN)
    tl.store(out + o_n[:, None] * tl.num_programs(0) * SPAN + o_c[None, :], b_kept.to(tl.float64))


def mask(seed: Tensor, p: float, span: int, *, interleave: bool = True) -> Tensor:
    """(64, 64) what dropout leaves, in tiles of so many columns."""
    out = torch.empty(64, 64, dtype=torch.float64, device=DEVICE)
    _write_kept[(64 // span,)](seed, out, P=p, ROWS=64, SPAN=span, INTERLEAVE=interleave)
    return out


def test_masks_do_not_depend_on_tiles_and_have_their_share() -> None:
    seed, other = (torch.tensor([number], device=DEVICE) for number in (7, 8))
    whole = mask(seed, 0.25, 64)
    for span in (4, 16):
        assert torch.equal(whole, mask(seed, 0.25, span))
    assert abs(whole.mean().item() - 0.75) < 4 * (0.25 * 0.75 / whole.numel()) ** 0.5
    neighbours = torch.corrcoef(whole.view(-1, 4).t())  # the four words of a counter
    assert (neighbours - torch.eye(4, device=DEVICE)).abs().max() < 4 / 1024**0.5
    assert not torch.equal(whole, mask(other, 0.25, 64))


def test_masks_are_the_same_where_words_cannot_be_interleaved() -> None:
    seed = torch.tensor([7], device=DEVICE)
    assert torch.equal(mask(seed, 0.25, 16, interleave=True), mask(seed, 0.25, 16, interleave=False))


def test_dropout_is_one_mask_in_both_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = torch.tensor([3, 4], device=DEVICE)
    monkeypatch.setattr(torch, "randint", lambda *_, **__: seeds)
    p, q = 0.5, 0.25
    before, after = (mask(seeds[i:], rate, 64)[:37, :WIDTH] / (1 - rate) for i, rate in enumerate((p, q)))
    h, added, weight, bias, residual = (x.detach().to(DEVICE).requires_grad_() for x in _inputs())

    def dropped(h: Tensor, added: Tensor, weight: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
        norm = normalization(device=DEVICE)
        norm = type(norm)(weight, bias, norm.running_mean, norm.running_var, True)
        return residual_norm(h, norm, Fusion(added, p, "relu", q, residual), backend="gpu")

    def formula(h: Tensor, added: Tensor, weight: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
        normed = torch.nn.functional.batch_norm(h + before * added, None, None, weight, bias, True)
        return residual + after * normed.relu()

    assert_same(dropped, formula, [h, added, weight, bias, residual])


def _inputs() -> list[Tensor]:
    return [normal(37, WIDTH), normal(37, WIDTH), normal(WIDTH), normal(WIDTH), normal(37, WIDTH)]


def test_masks_change_from_call_to_call() -> None:
    h, norm = torch.ones(20, WIDTH, dtype=torch.float64, device=DEVICE), normalization(device=DEVICE)
    fused = Fusion(residual=h, dropout=0.5)
    drawn = [residual_norm(h + normal(20, WIDTH).detach().to(DEVICE), norm, fused, backend="gpu") for _ in range(2)]
    assert not torch.equal(drawn[0] == h, drawn[1] == h)
