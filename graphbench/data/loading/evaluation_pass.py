"""Passes over graphs in evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from graphbench.structures import GraphBatch

if TYPE_CHECKING:
    from graphbench.blockwise.graph import NodeBlocks


@dataclass(frozen=True)
class EvaluationPass:
    """One run over graphs without gradients, and which of its predictions belong to which part of the split.

    Attributes:
        rows: part -> rows of the concatenated predictions of all batches; None: all of them.
        batches: makes the batches on the device, always in the same order (or the graph in blocks); none where this
            process has no graph of the part.
    """

    rows: Mapping[str, Tensor | None]
    batches: Callable[[], Iterator[GraphBatch | NodeBlocks]]
