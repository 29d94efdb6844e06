"""Linear maps by torch's products; on other devices the kernel of the product applies ReLU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench.ops import onednn
from graphbench.structures.first_order import first_order

Product = Callable[[Tensor, Tensor, Tensor | None, bool], Tensor]
"""A function like :func:`product`."""
Gradients = Callable[..., tuple[Tensor | None, Tensor | None, Tensor | None]]
"""A function like :func:`gradients`."""


class Passes(NamedTuple):
    """Forward and backward pass of a linear map."""

    product: Product
    gradients: Gradients


def linear_and_rows(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.linear.linear_and_rows`."""
    if in_one_piece(h):
        if onednn.applies(h, weight, h.shape[0] * weight.numel()):
            of_product: Tensor = _OneDnn.apply(h, weight, bias, relu)  # type: ignore[no-untyped-call]
            return of_product, h
        out = F.linear(h, weight, bias)
        return (torch.relu(out) if relu else out), h
    return Linear.apply(h, weight, bias, relu, Passes(product, gradients))  # type: ignore[no-untyped-call]


def linear_parts(h: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.linear.linear_parts`."""
    if in_one_piece(h):
        return F.linear(h, torch.cat([*weights]), torch.cat([*biases])).unflatten(1, (len(weights), -1)), h
    return LinearParts.apply(h, gradients, *weights, *biases)  # type: ignore[no-untyped-call]


def in_one_piece(h: Tensor) -> bool:
    """Whether torch's own linear map is taken: on the CPU, and under autocast and compilers, which know that one."""
    device = h.device.type
    return device == "cpu" or torch.compiler.is_compiling() or torch.is_autocast_enabled(device)


def product(h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
    """(R, f) forward pass in one kernel, but for ReLU without bias."""
    if bias is None:
        out = torch.mm(h, weight.t())
        return out.relu_() if relu else out
    return torch._addmm_activation(bias, h, weight.t()) if relu else torch.addmm(bias, h, weight.t())


def gradients(
    h: Tensor,
    weight: Tensor,
    out: Tensor | None,
    grad: Tensor,
    of_rows: Tensor | None,
    wanted: tuple[bool, bool],
    parameters: Sequence[Tensor] = (),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of the rows, of the weight and of the bias.

    Args:
        h: (R, d).
        weight: (f, d).
        out: (R, f) what ReLU left, or None without ReLU.
        grad: (R, f) of the output.
        of_rows: (R, d) gradient of the rows that were handed on, or None.
        wanted: whether the rows and the bias have a gradient.
        parameters: parameters of weight and bias, one behind the other: a kernel may leave their gradients for the
            end of the backward pass and return None (:mod:`graphbench.structures.late_sums`). This function does not.
    """
    if out is not None:
        grad = torch.ops.aten.threshold_backward(grad, out, 0)
    if wanted[0]:
        of_rows = grad @ weight if of_rows is None else torch.addmm(of_rows, grad, weight)
    return of_rows, grad.t() @ h, grad.sum(0) if wanted[1] else None


class Linear(torch.autograd.Function):
    """Saves rows and weight, with ReLU the output, from which it is differentiated."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool, compute: Passes
    ) -> tuple[Tensor, Tensor]:
        """The product, and the rows."""
        out = compute.product(h, weight, bias, relu)
        ctx.compute = compute.gradients
        ctx.parameters = (weight,) if bias is None else (weight, bias)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(h, weight, out if relu else None)
        return out, h.view_as(h)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor | None, of_rows: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of the rows, weight and bias."""
        if grad is None:
            return of_rows, None, None, None, None
        h, weight, out = ctx.saved_tensors
        wanted = (ctx.needs_input_grad[0], ctx.needs_input_grad[2])
        return *ctx.compute(h, weight, out, grad, of_rows, wanted, ctx.parameters), None, None


class _OneDnn(torch.autograd.Function):
    """A large map by :mod:`graphbench.ops.onednn`; its gradients can be differentiated, as those of torch's own."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor | None, relu: bool) -> Tensor:
        out = onednn.product(h, weight, bias, relu=relu)
        ctx.save_for_backward(h, weight, out if relu else None)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, out = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        if torch.is_grad_enabled():  # to be differentiated, as torch's own products are
            return *gradients(h, weight, out, grad, None, (wanted[0], wanted[2])), None
        if out is not None:
            grad = torch.ops.aten.threshold_backward(grad, out, 0)
        of_h = onednn.product(grad, weight.t()) if wanted[0] else None
        of_weight = onednn.product_over_rows(grad, h) if wanted[1] else None
        return of_h, of_weight, grad.sum(0) if wanted[2] else None, None


class LinearParts(torch.autograd.Function):
    """Several maps of the same rows: one copy of the parameters, one batched product, each part in one piece."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, compute: Gradients, *parameters: Tensor) -> tuple[Tensor, Tensor]:
        """The products (R, maps, f), and the rows."""
        maps, (f, d) = len(parameters) // 2, parameters[0].shape
        joined = torch.cat([each.reshape(-1) for each in parameters])
        weight, bias = joined[: maps * f * d].view(maps, f, d), joined[maps * f * d :].view(maps, 1, f)
        parts = torch.baddbmm(bias, h.expand(maps, *h.shape), weight.transpose(1, 2))
        ctx.compute = compute
        ctx.parameters = parameters
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(h, weight)
        return parts.transpose(0, 1), h.view_as(h)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor | None, of_rows: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients of the rows, then of all weights and all biases."""
        h, weight = ctx.saved_tensors
        maps, f, d = weight.shape
        if grad is None:
            return of_rows, None, *[None] * (2 * maps)
        wanted = (ctx.needs_input_grad[0], True)
        of_h, of_weight, of_bias = ctx.compute(
            h, weight.view(maps * f, d), None, grad.flatten(1), of_rows, wanted, ctx.parameters
        )
        if of_weight is None:
            return of_h, None, *[None] * (2 * maps)
        return of_h, None, *of_weight.split(f), *of_bias.split(f)
