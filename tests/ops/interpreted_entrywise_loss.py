"""The kernel of entrywise_loss against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.entrywise_loss import KINDS, gpu
from graphbench.structures.unit_gradient import unit_gradient
from tests.ops.ragged_inputs import DEVICE, assert_same, assert_within_budget
from tests.ops.test_entrywise_loss import CASES, by_hand, case, nothing


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several steps of the program."""
    monkeypatch.setattr(gpu, "ENTRIES", 16)


@pytest.mark.parametrize(("kind", "mean", "masked", "unknown"), CASES)
def test_equals_reference(kind: str, mean: bool, masked: bool, unknown: bool) -> None:
    using, inputs = case(kind, mean, masked, unknown, DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)


@pytest.mark.parametrize("kind", KINDS)
def test_error_in_float32(kind: str) -> None:
    using, inputs = case(kind, True, True, True, DEVICE, shape=(30, 4))
    assert_within_budget(using("gpu"), using("reference"), inputs, draws=4)


def test_corner_cases() -> None:
    nothing("gpu", DEVICE)
    by_hand("gpu", DEVICE)


def test_a_unit_gradient_is_not_multiplied() -> None:
    """The gradient of a training step is the one that the forward pass made; any other factor multiplies it."""
    using, (pred,) = case("mse", True, True, True, DEVICE)
    loss = using("gpu")(pred)
    unit = unit_gradient(loss.dtype, loss.device)
    made, again, twice = (
        torch.autograd.grad(loss, pred, factor, retain_graph=True)[0] for factor in (unit, unit, 2 * unit)
    )
    assert made.data_ptr() == again.data_ptr() != twice.data_ptr()
    assert torch.equal(2 * made, twice)


def test_many_entries_take_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "MOST", 44)
    monkeypatch.setattr(gpu, "loss_and_gradient", None)
    using, inputs = case("bce", True, True, True, DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)
