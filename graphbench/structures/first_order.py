"""Backward passes that are written by hand."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])


def first_order(backward: F) -> F:
    """A backward pass written by hand, which a derivative of it would silently leave out.

    Raises:
        RuntimeError: gradients of gradients are asked for (``create_graph=True``).
    """

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():  # PyTorch enables it in a backward pass only where it is to be differentiated
            raise RuntimeError(
                f"{type(ctx).__module__}: this operator has first derivatives only; call backward without "
                "create_graph, or use the operator's backend 'reference', which plain autograd differentiates"
            )
        return backward(ctx, *grads)

    return wrapper  # type: ignore[return-value]
