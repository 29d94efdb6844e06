"""The kernels of circular_conv against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.circular_conv import circular_conv, gpu
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import DEVICE, assert_same, assert_within_budget
from tests.ops.test_circular_conv import inputs_for


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of rows and of channels."""
    monkeypatch.setattr(gpu, "ROWS", 8)
    monkeypatch.setattr(gpu, "COLUMNS", 16)


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
@pytest.mark.parametrize("sizes", [[3, 0, 9, 1, 9, 17], [1], [0, 0]], ids=str)
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
