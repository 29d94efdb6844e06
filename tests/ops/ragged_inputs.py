"""Sizes that break operators, and the error budget of a fast path."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

AWKWARD = {
    "mixed": [3, 0, 1, 2, 63, 64, 65, 7, 7, 1],
    "equal": [6, 6, 6, 6],
    "one": [1],
    "empty_graphs": [0, 0],
    "no_graphs": [],
    "many_tiny": [2, 1, 3, 0, 1] * 40,
    "giant": [700],
    "giant_and_tiny": [2, 600, 1],
}


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def values_and_gradients(function: Callable[..., Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Output and the gradient of a fixed, uneven loss for every input."""
    out = function(*inputs)
    seed = torch.cos(torch.arange(out.numel(), dtype=torch.float64)).to(out).view_as(out)
    if not out.requires_grad:  # nothing but zeros: a reference without a single term
        return [out, *(torch.zeros_like(each) for each in inputs)]
    return [out.detach(), *torch.autograd.grad(out, inputs, seed, allow_unused=True, materialize_grads=True)]


def assert_same(function: Callable[..., Tensor], reference: Callable[..., Tensor], inputs: Sequence[Tensor]) -> None:
    """Outputs and every gradient agree to 1e-12 of the largest entry."""
    found, expected = values_and_gradients(function, inputs), values_and_gradients(reference, inputs)
    for place, (a, b) in enumerate(zip(found, expected, strict=True)):
        what = "output" if place == 0 else f"gradient of input {place - 1}"
        assert a.shape == b.shape, what
        if b.numel():
            error = ((a - b).abs().max() / b.abs().max().clamp(min=1)).item()
            assert error < 1e-12, f"{what}: {error:.1e}"


def assert_within_budget(
    function: Callable[..., Tensor], reference: Callable[..., Tensor], inputs: Sequence[Tensor]
) -> None:
    """fp32 error (root mean square, outputs and gradients) at most twice that of the reference formula in fp32."""
    exact = values_and_gradients(reference, inputs)
    single = [each.detach().float().requires_grad_() for each in inputs]
    ours, theirs = values_and_gradients(function, single), values_and_gradients(reference, single)
    for place, (a, b, truth) in enumerate(zip(ours, theirs, exact, strict=True)):
        allowed = 2 * (b - truth).norm() + 1e-7 * truth.norm()
        error = (a - truth).norm()
        assert error <= allowed, f"place {place}: error {error:.2e}, allowed {allowed:.2e}"
