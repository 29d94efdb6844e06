"""Sizes that break operators, whether and where kernels run, and the error budget of a fast path."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

KERNELS = os.environ.get("GRAPHBENCH_TEST_KERNELS") == "1"
"""Whether this process tests Triton kernels (``test_kernels_gpu.py`` starts it), interpreted without a GPU."""
BACKEND = "gpu" if KERNELS else "cpu"
"""What is compared with the reference."""
DEVICE = "cuda" if KERNELS and torch.cuda.is_available() else "cpu"
INTERPRETED = KERNELS and DEVICE == "cpu"
"""Whether the kernels run in Triton's interpreter: a program takes milliseconds."""
of_kernels = pytest.mark.skipif(not KERNELS, reason="a test of kernels, which test_kernels_gpu.py runs")

AWKWARD = {
    "mixed": [3, 0, 1, 2, 63, 64, 65, 7, 7, 1],
    "equal": [6, 6, 6, 6],
    "one": [1],
    "empty_graphs": [0, 0],
    "no_graphs": [],
    "many_tiny": [2, 1, 3, 0, 1] * (8 if INTERPRETED else 40),
    "giant": [700],
    "giant_and_tiny": [2, 600, 1],
}

EPS = torch.finfo(torch.float32).eps
EPS_OF_TF32 = 2.0**-10
ROUNDINGS = 4
ROUNDINGS_OF_TERMS = 8  # of each term of a sum that cancels, before it is added


def kernel_tests() -> list[str]:
    """Files of this folder that test kernels: those of nothing else, and those that ask for :data:`BACKEND`."""
    folder = Path(__file__).parent
    both = [path for path in folder.glob("test_*.py") if "BACKEND" in path.read_text(encoding="utf-8")]
    return sorted(path.name for path in [*folder.glob("interpreted_*.py"), *both])


SMALL_MAPS: dict[str, object] = {
    "ROWS": 16,
    "DEPTH": 16,
    "SPAN_IN": 16,
    "SPAN_OUT": 16,
    "SHARE": 8,
    "FORWARD_ROWS": 16,
    "FORWARD_OUT": 16,
    "FORWARD_IN": 16,
}
"""Tiles of linear maps of which a few rows and channels have several."""


def set_kernels(monkeypatch: pytest.MonkeyPatch, operator: str, **constants: object) -> None:
    """Sets constants of an operator's kernels, where these are tested: small tiles, of which there are several then."""
    for name, value in constants.items() if KERNELS else ():
        monkeypatch.setattr(importlib.import_module(f"graphbench.ops.{operator}.gpu"), name, value)


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def uneven_seed(out: Tensor, seed_type: torch.dtype = torch.float64) -> Tensor:
    """Gradient of an output: that of a fixed, uneven loss, rounded to a type."""
    return torch.cos(torch.arange(out.numel(), dtype=torch.float64)).to(seed_type).to(out).view_as(out)


def values_and_gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], seed_type: torch.dtype = torch.float64
) -> list[Tensor]:
    """Output and the gradient of a fixed, uneven loss for every input; weights of the loss are rounded to a type."""
    out = function(*inputs)
    seed = uneven_seed(out, seed_type)
    if not out.requires_grad:  # nothing but zeros: a reference without a single term
        return [out, *(torch.zeros_like(x) for x in inputs)]
    return [out.detach(), *torch.autograd.grad(out, inputs, seed, allow_unused=True, materialize_grads=True)]


def assert_same(function: Callable[..., Tensor], reference: Callable[..., Tensor], inputs: Sequence[Tensor]) -> None:
    """Outputs and every gradient agree to 1e-12 of the largest entry."""
    results, expected = values_and_gradients(function, inputs), values_and_gradients(reference, inputs)
    for place, (a, b) in enumerate(zip(results, expected, strict=True)):
        what = "output" if place == 0 else f"gradient of input {place - 1}"
        assert a.shape == b.shape, what
        if b.numel():
            error = ((a - b).abs().max() / b.abs().max().clamp(min=1)).item()
            assert error < 1e-12, f"{what}: {error:.1e}"


def assert_rounded_gradients(
    function: Callable[..., Tensor], reference: Callable[..., Tensor], half: Sequence[Tensor]
) -> None:
    """Gradients in half precision, as norms, are float64's from the same inputs and the same weights of the loss.

    But for 4 roundings: of the gradient itself and of what is rounded to be multiplied.
    """
    exact = [x.detach().double().requires_grad_() for x in half]
    out, truth = function(*half), reference(*exact)
    seed = uneven_seed(truth, out.dtype)
    ours, theirs = torch.autograd.grad(out, half, seed.to(out)), torch.autograd.grad(truth, exact, seed)
    for place, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        error = (a - b).norm() / b.norm()
        assert error <= 4 * torch.finfo(out.dtype).eps, f"gradient of input {place}: {error:.1e}"


def assert_within_budget(
    function: Callable[..., Tensor],
    reference: Callable[..., Tensor],
    inputs: Sequence[Tensor],
    draws: int = 1,
    terms: Mapping[int, Tensor] | None = None,
    unit: float = EPS,
) -> None:
    """Error in fp32 of the output and of every gradient, as a norm, against float64 from the same fp32 inputs.

    Allowed is twice the error of the reference formula in fp32 plus ``ROUNDINGS (c + eps |x|)``. |x| is the norm of the
    exact result and c how far it moves when the inputs and the weights of the loss are rounded to fp32, or the inputs
    alone to operands of fewer bits: what no algorithm can avoid, measured in float64 and so the same on every machine,
    also where many terms cancel.
    Intermediate results are rounded as well, in some 10 stages whose errors are independent and of that size: the root
    of their number is below ROUNDINGS.

    Args:
        function: what is judged.
        reference: the formula.
        inputs: float64.
        draws: roundings over which c is averaged; more than one for results of a few numbers.
        terms: place of a result (0 the output) -> magnitudes of the terms that it sums, where these cancel: their
            roundings, ``ROUNDINGS_OF_TERMS eps |terms|``, are allowed as well, and are no matter of luck as c may be.
        unit: eps, the distance of neighbouring numbers from 1 on: :data:`EPS_OF_TF32` for products of such operands.
    """
    single = [x.detach().float().requires_grad_() for x in inputs]
    rounded = [x.detach().double().requires_grad_() for x in single]
    exact = values_and_gradients(reference, rounded, torch.float32)
    moved = [values_and_gradients(reference, inputs)] if unit == EPS else []
    for _ in range(draws - len(moved)):
        other = [(x.detach() * (1 + unit * (torch.rand_like(x) - 0.5))).requires_grad_() for x in rounded]
        moved.append(values_and_gradients(reference, other))
    ours, theirs = values_and_gradients(function, single), values_and_gradients(reference, single)
    for place, (a, b, truth, *others) in enumerate(zip(ours, theirs, exact, *moved, strict=True)):
        condition = (sum((other - truth).norm() ** 2 for other in others) / draws) ** 0.5
        allowed = 2 * (b - truth).norm() + ROUNDINGS * (condition + unit * truth.norm())
        if terms and place in terms:
            allowed += ROUNDINGS_OF_TERMS * unit * terms[place].norm()
        error = (a - truth).norm()
        assert error <= allowed, f"place {place}: error {error:.2e}, allowed {allowed:.2e}"
