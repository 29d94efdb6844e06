"""A part of one graph as a batch: whatever works row by row works on it, everything else is refused.

Sums over a graph, its size and attention inside it would silently become those of the part. Therefore the partition
into graphs (:class:`PartOfGraph`) and edges that are not at hand (:class:`AbsentEdges`) raise
:class:`WholeGraphNeeded` as soon as somebody reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from graphbench.structures import GraphBatch, Ragged


class WholeGraphNeeded(ValueError):
    """Something asked a part of a graph for what only the whole graph knows."""


class PartOfGraph(Ragged):
    """Some rows of one graph: their number is known, but not where the graph begins and ends.

    Args:
        rows: number of the rows.
        device: device that they are on.
    """

    def __init__(self, rows: int, device: torch.device) -> None:
        super().__init__(torch.empty(0, dtype=torch.int64, device=device), ())
        self._rows = rows

    @property
    def num_rows(self) -> int:
        """Number of rows at hand."""
        return self._rows

    @property
    def ptr(self) -> NoReturn:
        """Refused.

        Raises:
            WholeGraphNeeded: always.
        """
        raise WholeGraphNeeded("only a part of the graph is at hand, whose size and sums are not those of the graph")

    sizes = num_graphs = ptr


class AbsentEdges(Tensor):
    """An edge index that is not at hand: every function of PyTorch that receives it is refused."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Refused.

        Raises:
            WholeGraphNeeded: always.
        """
        raise WholeGraphNeeded("only a part of the nodes is at hand, without edges")


def nodes_of_graph(rows: int, device: torch.device, **fields: Any) -> GraphBatch:
    """Some nodes of one graph whose edges are not at hand.

    Args:
        rows: number of the rows.
        device: device that they are on.
        fields: other fields of the batch.
    """
    return GraphBatch(PartOfGraph(rows, device), torch.empty(0).as_subclass(AbsentEdges), **fields)


@contextmanager
def named(part: object) -> Iterator[None]:
    """Says which part of the model asked for the whole graph.

    Args:
        part: the module that is called inside (or the name of what is no module).

    Raises:
        ValueError: it needs the whole graph.
    """
    try:
        yield
    except WholeGraphNeeded as error:
        name = type(part).__name__ if isinstance(part, nn.Module) else str(part)
        raise ValueError(
            f"{name} reads the graph as a whole. Block by block a layer sees nodes, their incoming edges and the "
            "sources of these; an attention may read all other nodes through sums, as SGFormer does, and a norm no "
            "more than its row (BatchNorm is such a norm in evaluation). Use val.sampler full_batch"
        ) from error
