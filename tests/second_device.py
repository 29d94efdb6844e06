"""The device that tests hold against the CPU: a GPU where there is one, elsewhere one that computes on the CPU.

The latter shows what would fail on a GPU, or make the host wait, without a GPU. Its tensors are wrappers around tensors
of the CPU. An operation runs there only if all its tensors lie there (numbers of no dimension may come from the host,
as on a GPU), and what it returns lies there, too. Kernels are the CPU's, so that results can be compared; code that
asks for ``device.type`` takes the way of all devices but the CPU.

conftest.py imports this first: autograd counts the devices at the first backward pass of a process.
"""

from __future__ import annotations

import importlib.util
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

from graphbench.data.loading import padded
from graphbench.ops import backend
from graphbench.ops.batch_rows import RowCapacity, batch_rows
from tests.paths import ROOT

PACKAGE = str(ROOT / "graphbench")
# The host cannot go on before the device has finished: shapes, and values that decide what is computed next.
_WAITING = {
    *("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_consecutive", "unique_dim", "equal"),
    *("_linalg_check_errors", "bincount"),
}
_COPYING = {"copy_", "_to_copy"}
UNDEFINED = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")

GPU = torch.cuda.is_available()
# Experimental in 2.13. Autograd does not work with two devices in one process.
_register = None if GPU else getattr(backend_registration, "_setup_privateuseone_for_python_backend", None)
if _register is not None:

    class _Module(backend_registration._DummyBackendModule):
        """What autocast asks for, besides."""

        def get_amp_supported_dtype(self) -> list[torch.dtype]:
            return [torch.bfloat16, torch.float16]

    _register("elsewhere", backend_module=_Module())
DEVICE = torch.device("cuda" if GPU else "privateuseone" if _register is None else "elsewhere", 0)


