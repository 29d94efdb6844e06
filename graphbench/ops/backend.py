"""Choice of an operator's implementation, and the type it computes in."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., Any])
_traced: ContextVar[bool] = ContextVar("traced", default=False)


@contextmanager
def traced() -> Iterator[None]:
    """Within it ``"auto"`` is ``"reference"`` for operators whose reference loops over graphs alone."""
    token = _traced.set(True)
    try:
        yield
    finally:
        _traced.reset(token)


class Backends(Generic[F]):
    """Implementations of one operator: functions of the same name and arguments in the files of its folder.

    Args:
        reference: the equation; None: there is none.
        cpu: torch code, for every device.
        gpu: whether ``gpu.py`` has one, which needs Triton and is imported when it is first chosen. It raises a
            ``ValueError`` for tensors that Triton cannot reach, and leaves to torch code what its kernels cannot do.
        loops_over_graphs: whether the reference has no loop but one over graphs: traced for one graph, it is plain
            PyTorch whose steps fit graphs of any size.
        others: further ones by name, which are taken only where they are named.

    Attributes:
        operator: name of the functions.
        names: names of the implementations.
    """

    def __init__(
        self, reference: F | None, cpu: F, *, gpu: bool = False, loops_over_graphs: bool = False, **others: F
    ) -> None:
        self._loops_over_graphs = loops_over_graphs
        self.operator, self._folder = cpu.__name__, cpu.__module__.rpartition(".")[0]
        self._functions = others | {"cpu": cpu} | ({} if reference is None else {"reference": reference})
        self.names = [*(["reference"] if reference else []), *(["gpu"] if gpu else []), *others, "cpu"]

    def choose(self, backend: str, x: Tensor) -> F:
        """The implementation called ``backend``; ``"auto"`` is ``"gpu"`` or ``"cpu"``, whichever is for ``x``.

        Raises:
            ValueError: there is none of this name.
            ImportError: kernels are asked for by name where Triton is not installed.
        """
        if backend == "auto":
            if "gpu" in self.names and has_triton(x):
                backend = "gpu"
            else:
                by_equation = not compiles() and _traced.get() and self._loops_over_graphs
                backend = "reference" if by_equation else "cpu"
        if backend not in self.names:
            names = ["auto", *self.names]
            raise ValueError(f"backend of {self.operator} must be one of {names}, received {backend!r}")
        return self._kernels() if backend == "gpu" else self._functions[backend]

    def _kernels(self) -> F:
        try:
            module = importlib.import_module(f"{self._folder}.gpu")
        except ImportError as missing:
            raise ImportError(f"backend 'gpu' of {self.operator} needs Triton: pip install triton") from missing
        return cast("F", getattr(module, self.operator))


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


@functools.cache
def triton_is_installed() -> bool:
    """Whether the compiler of the kernels is there."""
    return importlib.util.find_spec("triton") is not None
