"""Losses, predictions, targets and statistics of a pass, written by the device into buffers that it keeps.

A captured step cannot append to a list: where its batch belongs is a tensor, so that one recorded piece of work serves
every batch of a class. What the host keeps of a batch are views of the buffers, which cost no launch; the rows of a
pass lie one after the other, so that they come to the host as one piece.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from graphbench.ops.put_rows import put_rows

_Level = Literal["batch", "row", "graph"]
_LEVELS: tuple[_Level, ...] = get_args(_Level)


@dataclass(frozen=True, eq=False)
class StepOutput:
    """Numbers that a step leaves for logs and metrics.

    Attributes:
        loss: () of the batch; None where it is not wanted.
        kept: (R, ...) what :meth:`~graphbench.tasks.task.Task.keep` leaves of the predictions.
        true: (R, ...) targets.
        statistics: name -> (G,) about every graph.
    """

    loss: Tensor | None
    kept: Tensor
    true: Tensor
    statistics: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """Place of a batch in a pass.

    Attributes:
        batch: number of the batch.
        row: first prediction of the batch.
        graph: first graph of the batch.
    """

    batch: int
    row: int
    graph: int

    def tensor(self) -> Tensor:
        """(3,) int64, as :meth:`Tally.write` reads it."""
        return torch.tensor([self.batch, self.row, self.graph])


class Tally:
    """Buffers of one pass; the next one begins at the start again.

    Args:
        batches: most batches of a pass.
        rows: predictions of a pass that count, at most.
        graphs: most graphs of a pass; 0 where there are no statistics.
    """

    def __init__(self, batches: int, rows: int, graphs: int = 0) -> None:
        self._end = Place(batches, rows, graphs)
        self._next = Place(0, 0, 0)
        self._buffers: dict[str, Tensor] = {}
        self._outputs: dict[int, tuple[Place, int, int, StepOutput]] = {}

    def begin(self) -> None:
        """Before the first batch of a pass."""
        self._next = Place(0, 0, 0)

    def reserve(self, rows: int, graphs: int = 0) -> Place:
        """The place of the next batch.

        Args:
            rows: predictions of the batch that count.
            graphs: graphs of the batch.
        """
        place = self._next
        self._next = Place(place.batch + 1, place.row + rows, place.graph + graphs)
        after, end = self._next, self._end
        if after.batch > end.batch or after.row > end.row or after.graph > end.graph:
            raise RuntimeError(f"a pass was announced to end at {self._end}, its next batch at {self._next}")
        return place

    @property
    def beyond(self) -> Place:
        """Place behind all others: what is written there is lost."""
        return self._end

    def write(self, place: Tensor, output: StepOutput) -> None:
        """Puts a batch at its place, by operations on the device alone.

        Padding behind its rows is overwritten by the next batch. Buffers are made when a name is written first.

        Args:
            place: (3,) int64 of :meth:`Place.tensor`, on the device.
            output: output for the batch, real rows first.
        """
        fields: list[tuple[str, _Level, Tensor]] = [("kept", "row", output.kept), ("true", "row", output.true)]
        if output.loss is not None:
            fields.append(("loss", "batch", output.loss.view(1)))
        fields += [(f"statistics {name}", "graph", values) for name, values in output.statistics.items()]
        buffers = [self._buffer(name, level, values) for name, level, values in fields]
        levels = [_LEVELS.index(level) for _, level, _ in fields]
        put_rows(place, [values.detach() for *_, values in fields], buffers, levels)

    def read(self, place: Place, rows: int, graphs: int = 0) -> StepOutput:
        """Output of a batch as it was written, as views; arguments as for :meth:`reserve`.

        The same objects pass after pass, as long as the batch of this number has the same rows and graphs.
        """
        known = self._outputs.get(place.batch)
        if known is None or known[:3] != (place, rows, graphs):
            known = self._outputs[place.batch] = place, rows, graphs, self._views(place, rows, graphs)
        return known[3]

    def _views(self, place: Place, rows: int, graphs: int) -> StepOutput:
        loss = self._buffers.get("loss")
        return StepOutput(
            None if loss is None else loss[place.batch],
            self._buffers["kept"].narrow(0, place.row, rows),
            self._buffers["true"].narrow(0, place.row, rows),
            {
                name.removeprefix("statistics "): buffer.narrow(0, place.graph, graphs)
                for name, buffer in self._buffers.items()
                if name.startswith("statistics ")
            },
        )

    def _buffer(self, name: str, level: _Level, values: Tensor) -> Tensor:
        if name not in self._buffers:  # one row more takes what nobody reads
            self._outputs.clear()  # which had no view of it
            self._buffers[name] = values.new_zeros((getattr(self._end, level) + 1, *values.shape[1:]))
        return self._buffers[name]