class Elsewhere(Tensor):
    """A tensor of the second device; ``raw`` is the one that holds its values."""

    raw: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw: Tensor) -> Elsewhere:
        new = cls._make_wrapper_subclass(
            cls,
            raw.size(),
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=DEVICE,
        )
        new.raw = raw
        return new

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def tolist(self) -> Any:
        _note("tolist")
        return self.raw.tolist()

    def numpy(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this tensor lies on the second device; use .cpu() first")

    def pin_memory(self, *_: Any) -> Tensor:
        raise RuntimeError("only memory of the host can be pinned")

    def __repr__(self) -> str:
        return f"Elsewhere({self.raw!r})"


@contextmanager
def second_device() -> Iterator[list[str]]:
    """Inside, tensors and modules can be moved there. Yields where the host waited, as ``operation file:line``."""
    if GPU:
        with _gpu() as waits:
            yield waits
        return
    if _register is None:
        pytest.skip("this PyTorch has no devices written in Python")
    _WAITS.clear()
    before = torch.__future__.get_swap_module_params_on_conversion()
    # As on a GPU, parameters stay the objects they are: optimisers keep them, and shared ones stay shared.
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        # The host's operations are slow in here, and a few batches of small graphs decide their capacities as well.
        few = mock.patch.object(padded, "SAMPLED_BATCHES", 100)
        with torch.serialization.safe_globals([Elsewhere]), few, _Dispatch():
            yield _WAITS
    finally:
        torch.__future__.set_swap_module_params_on_conversion(before)


_WAITS: list[str] = []
# Called with every operation of the device: its name (copies: "to_device", "to_host"), its tensors and its result.
Observer = Callable[[str, list[Tensor], Any], None]
_OBSERVERS: list[Observer] = []
# Called with every operation on tensors of the device as it is done: function, arguments on the CPU, result.
Recorder = Callable[[Any, Any, dict[str, Any], Any], None]
_RECORDERS: list[Recorder] = []


@contextmanager
def recorded(recorder: Recorder) -> Iterator[None]:
    """Inside, ``recorder`` is given every operation of the second device, so that it can be done again."""
    _RECORDERS.append(recorder)
    try:
        yield
    finally:
        _RECORDERS.remove(recorder)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Inside, ``observer`` hears of every operation of the second device; not where a GPU takes its place."""
    _OBSERVERS.append(observer)
    try:
        yield
    finally:
        _OBSERVERS.remove(observer)


@contextmanager
def _gpu() -> Iterator[list[str]]:
    """What CUDA itself reports: copies from the host that wait are among it."""

    def note(*_: Any, **__: Any) -> None:
        _note("synchronised")

    _WAITS.clear()
    with warnings.catch_warnings():
        # Said once in a process, which failed the first test of each: warnings are errors.
        warnings.filterwarnings("ignore", message="Synchronization debug mode is a prototype")
        torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", message="called a synchronizing CUDA operation")
            warnings.showwarning = note
            yield _WAITS
    finally:
        torch.cuda.set_sync_debug_mode("default")


# Called with a kernel, its arguments, and those by name, its grid among them.
Launched = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


@contextmanager
def triton_stubbed(launch: Launched = lambda kernel, args, named: None) -> Iterator[None]:
    """Inside, the second device is taken for a GPU, and ``launch`` is told of Triton kernels in place of running them.

    What they would have written is undefined: this shows launches and waits, never values. Where there is a GPU, or no
    Triton, nothing is changed.
    """
    if GPU or importlib.util.find_spec("triton") is None:
        yield
        return
    import triton

    def run(kernel: Any, *args: Any, **named: Any) -> None:
        make_indices_valid(kernel, args)
        launch(kernel, args, named)

    with (
        mock.patch.object(backend, "on_gpu", lambda x: x.device.type != "cpu"),
        mock.patch.object(triton.runtime.JITFunction, "run", run),
    ):
        yield


def make_indices_valid(kernel: Any, args: Any) -> None:
    """What a stubbed kernel would have written, where that is read as a partition; 0 where it is read as indices."""
    if not kernel.fn.__module__.endswith("batch_rows.gpu_kernels"):
        return
    if kernel.fn.__name__ == "places":
        numbers, ptr, capacity, offsets = (each.raw for each in args[:4])
        known = batch_rows(numbers, ptr, [], RowCapacity(tuple(capacity.tolist()), *args[8:10]), backend="cpu")
        offsets.copy_(known.offsets)
        args[5].raw.copy_(known.num_graphs)
    else:
        for target in args[5]:
            target.raw.zero_()


class _Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func._schema.name.removeprefix("aten::")
    tensors = list(tensors_in((args, *kwargs.values())))
    there = [isinstance(each, Elsewhere) for each in tensors]
    asked = kwargs.get("device")
    goes_there = any(there) if asked is None else torch.device(asked).type == DEVICE.type
    if asked is None and not goes_there and name not in UNDEFINED:  # most operations: the host's own
        return func(*args, **kwargs)
    kind = _direction(name, there, goes_there) if name in _COPYING and (any(there) or goes_there) else name
    # The third argument of copy_ is non_blocking, too.
    if kind == "to_device" and tensors[-1].numel() and not (kwargs.get("non_blocking") or any(args[2:])):
        _note(kind)
    elif kind == "to_host":
        _note(kind)
    masks_or_counts = False
    if name not in _COPYING and any(there):
        if not all(lies_there or not each.dim() for lies_there, each in zip(there, tensors, strict=True)):
            raise RuntimeError(f"{name} got tensors of two devices: {[(str(x.device), *x.shape) for x in tensors]}")
        masks = name.startswith(("index", "_index_put")) and any(
            each.dtype == torch.bool for each in tensors_in(args[1])
        )
        counts = name == "repeat_interleave" and kwargs.get("output_size") is None
        masks_or_counts = masks or counts
        if name in _WAITING or masks or counts:
            _note(name)
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu"), "pin_memory": False}
        kwargs = {key: value for key, value in kwargs.items() if key in {each.name for each in func._schema.arguments}}
    # Below this point nobody reads the marks of lazy conjugation and negation.
    func = {"_conj": torch.ops.aten.conj_physical.default, "_neg_view": torch.ops.aten.neg.default}.get(name, func)
    known = {id(each.raw): each for each in tensors if isinstance(each, Elsewhere)}
    plain_args, plain_kwargs = _changed(_raw, args), {key: _changed(_raw, each) for key, each in kwargs.items()}
    result = func(*plain_args, **plain_kwargs)
    if name in UNDEFINED and result.is_floating_point():
        result.fill_(math.nan)  # whoever reads it before it is written shows
    if any(there) or goes_there:
        for observer in _OBSERVERS:
            observer(kind, tensors, result)
        for recorder in _RECORDERS:
            if kind in ("to_host", "to_device") or name in _WAITING or masks_or_counts:
                raise RuntimeError(f"{kind}: operation not permitted when stream is capturing")
            recorder(func, plain_args, plain_kwargs, result)
    if name == "copy_":
        return args[0]

    def placed(each: Tensor) -> Tensor:
        if not goes_there:
            return each.clone() if id(each) in known else each
        return known[id(each)] if id(each) in known else Elsewhere(each)

    return _changed(placed, result)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Those in the arguments of an operation, which nest sequences only: three times faster than any pytree."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from tensors_in(each)


def _changed(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """The value with every tensor of it changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)([_changed(change, each) for each in value])
    return value


def _direction(name: str, there: list[bool], goes_there: bool) -> str:
    """Name of a copy: between host and device, or the operation's where both ends lie there."""
    source, target = (there[1], there[0]) if name == "copy_" else (there[0], goes_there)
    return name if source == target else "to_device" if target else "to_host"


def _raw(each: Any) -> Any:
    return each.raw if isinstance(each, Elsewhere) else each


def _note(name: str) -> None:
    frame = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    place = "test" if frame is None else f"{Path(frame.f_code.co_filename).relative_to(PACKAGE)}:{frame.f_lineno}"
    _WAITS.append(f"{name} {place}")


def _empty(size: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return Elsewhere(torch.empty(size, dtype=dtype))


def _empty_strided(size: Any, stride: Any, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return Elsewhere(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    if not non_blocking and isinstance(target, Elsewhere) and not isinstance(source, Elsewhere):
        _note("to_device")
    _raw(target).copy_(_raw(source))
    return target


# What torch makes without asking the mode, e.g. in torch.as_tensor.
if _register is not None:
    _LIBRARY = torch.library.Library("aten", "IMPL")
    _LIBRARY.impl("empty.memory_format", _empty, "PrivateUse1")
    _LIBRARY.impl("empty_strided", _empty_strided, "PrivateUse1")
    _LIBRARY.impl("_copy_from", _copy_from, "PrivateUse1")
