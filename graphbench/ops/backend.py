"""What all operators share: the choice of an implementation, and the type it computes in."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def choose(operator: str, backend: str, implementations: Mapping[str, F]) -> F:
    """The implementation called ``backend``; ``"auto"`` is the fast one.

    Args:
        operator: name of the operator, for the message.
        backend: ``"auto"`` or a key of ``implementations``.
        implementations: functions by name; the last one is what ``"auto"`` means.

    Raises:
        ValueError: no such implementation.
    """
    if backend == "auto":
        return implementations[next(reversed(list(implementations)))]
    if backend not in implementations:
        raise ValueError(f"backend of {operator} must be one of {['auto', *implementations]}, received {backend!r}")
    return implementations[backend]


def on_gpu(x: Tensor) -> bool:
    """Whether a tensor lies where Triton kernels run."""
    return x.is_cuda


def has_triton(x: Tensor) -> bool:
    """Whether Triton kernels can be asked to run where a tensor lies."""
    return on_gpu(x) and triton_is_installed()


def compute_dtype(x: Tensor) -> torch.dtype:
    """Half precision is widened piece by piece: sums over many rows need more digits than it has."""
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


@functools.cache
def triton_is_installed() -> bool:
    """Whether the compiler of the kernels is there."""
    return importlib.util.find_spec("triton") is not None
