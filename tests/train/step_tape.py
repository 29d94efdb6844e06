"""Step graphs without a GPU: operations of the second device on a tape, done again on the same memory.

As with a CUDA graph nothing of Python runs in a replay: numbers that the host computed stay what they were when the
tape was recorded, whatever the batch is. Replays draw new random numbers. What cannot be captured raises, as there.
Triton kernels are on the tape, too, where its interpreter runs them (TRITON_INTERPRET=1).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

from graphbench.ops import backend, gpu_launch
from graphbench.train.step_graph import StepGraph, StepGraphs
from tests.second_device import UNDEFINED, Elsewhere, recorded, tensors_in, triton_stubbed

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

Signature = tuple[Any, ...]


class Tape(StepGraph):
    """Recorded operations.

    Args:
        stubbed: take the second device for a GPU, and record Triton kernels without running them.

    Attributes:
        trace: every operation with shapes, types and numbers from the host.
    """

    def __init__(self, stubbed: bool = False) -> None:
        self._stubbed = stubbed
        self._operations: list[Callable[[], None]] = []
        self.trace: list[Signature] = []

    def capture(self, work: Callable[[], None]) -> None:
        """Records, and does the work meanwhile (which a CUDA graph would not)."""
        with recorded(self._record), _interpreted(self._record_kernel, self._stubbed):
            work()

    def replay(self) -> None:
        for operation in self._operations:
            operation()

    def skip(self, name: str) -> None:
        """Takes the operations of that name off the tape: kernels on a stream that was not captured."""
        kept = [(each, sign) for each, sign in zip(self._operations, self.trace, strict=True) if sign[0] != name]
        assert len(kept) < len(self.trace)
        self._operations, self.trace = [each for each, _ in kept], [sign for _, sign in kept]

    def _record(self, function: Any, args: Any, kwargs: dict[str, Any], result: Any) -> None:
        name = function._schema.name.removeprefix("aten::")
        self.trace.append((name, *_signature((args, kwargs))))
        outputs = list(tensors_in(result))
        inputs = list(tensors_in((args, *kwargs.values())))
        memory = {_address(each) for each in inputs}
        aliases = all(_address(each) in memory for each in outputs)

        def again() -> None:
            if name.split(".")[0] in UNDEFINED:
                return
            with torch.no_grad():
                new = list(tensors_in(function(*args, **kwargs)))
                for old, value in zip(outputs, new, strict=True):
                    if _address(old) not in memory and old.numel():
                        old.copy_(value)

        # Views need nothing: their memory is that of their base.
        is_view = aliases and not function._schema.is_mutable
        self._operations.append((lambda: None) if is_view else again)

    def _record_kernel(self, name: str, again: Callable[[], None], signature: Signature) -> None:
        self.trace.append((name, *signature))
        self._operations.append(again)


class Tapes(StepGraphs):
    """Makes tapes, and keeps them."""

    def __init__(self) -> None:
        self.made: list[Tape] = []

    def new(self) -> StepGraph:
        self.made.append(Tape())
        return self.made[-1]

    def warm_up(self, work: Callable[[], None]) -> None:
        with on_second_device():
            work()


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _signature(arguments: Any) -> Signature:
    def sign(each: Any) -> Any:
        if isinstance(each, Tensor):
            return (tuple(each.shape), each.stride(), each.dtype)
        return each

    return tuple(str(sign(each)) for each in tree_flatten(arguments)[0])


@contextmanager
def on_second_device() -> Iterator[None]:
    """Inside, interpreted Triton kernels take tensors of the second device, and code takes it for a GPU."""
    with _interpreted(None):
        yield


def _stubbed(record: Callable[[str, Callable[[], None], Signature], None]) -> AbstractContextManager[None]:
    """Inside, Triton kernels are recorded but not run."""
    return triton_stubbed(
        lambda kernel, args, named: record(kernel.fn.__name__, lambda: None, _signature((args, named)))
    )


@contextmanager
def _interpreted(
    record: Callable[[str, Callable[[], None], Signature], None] | None, stubbed: bool = False
) -> Iterator[None]:
    if not INTERPRETED:
        with _stubbed(record) if stubbed and record is not None else nullcontext():
            yield
        return
    from triton.runtime.interpreter import InterpretedFunction

    run = InterpretedFunction.run

    def launched(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        args, kwargs = tree_map(lambda each: each.raw if isinstance(each, Elsewhere) else each, (args, kwargs))
        if record is not None:
            record(
                kernel.fn.__name__,
                lambda: run(kernel, *args, grid=grid, warmup=warmup, **kwargs),
                _signature((grid, args, kwargs)),
            )
        return run(kernel, *args, grid=grid, warmup=warmup, **kwargs)

    with (
        mock.patch.object(InterpretedFunction, "run", launched),
        mock.patch.object(backend, "on_gpu", lambda x: x.device.type != "cpu"),
        mock.patch.object(gpu_launch, "INTERPRETED", True),
    ):
        yield
