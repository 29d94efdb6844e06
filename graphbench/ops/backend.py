"""What all operators share: the choice of an implementation, and the type it computes in."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])
LOOPS_OVER_GRAPHS = (
    *("softmax_attention", "sparse_flow", "linear_attention"),
    *("pair_attention", "decay_attention", "kernel_attention"),
)
"""Operators whose reference has no loop within a graph: traced for one graph it fits graphs of any size."""
_traced: ContextVar[bool] = ContextVar("traced", default=False)


@contextmanager
def traced() -> Iterator[None]:
    """Within it ``"auto"`` is ``"reference"`` for these: plain PyTorch, whose steps do not depend on sizes."""
    token = _traced.set(True)
    try:
        yield
    finally:
        _traced.reset(token)


def choose(operator: str, backend: str, implementations: Mapping[str, F]) -> F:
    """The implementation called ``backend``; ``"auto"`` is the fast one.

    Args:
        operator: name of the operator, for the message.
        backend: ``"auto"`` or a key of ``implementations``.
        implementations: functions by name; the last one is what ``"auto"`` means.

    Raises:
        ValueError: no such implementation.
    """
    if backend == "auto" and not compiles() and _traced.get() and operator in LOOPS_OVER_GRAPHS:
        return implementations["reference"]
    if backend == "auto":
        return implementations[next(reversed(list(implementations)))]
    if backend not in implementations:
        raise ValueError(f"backend of {operator} must be one of {['auto', *implementations]}, received {backend!r}")
    return implementations[backend]


def compiles() -> bool:
    """Whether a compiler traces, for which operators are nodes and which knows no context variables; no export does."""
    return torch.compiler.is_compiling() and not torch.compiler.is_exporting()


def on_gpu(x: Tensor) -> bool:
    """Whether a tensor lies where Triton kernels run."""
    return x.is_cuda


def has_triton(x: Tensor) -> bool:
    """Whether Triton kernels can be asked to run where a tensor lies: not while a compiler traces."""
    return not torch.compiler.is_compiling() and on_gpu(x) and triton_is_installed()


def compute_dtype(x: Tensor) -> torch.dtype:
    """Half precision is widened piece by piece: sums over many rows need more digits than it has."""
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


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


@functools.cache
def triton_is_installed() -> bool:
    """Whether the compiler of the kernels is there."""
    return importlib.util.find_spec("triton") is not None
