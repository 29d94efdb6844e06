"""Gradients divided by the optimiser are those that ``clip_grad_norm_`` scales, on a device and on the CPU."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench.train.gradient_clipping import clipped_gradients
from graphbench.train.optimizers.adagrad import Adagrad
from graphbench.train.optimizers.adam import Adam, AdamW
from graphbench.train.optimizers.sgd import SGD
from tests.second_device import DEVICE, GPU, observed, second_device

OPTIMIZERS = {"adam": Adam, "adamW": AdamW, "sgd": SGD, "adagrad": Adagrad}
SHAPES = [(7, 5), (5,), (1,), (3, 2, 4), ()]
EPS = torch.finfo(torch.float32).eps


class _Trained:
    """Parameters with gradients, and the optimiser of them."""

    def __init__(self, optimizer: str, scale: float, device: torch.device | str, dtype: torch.dtype) -> None:
        draw = torch.Generator().manual_seed(3)
        values = [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in SHAPES]
        gradients = [scale * torch.randn(shape, generator=draw, dtype=torch.float64) for shape in SHAPES]
        # Numbers of float32, so that all types begin with the same ones; the last parameter has no gradient.
        self.parameters = [nn.Parameter(value.float().to(device, dtype)) for value in values]
        for parameter, gradient in zip(self.parameters[:-1], gradients[:-1], strict=True):
            parameter.grad = gradient.float().to(device, dtype)
        groups: Any = [{"params": self.parameters[:2]}, {"params": self.parameters[2:], "lr": 0.02}]
        self.optimizer = OPTIMIZERS[optimizer](groups, lr=0.01, weight_decay=0.1)

    @property
    def gradients(self) -> list[Tensor]:
        return [parameter.grad.detach().cpu().double() for parameter in self.parameters if parameter.grad is not None]

    @property
    def values(self) -> list[Tensor]:
        return [parameter.detach().cpu().double() for parameter in self.parameters]


def _by_torch(optimizer: str, scale: float, max_norm: float, steps: int = 2) -> _Trained:
    """In float64, by the function whose place is taken."""
    known = _Trained(optimizer, scale, "cpu", torch.float64)
    for _ in range(steps):
        nn.utils.clip_grad_norm_(known.parameters, max_norm)
        known.optimizer.step()
    return known


@pytest.mark.parametrize("scale", [0.01, 1.0, 1e4])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_and_gradients_are_those_of_clip_grad_norm(optimizer: str, scale: float) -> None:
    """Two steps with the gradients that the first one left."""
    expected = _by_torch(optimizer, scale, 1.0)
    with second_device():
        ours = _Trained(optimizer, scale, DEVICE, torch.float32)
        before = ours.gradients
        for _ in range(2):
            with clipped_gradients(ours.optimizer, 1.0):
                ours.optimizer.step()
        gradients, values = ours.gradients, ours.values
    assert not hasattr(ours.optimizer, "grad_scale")
    if scale == 0.01:
        assert all(torch.equal(a, b) for a, b in zip(gradients, before, strict=True)), "below the norm nothing changes"
    # A norm of 64 squares, two divisions and a product, twice: relative to the gradient itself.
    for ours_g, theirs_g in zip(gradients, expected.gradients, strict=True):
        torch.testing.assert_close(ours_g, theirs_g, rtol=40 * EPS, atol=0.0)
    # Adam divides gradients by their own size: a step is the rate times a number of about 1.
    for ours_v, theirs_v in zip(values, expected.values, strict=True):
        torch.testing.assert_close(ours_v, theirs_v, rtol=20 * EPS, atol=20 * EPS)


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_norm_that_is_not_finite_leaves_what_torch_leaves(value: float) -> None:
    expected = _Trained("sgd", 1.0, "cpu", torch.float32)
    expected.parameters[0].grad[0, 0] = value  # type: ignore[index]
    nn.utils.clip_grad_norm_(expected.parameters, 1.0)
    with second_device():
        ours = _Trained("sgd", 1.0, DEVICE, torch.float32)
        ours.parameters[0].grad[0, 0] = value  # type: ignore[index]
        with clipped_gradients(ours.optimizer, 1.0):
            ours.optimizer.step()
        gradients = ours.gradients
    for ours_g, theirs_g in zip(gradients, expected.gradients, strict=True):
        torch.testing.assert_close(ours_g, theirs_g, rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.parametrize(("dtype", "by_optimizer"), [(torch.float64, True), (torch.float32, False)])
def test_other_types_and_a_scaler_have_their_gradients_scaled_before_the_step(
    dtype: torch.dtype, by_optimizer: bool
) -> None:
    with second_device():
        ours = _Trained("adamW", 10.0, DEVICE, dtype)
        with clipped_gradients(ours.optimizer, 0.5, by_optimizer=by_optimizer):
            assert not hasattr(ours.optimizer, "grad_scale")
            norm = torch.stack([gradient.norm() for gradient in ours.gradients]).norm()
    assert float(norm) == pytest.approx(0.5, rel=1e-5)


def test_on_the_cpu_it_is_torchs_function_bit_for_bit() -> None:
    ours, theirs = (_Trained("adamW", 10.0, "cpu", torch.float32) for _ in range(2))
    with clipped_gradients(ours.optimizer, 0.5):
        ours.optimizer.step()
    nn.utils.clip_grad_norm_(theirs.parameters, 0.5)
    theirs.optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(ours.values, theirs.values, strict=True))


@pytest.mark.skipif(GPU, reason="operations of a GPU are not observed")
def test_no_pass_of_its_own_multiplies_the_gradients() -> None:
    with second_device() as waits:
        ours = _Trained("adamW", 10.0, DEVICE, torch.float32)
        waits.clear()
        asked: list[str] = []
        with observed(lambda name, tensors, result: asked.append(name)), clipped_gradients(ours.optimizer, 0.5):
            pass
    views = {"view", "reshape", "_unsafe_view", "detach"}
    assert [name for name in asked if name not in views] == ["cat", "linalg_vector_norm", "add", "clamp_"]
    assert not waits
