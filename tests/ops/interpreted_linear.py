"""The kernel of linear against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.linear import cpu, gpu, linear, linear_and_rows
from tests.ops.ragged_inputs import DEVICE, assert_same, assert_within_budget
from tests.ops.test_linear import case, parts_case


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of rows, columns in and columns out."""
    for name in ("ROWS", "SPAN_IN", "SPAN_OUT"):
        monkeypatch.setattr(gpu, name, 16)


@pytest.mark.parametrize("rows", [0, 1, 33])
@pytest.mark.parametrize("act", ["identity", "relu"])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_reference(rows: int, act: str, bias: bool) -> None:
    using, inputs = case(rows, act, bias, DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case(33, "relu", device=DEVICE)
    assert_within_budget(using("gpu"), using("reference"), inputs)


def test_parts_of_wider_rows_and_no_gradient_of_rows() -> None:
    _using, (h, *others) = case(33, "relu", device=DEVICE)
    wide = torch.cat([h, h], dim=1).detach()

    def of(backend: str) -> Callable[..., Tensor]:
        def run(weight: Tensor, bias: Tensor) -> Tensor:
            out = linear(wide[:, 20:], weight, bias, act="relu", backend=backend)
            return torch.cat([out, out], dim=1)[:, 20:50]

        return run

    assert_same(of("gpu"), of("reference"), others)


def test_many_rows_take_the_products_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "FEW", 20)
    monkeypatch.setattr(gpu, "backward", None)
    using, inputs = case(33, "relu", device=DEVICE)
    assert torch.equal(using("gpu")(*inputs), cpu.linear_and_rows(*inputs, True)[0])
    assert_same(using("gpu"), using("reference"), inputs)


@pytest.mark.parametrize("few", [2048, 0])
def test_rows_handed_on_add_their_gradient(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "FEW", few)
    _using, inputs = case(33, "relu", device=DEVICE, width=(20, 20))

    def of(backend: str) -> Callable[..., Tensor]:
        def run(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            out, rows = linear_and_rows(h, weight, bias, act="relu", backend=backend)
            return out * rows

        return run

    assert_same(of("gpu"), of("reference"), inputs)


@pytest.mark.parametrize("few", [2048, 0])
def test_parts(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpreted rows lie on the CPU, where torch's own map would be taken."""
    monkeypatch.setattr(gpu, "FEW", few)
    monkeypatch.setattr(cpu, "in_one_piece", lambda h: False)
    using, inputs = parts_case(DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)
