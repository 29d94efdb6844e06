"""Time of a step by part, measured while a run is profiled and free of cost otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn
from torch.profiler import record_function

T = TypeVar("T")

DATA, FORWARD, BACKWARD, OPTIMIZER = "data", "forward", "backward", "optimiser"
EVALUATION, METRICS = "evaluation", "metrics"
PARTS = (DATA, FORWARD, BACKWARD, OPTIMIZER, EVALUATION, METRICS)


class StepClock:
    """Seconds and calls of every part, and of every layer in the forward passes of training.

    A GPU is waited for at both ends of a part, so that a part's time is that of its kernels; a captured step is one
    piece, and the parts in it are not told apart.

    Args:
        device: device that computes.
        model: model whose layers are timed.
    """

    def __init__(self, device: torch.device, model: nn.Module) -> None:
        self._waits = device.type == "cuda"
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self._running: list[tuple[str, AbstractContextManager[Any], float]] = []
        self._handles = [hook for name, layer in layers_of(model) for hook in self._watch(name, layer)]

    def close(self) -> None:
        """Leaves the layers alone."""
        for handle in self._handles:
            handle.remove()

    def begin(self, name: str) -> None:
        """A part begins, inside of those that are running; the trace of the profiler names it, too."""
        label = record_function(name)
        label.__enter__()
        self._running.append((name, label, self._now()))

    def end(self) -> None:
        """The part that began last ends."""
        name, label, start = self._running.pop()
        self.seconds[name] = self.seconds.get(name, 0.0) + self._now() - start
        self.calls[name] = self.calls.get(name, 0) + 1
        label.__exit__(None, None, None)

    def table(self) -> str:
        """One line per part, layers below the forward pass in the order of the model: time, share, calls."""
        total = sum(self.seconds.get(part, 0.0) for part in PARTS)
        layers = sorted(name for name in self.seconds if name not in PARTS)
        rows = [name for part in PARTS for name in ((part, *layers) if part == FORWARD else (part,))]
        width = max(len(row) for row in rows) + 2
        lines = [f"{'part':<{width}}{'seconds':>10}{'share':>8}{'calls':>8}{'ms per call':>13}"]
        for name in rows:
            seconds, calls = self.seconds.get(name, 0.0), self.calls.get(name, 0)
            share, each = seconds / total if total else 0.0, 1e3 * seconds / calls if calls else 0.0
            shown = name if name in PARTS else f"  {name}"
            lines.append(f"{shown:<{width}}{seconds:>10.3f}{share:>8.1%}{calls:>8}{each:>13.3f}")
        return "\n".join(lines) + "\n"

    def _watch(self, name: str, layer: nn.Module) -> Iterator[Any]:
        def before(module: nn.Module, _: Any) -> None:
            if module.training:
                self.begin(name)

        def after(module: nn.Module, *_: Any) -> None:
            if module.training:
                self.end()

        yield layer.register_forward_pre_hook(before)
        yield layer.register_forward_hook(after)

    def _now(self) -> float:
        if self._waits and not torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()
        return time.perf_counter()


def layers_of(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """The children of a model, those of its lists of layers one by one, with their names."""
    number = 0
    for name, child in model.named_children():
        inner = child.named_children() if isinstance(child, nn.ModuleList | nn.Sequential) else [("", child)]
        for index, layer in inner:
            yield f"{number:02d} {'.'.join(filter(None, (name, index)))} ({type(layer).__name__})", layer
            number += 1


_clocks: list[StepClock] = []


def watch(clock: StepClock) -> Callable[[], None]:
    """Parts of this process's steps are timed by a clock until the function that this returns is called."""
    _clocks.append(clock)

    def stop() -> None:
        clock.close()
        _clocks.remove(clock)

    return stop


def part(name: str) -> AbstractContextManager[None]:
    """A block that is a part of a step."""
    return _timed(name) if _clocks else nullcontext()


def each(name: str, items: Iterable[T]) -> Iterator[T]:
    """The items; getting one is a part of a step."""
    iterator = iter(items)
    while True:
        with part(name):
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


@contextmanager
def _timed(name: str) -> Iterator[None]:
    clock = _clocks[-1]
    clock.begin(name)
    try:
        yield
    finally:
        clock.end()
