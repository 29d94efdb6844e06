"""Where batches come from: what the trainer asks of every data loader.

Example: an epoch of training, and one evaluation::

    for batch, rows in loaders.train(epoch=0):          # rows None: every prediction counts
        ...
    for eval_pass in loaders.passes:                    # one forward pass of a graph serves all splits that share it
        predictions = torch.cat([model(batch) for batch in eval_pass.batches()])
        by_split = {split: predictions[rows] for split, rows in eval_pass.rows.items() if rows is not None}
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from graphbench.structures.graph_batch import GraphBatch
from graphbench.structures.node_blocks import NodeBlocks


@dataclass(frozen=True)
class EvaluationPass:
    """One sweep of forward passes without gradients that serves one or several splits.

    Attributes:
        rows: split -> indices into the predictions of all batches, concatenated; None for all of them. With several
            processes each has its own rows (or batches): consecutive ones, so that those of all processes, in the
            order of ranks, are the split in its order.
        batches: makes the batches on the device, always in the same order (or gives the graph in blocks of nodes);
            none where this process has no graph of the split.
    """

    rows: Mapping[str, Tensor | None]
    batches: Callable[[], Iterator[GraphBatch | NodeBlocks]]


class DataLoaders(ABC):
    """Batches of all splits, in one process.

    Attributes:
        passes: together they hold every split.
    """

    passes: Iterable[EvaluationPass]

    @property
    @abstractmethod
    def num_train_batches(self) -> int:
        """Batches of an epoch, the same in every process."""

    @abstractmethod
    def train(self, epoch: int) -> Iterator[tuple[GraphBatch, Tensor | None]]:
        """The training batches of one epoch, on the device.

        Args:
            epoch: together with the seed of the loaders, it alone decides the order.

        Yields:
            The batch, and the rows of its predictions and targets that count (None: all).
        """
