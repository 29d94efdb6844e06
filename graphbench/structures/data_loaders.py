"""Source of batches: what the trainer asks of every data loader.

Example: an epoch of training, and one evaluation::

    for batch, rows in loaders.train(epoch=0):          # rows None: every prediction counts
        ...
    for eval_pass in loaders.passes:                    # one forward pass of a graph serves all splits that share it
        predictions = torch.cat([model(batch) for batch, _ in eval_pass.batches()])
        by_split = {split: predictions[rows] for split, rows in eval_pass.rows.items() if rows is not None}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from graphbench.structures.capacity import Capacity, RealRows
from graphbench.structures.graph_batch import GraphBatch
from graphbench.structures.node_blocks import NodeBlocks


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """A batch before it is put together.

    Attributes:
        graphs: (B,) int64 numbers of its graphs; None for the one batch that holds all of them, always the same object.
        rows: predictions that count.
        capacity: class that it can be padded to; None where it fits none (and for the batch of all graphs).
    """

    graphs: np.ndarray | None
    rows: int
    capacity: Capacity | None = None

    @property
    def is_captured(self) -> bool:
        """Whether batches like this one have shapes of their own, so that work on them can be captured."""
        return self.graphs is None or self.capacity is not None


@dataclass(frozen=True, eq=False)
class DeviceBatch:
    """A batch on the device, padded or not, and what counts in it.

    Attributes:
        batch: the batch.
        rows: int64 numbers of the predictions and targets that count; None: all that are real.
        real: which predictions and targets are no padding; None: all.
    """

    batch: GraphBatch
    rows: Tensor | None = None
    real: RealRows | None = None


Batches = Iterator[tuple[GraphBatch, Tensor | None]]
"""Batches on the device, each with the rows of its predictions and targets that count (None: all)."""


@dataclass(frozen=True)
class EvaluationPass:
    """One sweep of forward passes without gradients that serves one or several splits.

    Attributes:
        rows: split -> indices into the predictions of all batches, concatenated; None for all of them. With several
            processes each has its own rows (or batches): consecutive ones, so that those of all processes, in the
            order of ranks, are the split in its order.
        batches: makes the batches on the device, always in the same order (or gives the graph in blocks of nodes);
            none where this process has no graph of the split. With each come, as in training, the rows of its
            predictions and targets that count (None: all).
        plans: plans of the batches, where the loaders are :class:`AssemblesOnDevice`.
    """

    rows: Mapping[str, Tensor | None]
    batches: Callable[[], Batches | Iterator[tuple[NodeBlocks, None]]]
    plans: Callable[[], Iterator[BatchPlan]] | None = None


class DataLoaders(ABC):
    """Batches of all splits, in one process.

    Attributes:
        passes: together they hold every split.
        approximation: omissions of evaluation, in words; None where every prediction is that of the whole graph.
        exact_passes: makes passes over validation and test without that approximation; None where there is none, or
            exact predictions are not to be had.
        sampling: partition that training batches are cut along, in words, where settings do not say it; None: they do.
    """

    passes: Iterable[EvaluationPass]
    approximation: str | None = None
    exact_passes: Callable[[], Iterable[EvaluationPass]] | None = None
    sampling: str | None = None

    @property
    @abstractmethod
    def num_train_batches(self) -> int:
        """Batches of an epoch, the same in every process."""

    @abstractmethod
    def train(self, epoch: int) -> Batches:
        """The training batches of one epoch, on the device.

        Args:
            epoch: together with the seed of the loaders, it alone decides the order.
        """


class AssemblesOnDevice(DataLoaders):
    """Loaders whose batches are put together by the device alone, from graph numbers in a tensor."""

    @abstractmethod
    def capture_obstacle(self) -> str | None:
        """Why their batches cannot be assembled on the device; None where they can."""

    @property
    @abstractmethod
    def is_one_batch(self) -> bool:
        """Whether all steps and evaluations have one and the same batch."""

    @property
    @abstractmethod
    def num_train_rows(self) -> int:
        """Predictions that count in an epoch, the same in every one."""

    @abstractmethod
    def train_plans(self, epoch: int) -> Iterator[BatchPlan]:
        """The batches of :meth:`train`, before they are put together."""

    @abstractmethod
    def assemble(self, plan: BatchPlan, numbers: Tensor) -> DeviceBatch:
        """The batch of a plan that :attr:`~BatchPlan.is_captured`, by operations on the device alone.

        Args:
            plan: plan with the shapes of the batch; its graph numbers are not read.
            numbers: (B,) int64 graph numbers on the device, as :meth:`numbers_of` gives them.
        """

    @abstractmethod
    def numbers_of(self, plan: BatchPlan) -> Tensor:
        """(B,) int64 graph numbers of a plan on the host, as many as its capacity has room for."""

    @abstractmethod
    def num_graphs_of(self, plan: BatchPlan) -> int:
        """Graphs of a plan."""

    @abstractmethod
    def gather(self, plan: BatchPlan) -> DeviceBatch:
        """The batch of any plan, not padded."""
