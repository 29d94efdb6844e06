"""The kernels of circular_conv against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.circular_conv import circular_conv, gpu
from graphbench.structures import Capacity, CapacityRagged, Ragged
from tests.ops.ragged_inputs import DEVICE, INTERPRETED, assert_same, assert_within_budget
from tests.ops.test_circular_conv import inputs_for


@pytest.fixture(
    autouse=True, params=[gpu.Tiling(8, 16, 1, 1, 4, 4), gpu.Tiling(4, 16, 2, 2, 2, 1)], ids=["large", "small"]
)
def _small_blocks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Several tiles of rows and of channels, of either tiling; several rounds of terms."""
    monkeypatch.setattr(gpu, "LARGE", request.param)
    monkeypatch.setattr(gpu, "LARGEST_SMALL", 0)


def case(sizes: list[int], gated: bool, width: int = 20) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """``backend -> function``, and its inputs; rows and taps are parts of wider tensors."""
    ragged = Ragged.from_sizes(sizes, DEVICE)
    inputs = [x.detach().to(DEVICE).requires_grad_() for x in inputs_for(ragged, gated, width)]

    def using(backend: str) -> Callable[..., Tensor]:
        def call(u: Tensor, filters: Tensor, gate: Tensor | None = None) -> Tensor:
            u, filters = (torch.cat([x, x], dim=1)[:, : x.shape[1]] for x in (u, filters))
            return circular_conv(u, filters, ragged, gate=gate, backend=backend)

        return call

    return using, inputs


@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
@pytest.mark.parametrize("sizes", [[3, 0, 9, 1, 11], [1], [0, 0]], ids=str)
def test_equals_reference(sizes: list[int], gated: bool) -> None:
    using, inputs = case(sizes, gated)
    assert_same(using("gpu"), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case([3, 9, 9], True)
    assert_within_budget(using("gpu"), using("reference"), inputs)


def test_larger_graphs_are_transformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LARGEST", 16)
    monkeypatch.setattr(gpu, "circular_conv_forward", None)
    using, inputs = case([17, 3], True)
    assert_same(using("gpu"), using("reference"), inputs)


def test_padded_batch() -> None:
    """Real graphs as without padding, and the same bits again; taps that are left over get no gradient."""
    sizes = [3, 0, 9, 11, 9]
    plain = Ragged.from_sizes([*sizes, 5, 0], DEVICE)
    capacity = Capacity(len(sizes), 2, nodes=plain.num_rows, edges=0, max_size=14, taps=34)
    padded = CapacityRagged(plain.ptr, capacity)
    u, filters, gate = (x.detach().to(DEVICE).requires_grad_() for x in inputs_for(plain, True, 20))
    wide = torch.cat([filters.detach(), filters.new_zeros(6, 20)]).requires_grad_()
    seed = torch.randn_like(u)

    def results(ragged: Ragged, taps: Tensor, backend: str) -> list[Tensor]:
        out = circular_conv(u, taps, ragged, gate=gate, backend=backend)
        return [out, *torch.autograd.grad(out, [u, gate, taps], seed)]

    expected, ours = results(plain, filters, "reference"), results(padded, wide, "gpu")
    if not INTERPRETED:  # which has one order of everything
        assert all(torch.equal(a, b) for a, b in zip(ours, results(padded, wide, "gpu"), strict=True))
    used = len(filters)
    assert torch.equal(ours[3][used:], torch.zeros_like(ours[3][used:]))
    ours[3] = ours[3][:used]
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_tiles_are_chosen_by_the_largest_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LARGEST_SMALL", 9)
    assert gpu.tiling_of(Ragged.from_sizes([9, 3])) == gpu.SMALL
    assert gpu.tiling_of(Ragged.from_sizes([10, 3])) == gpu.LARGE
