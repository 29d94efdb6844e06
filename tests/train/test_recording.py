"""``train.recording``: what is taken for a replay that is not the step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphbench.train.recording import _Result

WEIGHT, OF_ENCODER = torch.randn(4096), torch.randn(256) * 2e-4


def result(weight: Tensor, of_encoder: Tensor) -> _Result:
    """A step of Adam on a head and on an encoder whose gradients are a thousandth of those of the head."""
    gradients = [weight, of_encoder]
    return _Result([torch.tensor(1.0)], list(gradients), [], [-1e-3 * each.sign() for each in gradients])


def test_rounding_is_no_difference() -> None:
    rounded = result(WEIGHT * (1 + 1e-6), OF_ENCODER + 1e-9)
    assert rounded.difference(result(WEIGHT, OF_ENCODER)) is None


@pytest.mark.parametrize(
    "changed",
    [torch.zeros(256), -OF_ENCODER, torch.randn(256) * 2e-4, OF_ENCODER.where(OF_ENCODER < 1e-4, torch.nan)],
    ids=["lost", "negated", "another mask", "NaN"],
)
def test_a_part_with_small_gradients_is_compared_alone(changed: Tensor) -> None:
    told = result(WEIGHT, changed).difference(result(WEIGHT, OF_ENCODER))
    assert told is not None
    assert told.startswith("gradients ")


def test_gradients_that_are_rounding_alone_are_not() -> None:
    """As of a bias before BatchNorm."""
    noise = torch.randn(2, 256) * 1e-7
    assert result(WEIGHT, noise[0]).difference(result(WEIGHT, noise[1])) is None
