"""The parts of a model applied to one graph block by block; see :mod:`graphbench.blockwise.graph`.

Three kinds of part are exact in blocks: maps of single rows; local layers and attentions along edges, whose output at
a node depends on the node, on its incoming edges and on their sources; global attentions that read the other nodes
through sums only (:class:`~graphbench.layers.contract.BlockwiseAttention`). A part that asks for more (the size of the
graph, where it begins, its edges elsewhere) is refused by name: :class:`~graphbench.blockwise.graph.RowsOfGraph` does
not have it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from graphbench.blockwise.graph import HostRows, NodeBlocks, NodeRows, WholeGraphNeeded
from graphbench.blockwise.neighborhood import NeighborhoodBatch
from graphbench.encoders.expander import ExpanderEdges
from graphbench.layers.contract import BlockwiseAttention, GraphLayer, LocalLayer, StatefulAttention
from graphbench.layers.gps import GPSBlock, SubLayer
from graphbench.layers.input_linear import readable
from graphbench.layers.single import SingleBlock
from graphbench.structures import Features, SparseRows


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
            h, _ = _applied(encoder, self.graph.nodes(block))
            if h.shape[0] != last - first:
                raise ValueError(
                    f"{type(encoder).__name__} gave {h.shape[0]} rows for {last - first} nodes; "
                    "use val.sampler full_batch"
                )
            out.put(h, first)
        return out.rows()

    def edges(self, encoder: nn.Module) -> HostRows:
        """First states of the edges, sorted by target, from an encoder ``batch -> (E, d)``."""
        out, first = _Collected(self.graph, self.graph.num_edges), 0
        for block, _, _ in self._blocks():
            e = _applied(encoder, self.graph.edges(block))
            out.put(e, first)
            first += e.shape[0]
        return out.rows()

    def rows(self, function: Callable[..., Tensor], *states: HostRows) -> HostRows:
        """``function(*rows, batch=...)`` of every row by itself; the batch holds no features and no edges."""
        out = _Collected(self.graph, self.graph.bounds[-1])
        for _, first, last in self._blocks():
            batch = NodeRows.of(last - first, self.graph.device)
            new = _applied(function, *(self._slice(each, first, last) for each in states), batch=batch)
            if new.shape[0] != last - first:
                raise ValueError(
                    f"a head gave {new.shape[0]} rows for {last - first} nodes; block by block "
                    "there is one prediction per node. Use val.sampler full_batch"
                )
            out.put(new, first)
            for each in states:
                each.release()
        return out.rows()

    def messages(
        self, layer: GraphLayer, h: HostRows, e: HostRows | None, *others: HostRows, then: Callable[..., Tensor]
    ) -> tuple[HostRows, HostRows | None]:
        """``then(layer(h, e), *others)`` and the edge states behind the layer.

        Args:
            layer: a local layer, or an attention along edges; the batch it returns is left.
            h: states of the nodes.
            e: states of the edges, sorted by target, or None.
            others: states whose rows ``then`` reads beside the new ones.
            then: works row by row.
        """
        out, edges = _Collected(self.graph, self.graph.bounds[-1]), _Collected(self.graph, self.graph.num_edges)
        for block, first, last in self._blocks():
            near = self.graph.neighborhood(block)
            seen = NeighborhoodBatch.of(near)
            h_near = h.tensor.index_select(0, near.nodes).to(seen.device)
            e_near = None if e is None else self._slice(e, *near.edges)
            new, e_new, _ = _applied(layer.step, readable(h_near, layer), e_near, seen)
            rest = (self._slice(each, first, last) for each in others)
            out.put(_applied(then, new[: near.size], *rest), first)
            for each in others if e is None else (e, *others):
                if each is not h:  # which is read all over the place
                    each.release()
            if e_new is not None and e_new is not e_near:
                edges.put(e_new, near.edges[0])
        h.release()
        return out.rows(), edges.rows() if edges.started else e

    def attend(
        self, layer: GraphLayer, h: HostRows, *others: HostRows, then: Callable[..., Tensor], e: HostRows | None = None
    ) -> HostRows:
        """``then(layer(h, e), h, *others)`` for an attention through sums, or along edges; ``then`` is of rows."""
        if not isinstance(layer, BlockwiseAttention):
            return self.messages(layer, h, e, h, *others, then=then)[0]
        summary: Any = None
        for _, first, last in self._blocks():
            own = layer.reduce_nodes(self._slice(h, first, last))
            summary = own if summary is None else summary + own
            h.release()
        out = _Collected(self.graph, self.graph.bounds[-1])
        for _, first, last in self._blocks():
            rows, *rest = (self._slice(each, first, last) for each in (h, *others))
            out.put(_applied(then, layer.apply_summary(rows, summary), rows, *rest), first)
            for each in (h, *others):
                each.release()
        return out.rows()

    def step(
        self, block: nn.Module, h: HostRows, e: HostRows | None, pairs: HostRows | None = None
    ) -> tuple[HostRows, HostRows | None]:
        """``block(h, e)`` for a block of a stacked model, ``(h, e, batch) -> (h', e', batch')``.

        Args:
            block: one that consists of parts is taken apart, any other is treated as a local layer.
            h: states of the nodes.
            e: states of the edges, sorted by target, or None.
            pairs: what :meth:`pairs` gave.
        """
        if isinstance(block, SingleBlock):
            x, e = self._branch(block.branch, h, e, pairs)
            return self.rows(_relu, x), e
        if not isinstance(block, GPSBlock):
            return self.messages(block, h, e, then=_same)
        summed: tuple[HostRows, ...] = ()
        for branch in block.branches:
            if branch.part is not None:
                x, e = self._branch(branch, h, e, pairs, *summed)
                summed = (x,)

        def finish(x: Tensor, batch: NodeRows) -> Tensor:
            return block.norm_out(x + block.feed_forward(x), batch)

        return self.rows(finish, *(summed or (h,))), e

    def _branch(
        self, branch: SubLayer, h: HostRows, e: HostRows | None, pairs: HostRows | None, *summed: HostRows
    ) -> tuple[HostRows, HostRows | None]:
        """What the branch returns, plus ``summed``, and the edge states."""
        part = branch.part
        if branch.edges is not None:
            raise ValueError(
                f"{type(part).__name__} reads the edge set '{branch.edges}', which is not cut into blocks. Use "
                "val.sampler full_batch"
            )

        def finish(new: Tensor, old: Tensor, *before: Tensor) -> Tensor:
            x = old + branch.dropout(new) if branch.adds_residual else new
            return sum(before, branch.norm(x, NodeRows.of(x.shape[0], x.device)))

        assert part is not None
        if isinstance(part, LocalLayer):
            return self.messages(part, h, e, h, *summed, then=finish)
        seen = pairs if pairs is not None and isinstance(part, StatefulAttention) else e
        return self.attend(part, h, *summed, then=finish, e=seen), e

    def pairs(self, prepare: nn.Module | None, e: HostRows | None) -> HostRows | None:
        """States of the pairs that Exphormer attends along: those of the edges, where there are no other pairs.

        Args:
            prepare: what puts the pairs together, or None.
            e: states of the edges before the first block.
        """
        if prepare is None:
            return None
        if not isinstance(prepare, ExpanderEdges) or prepare.uses != (True, False) or prepare.virtual:
            raise ValueError(
                "expander edges and virtual nodes are not cut into blocks; set prep.exp to false "
                "and prep.num_virt_node to 0, or val.sampler to full_batch"
            )
        return e

    def _blocks(self) -> list[tuple[int, int, int]]:
        return [(block, *span) for block, span in enumerate(pairwise(self.graph.bounds))]

    def _slice(self, rows: HostRows, first: int, last: int) -> Features:
        return rows.tensor[first:last].to(self.graph.device)


class _Collected:
    """Rows written block by block; room is made when the first block shows type and width."""

    def __init__(self, graph: NodeBlocks, total: int) -> None:
        self._graph, self._total = graph, total
        self._rows: HostRows | None = None
        self._sparse: list[SparseRows] = []

    @property
    def started(self) -> bool:
        return self._rows is not None

    def put(self, values: Features, first: int) -> None:
        if isinstance(values, SparseRows):  # raw features; their number is not known before
            self._sparse.append(values.to("cpu"))
            return
        if self._rows is None:
            self._rows = self._graph.empty(self._total, values)
        self._rows.tensor[first : first + values.shape[0]] = values.detach()
        self._rows.release()

    def rows(self) -> HostRows:
        """What was collected."""
        if self._sparse:
            return HostRows(SparseRows.cat(self._sparse))
        assert self._rows is not None
        return self._rows


def _applied(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """``function(*arguments, **named)``; if it needs the whole graph, the message says which module does."""
    try:
        return function(*arguments, **named)
    except WholeGraphNeeded as error:
        callers = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
        name = next((type(each).__name__ for each in reversed(callers) if isinstance(each, nn.Module)), "a function")
        raise ValueError(
            f"{name} reads the graph as a whole. Block by block a layer sees nodes, their incoming edges and the "
            "sources of these; an attention may read all other nodes through sums, as SGFormer does, and a norm no "
            "more than its row (BatchNorm is such a norm in evaluation). Use val.sampler full_batch"
        ) from error


def _same(h: Tensor) -> Tensor:
    return h


def _relu(h: Tensor, batch: NodeRows) -> Tensor:
    return h.relu()
