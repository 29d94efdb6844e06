"""The parts of a model applied to one graph block by block; see :mod:`graphbench.structures.node_blocks`.

Three kinds of part are exact in blocks: maps of single rows; local layers, whose output at a node depends on the
node, on its incoming edges and on their sources; global attentions that read the other nodes through sums only, and
say so by two methods: ``summarise(h) -> summary``, where summaries of disjoint nodes can be added, and
``attend(h, summary) -> h'``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from graphbench.ops.propagate import Adjacency
from graphbench.ops.propagate.adjacency import Csr, normalised
from graphbench.structures import GraphBatch
from graphbench.structures.node_blocks import HostRows, Neighborhood, NodeBlocks, NodeRows


class Blockwise:
    """Applies the parts of a model, one after the other, to all blocks of a graph.

    Args:
        graph: the graph in blocks.
        model: the whole model.

    Raises:
        ValueError: the model is in training: dropout aside, batch statistics of a block are not those of the graph.
    """

    def __init__(self, graph: NodeBlocks, model: nn.Module) -> None:
        if any(each.training for each in model.modules()):
            raise ValueError("block by block a model only predicts; call eval() before")
        self.graph = graph

    def nodes(self, encoder: nn.Module) -> HostRows:
        """First states of the nodes, from an encoder ``batch -> ((B, d), batch')``."""
        out = _Collected(self.graph, self.graph.bounds[-1])
        for block, first, last in self._blocks():
            h, _ = encoder(self.graph.nodes(block))
            if h.shape[0] != last - first:
                raise ValueError(
                    f"val.sampler blocks: {type(encoder).__name__} gave {h.shape[0]} rows for {last - first} nodes; "
                    "use val.sampler full_batch"
                )
            out.put(h, first)
        return out.rows()

    def edges(self, encoder: nn.Module) -> HostRows:
        """First states of the edges, sorted by target, from an encoder ``batch -> (E, d)``."""
        out, first = _Collected(self.graph, self.graph.num_edges), 0
        for block, _, _ in self._blocks():
            e = encoder(self.graph.edges(block))
            out.put(e, first)
            first += e.shape[0]
        return out.rows()

    def rows(self, function: Callable[..., Tensor], *states: HostRows) -> HostRows:
        """``function(*rows, batch=...)`` of every row by itself; the batch holds no features and no edges."""
        out = _Collected(self.graph, self.graph.bounds[-1])
        for _, first, last in self._blocks():
            batch = NodeRows.of(last - first, self.graph.device)
            new = function(*(self._slice(each, first, last) for each in states), batch=batch)
            if new.shape[0] != last - first:
                raise ValueError(
                    f"val.sampler blocks: a head gave {new.shape[0]} rows for {last - first} nodes; block by block "
                    "there is one prediction per node. Use val.sampler full_batch"
                )
            out.put(new, first)
            for each in states:
                each.release()
        return out.rows()

    def messages(
        self, layer: nn.Module, h: HostRows, e: HostRows | None, *others: HostRows, then: Callable[..., Tensor]
    ) -> tuple[HostRows, HostRows | None]:
        """``then(layer(h, e), *others)`` and the edge states behind the layer.

        Args:
            layer: a local layer, ``(h, e, batch) -> (h', e')``.
            h: states of the nodes.
            e: states of the edges, sorted by target, or None.
            others: states whose rows ``then`` reads beside the new ones.
            then: works row by row.
        """
        out, edges = _Collected(self.graph, self.graph.bounds[-1]), _Collected(self.graph, self.graph.num_edges)
        for block, first, last in self._blocks():
            near = self.graph.neighborhood(block)
            seen = _Seen.of(near)
            h_near = h.tensor.index_select(0, near.nodes).to(seen.device)
            e_near = None if e is None else self._slice(e, *near.edges)
            new, e_new = layer(h_near, e_near, seen)
            rest = (self._slice(each, first, last) for each in others)
            out.put(then(new[: near.size], *rest), first)
            for each in others if e is None else (e, *others):
                each.release()
            if e_new is not None and e_new is not e_near:
                edges.put(e_new, near.edges[0])
        h.release()  # read all over the place, so not before
        return out.rows(), edges.rows() if edges.started else e

    def attend(self, layer: nn.Module, h: HostRows, then: Callable[[Tensor, Tensor], Tensor]) -> HostRows:
        """``then(layer(h), h)`` for a global attention with ``summarise`` and ``attend``; ``then`` works row by row."""
        if not (hasattr(layer, "summarise") and hasattr(layer, "attend")):
            raise ValueError(
                f"val.sampler blocks: {type(layer).__name__} reads all nodes at once; block by block an attention must "
                "read them through sums, as SGFormer does. Use val.sampler full_batch"
            )
        summary: Any = None
        for _, first, last in self._blocks():
            own = layer.summarise(self._slice(h, first, last))
            summary = own if summary is None else summary + own
            h.release()
        out = _Collected(self.graph, self.graph.bounds[-1])
        for _, first, last in self._blocks():
            rows = self._slice(h, first, last)
            out.put(then(layer.attend(rows, summary), rows), first)
            h.release()
        return out.rows()

    def _blocks(self) -> list[tuple[int, int, int]]:
        return [(block, *span) for block, span in enumerate(pairwise(self.graph.bounds))]

    def _slice(self, rows: HostRows, first: int, last: int) -> Tensor:
        return rows.tensor[first:last].to(self.graph.device)


class _Collected:
    """Rows written block by block; room is made when the first block shows type and width."""

    def __init__(self, graph: NodeBlocks, total: int) -> None:
        self._graph, self._total = graph, total
        self._rows: HostRows | None = None

    @property
    def started(self) -> bool:
        return self._rows is not None

    def put(self, values: Tensor, first: int) -> None:
        if self._rows is None:
            self._rows = self._graph.empty(self._total, values)
        self._rows.tensor[first : first + values.shape[0]] = values.detach()
        self._rows.release()

    def rows(self) -> HostRows:
        """What was collected."""
        assert self._rows is not None
        return self._rows


@dataclass(frozen=True, eq=False)
class _Seen(GraphBatch):
    """A neighbourhood whose adjacency is cut out of that of the whole graph.

    An outer node lacks its own incoming edges here, so that a symmetric normalisation must not count them. Nor is
    anything sorted: edges come sorted by target, and lists by source are for gradients only.
    """

    near: Neighborhood | None = None

    @classmethod
    def of(cls, near: Neighborhood) -> _Seen:
        return cls(near.batch.ragged, near.batch.edge_index, near=near)

    def derived(self, name: str, compute: Callable[[GraphBatch], Any]) -> Any:
        room, *arguments = name.split("/")
        if room == "propagate" and self.near is not None:
            norm, loops = arguments
            return super().derived(name, lambda _: _adjacency(self.near, norm, loops == "self_loops"))
        return super().derived(name, compute)


def _adjacency(near: Neighborhood, norm: str, self_loops: bool) -> Adjacency:
    """As :func:`graphbench.ops.propagate.adjacency` of the whole graph, for the rows of the block."""
    source, target = near.batch.edge_index
    nodes, block = near.batch.num_nodes, torch.arange(near.size, device=source.device)
    degree, weight = near.in_degree, None
    ptr = torch.zeros(nodes + 1, dtype=torch.int64, device=source.device)
    ptr[1 : near.size + 1] = degree[: near.size] + int(self_loops)
    ptr = ptr.cumsum(0)
    entry = torch.arange(source.numel(), device=source.device)
    if self_loops:
        weight = torch.cat([(source != target).double(), block.new_ones(near.size, dtype=torch.float64)])
        position = torch.cat([entry + target, ptr[1 : near.size + 1] - 1])
        source, target = torch.cat([source, block]), torch.cat([target, block])
        entry = torch.empty_like(position).index_copy_(0, position, torch.arange(position.numel(), device=ptr.device))
        degree = degree - near.loops + 1
    if norm != "none":
        if weight is None:
            weight = torch.ones(source.shape, dtype=torch.float64, device=source.device)
        weight = normalised(weight, source, target, degree.double(), norm)
    nothing = Csr(*(entry.new_empty(0) for _ in range(3)))
    return Adjacency(nodes, source, target, Csr(ptr, entry, source[entry]), nothing, weight)
