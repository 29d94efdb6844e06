"""The parts of a model applied to one graph block by block; see :mod:`graphbench.structures.node_blocks`.

Four kinds of part are exact in blocks: maps of single rows; local layers and attentions along edges, whose output at
a node depends on the node, on its incoming edges and on their sources; global attentions that read the other nodes
through sums and along edges (:class:`~graphbench.layers.contract.BlockwiseAttention`); those that mix all nodes channel
by channel (:class:`~graphbench.layers.contract.ChannelwiseAttention`), with memory of some channels. A part that asks
for more (the size of the graph, where it begins, its edges elsewhere) is refused by name, see
:mod:`graphbench.blockwise.part`. Several processes share the blocks: :mod:`graphbench.blockwise.exchange`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor, nn

from graphbench.blockwise.collected import Collected, dense_rows
from graphbench.blockwise.exchange import gather, own
from graphbench.blockwise.model import BlockwiseBlock
from graphbench.blockwise.neighborhood import NeighborhoodBatch
from graphbench.blockwise.part import named, nodes_of_graph
from graphbench.encoders.compose import NodeEncoder
from graphbench.encoders.expander import ExpanderEdges
from graphbench.layers.contract import (
    Block,
    BlockwiseAttention,
    ChannelwiseAttention,
    GraphLayer,
    LocalLayer,
    StatefulAttention,
)
from graphbench.layers.gps import GPSBlock, SubLayer
from graphbench.layers.input_linear import readable
from graphbench.layers.single import SingleBlock
from graphbench.ops.propagate import propagate
from graphbench.structures import GraphBatch, as_dense
from graphbench.structures.node_blocks import HostRows, NodeBlocks

CELLS = 2**24
"""Numbers of a piece of channels of all nodes, on the device."""


class Blockwise:
    """Applies the parts of a model, one after the other, to all blocks of a graph.

    Args:
        graph: the graph in blocks.
        model: the whole model.

    Raises:
        ValueError: the model is in training: dropout aside, batch statistics of a block are not those of the graph.
    """

    def __init__(self, graph: NodeBlocks, model: nn.Module) -> None:
        if any(module.training for module in model.modules()):
            raise ValueError("block by block a model only predicts; call eval() before")
        self.graph = graph

    def nodes(self, encoder: nn.Module) -> HostRows:
        """First states of the nodes, from an encoder ``batch -> ((B, d), batch')``."""
        contextual = list(encoder.contextual) if isinstance(encoder, NodeEncoder) else []
        if contextual:
            raise ValueError(
                f"{contextual[0]} leaves something with the whole graph for the layers. Use val.sampler full_batch"
            )
        out = Collected(self.graph, self.graph.bounds[-1])
        for block, first, last in self._blocks():
            with named(encoder):
                h, _ = encoder(self.graph.nodes(block))
            if h.shape[0] != last - first:
                raise ValueError(
                    f"{type(encoder).__name__} gave {h.shape[0]} rows for {last - first} nodes; "
                    "use val.sampler full_batch"
                )
            out.put(h, first)
        return out.rows()

    def edges(self, encoder: nn.Module) -> HostRows:
        """First states of the edges, sorted by target, from an encoder ``batch -> (E, d)``."""
        out = Collected(self.graph, self.graph.num_edges)
        for block, _, _ in self._blocks():
            out.put(encoder(self.graph.edges(block)), self.graph.edge_span(block)[0])
        return out.rows()

    def rows(self, function: Callable[..., Tensor], *states: HostRows, part: nn.Module | None = None) -> HostRows:
        """``function(*rows, batch=...)`` of every row by itself; the batch holds no features and no edges.

        Args:
            function: a module, or a function.
            states: states whose rows it reads.
            part: module inside the function, to be named where it needs the whole graph.
        """
        out = Collected(self.graph, self.graph.bounds[-1])
        for _, first, last in self._blocks():
            batch = nodes_of_graph(last - first, self.graph.device)
            with named(part or function):
                new = function(*(self._slice(state, first, last) for state in states), batch=batch)
            if new.shape[0] != last - first:
                raise ValueError(
                    f"a head gave {new.shape[0]} rows for {last - first} nodes; block by block "
                    "there is one prediction per node. Use val.sampler full_batch"
                )
            out.put(new, first)
            for state in states:
                state.release()
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
        out, edges = Collected(self.graph, self.graph.bounds[-1]), Collected(self.graph, self.graph.num_edges)
        for block, first, last in self._blocks():
            neighborhood = self.graph.neighborhood(block)
            batch = NeighborhoodBatch.of(neighborhood)
            h_local: Any = readable(h.gather(neighborhood.nodes).to(batch.device), layer)
            e_local = None if e is None else self._slice(e, *neighborhood.edges)
            with named(layer):
                new, e_new, _ = layer.step(h_local, e_local, batch)
                rest = (self._slice(state, first, last) for state in others)
                out.put(then(new[: neighborhood.size], *rest), first)
            for state in (e, *others):
                if state is not None and state is not h:  # which is read all over the place
                    state.release()
            if e_new is not None and e_new is not e_local:
                edges.put(e_new, neighborhood.edges[0])
        h.release()
        return out.rows(), edges.rows_or_none() or e

    def attend(
        self, layer: GraphLayer, h: HostRows, *others: HostRows, then: Callable[..., Tensor], e: HostRows | None = None
    ) -> HostRows:
        """``then(layer(h, e), h, *others)`` for an attention through sums, or along edges; ``then`` is of rows."""
        if isinstance(layer, ChannelwiseAttention):
            return self.rows(lambda new, old, *rest, batch: then(new, old, *rest), self._mixed(layer, h), h, *others)
        if not (isinstance(layer, BlockwiseAttention) and layer.in_sums):
            return self.messages(layer, h, e, h, *others, then=then)[0]
        summary: Any = None
        for _, first, last in self._blocks():
            of_block = layer.reduce_nodes(self._slice(h, first, last))
            summary = of_block if summary is None else summary + of_block
            h.release()
        summary = reduce(add, (each for each in gather(summary, self.graph) if each is not None))
        out = Collected(self.graph, self.graph.bounds[-1])
        for block, first, last in self._blocks():
            rows = self._slice(h, first, last)
            rest = (self._slice(state, first, last) for state in others)
            with named(layer):
                along = self._along_edges(layer, h, block) if layer.reads_edges else None
                out.put(then(layer.apply_summary(rows, summary, along), rows, *rest), first)
            for state in (h, *others):
                state.release()
        return out.rows()

    def propagate(
        self, h: HostRows, *others: HostRows, then: Callable[..., Tensor] | None = None, self_loops: bool = True
    ) -> HostRows:
        """``then(A^ h, *others)`` with A^ = D^-1/2 (A + I) D^-1/2; ``then`` works row by row, None: A^ h itself.

        Without ``self_loops`` A^ = D^-1/2 A D^-1/2.
        """
        out = Collected(self.graph, self.graph.bounds[-1])
        for block, first, last in self._blocks():
            near, batch = self._neighbors(h, block)
            adjacency = batch.adjacency(norm="sym", self_loops=self_loops)
            new = propagate(adjacency, near)[: last - first]
            out.put(new if then is None else then(new, *(self._slice(each, first, last) for each in others)), first)
            for state in others:
                if state is not h:
                    state.release()
        h.release()
        return out.rows()

    def _mixed(self, layer: ChannelwiseAttention, h: HostRows) -> HostRows:
        """The rows of a layer that mixes all nodes channel by channel, some channels at a time."""
        nodes, device = self.graph.bounds[-1], self.graph.device
        near, taps = (Collected(self.graph, nodes, by_column=True) for _ in range(2))
        for block, first, last in self._blocks():
            states, batch = self._neighbors(h, block)
            with named(layer):
                near.put(layer.near_rows(states, batch)[: last - first], first)
            taps.put(layer.tap_rows(torch.arange(first, last, device=device), nodes), first)
        h.release()
        rows, positions = near.rows(), taps.rows()
        width = max(1, CELLS // max(nodes, 1))
        columns = Collected(self.graph, layer.channels)  # a row per channel
        pieces = range(0, layer.channels, width)
        for first in (pieces[number] for number in own(self.graph, len(pieces))):
            channels = slice(first, min(first + width, layer.channels))
            columns.put(layer.mix_channels(dense_rows(rows), dense_rows(positions), channels, device).T, first)
            rows.release()
            positions.release()
        out = columns.rows()
        return HostRows(dense_rows(out).T, out.mapped)

    def _along_edges(self, layer: BlockwiseAttention, h: HostRows, block: int) -> Tensor:
        """Messages that reach the rows of a block along edges."""
        near, batch = self._neighbors(h, block)
        first, last = self.graph.bounds[block : block + 2]
        return layer.along_edges(near, batch)[: last - first]

    def _neighbors(self, h: HostRows, block: int) -> tuple[Tensor, NeighborhoodBatch]:
        """States of a block and behind them those of its neighbours, and the batch of both, on the device."""
        neighborhood = self.graph.neighborhood(block)
        batch = NeighborhoodBatch.of(neighborhood)
        return as_dense(h.gather(neighborhood.nodes).to(batch.device)), batch

    def step(
        self, block: Block, h: HostRows, e: HostRows | None, pairs: HostRows | None = None
    ) -> tuple[HostRows, HostRows | None]:
        """``block(h, e)`` for a block of a stacked model, ``(h, e, batch) -> (h', e', batch')``.

        Args:
            block: one that consists of parts is taken apart, any other is treated as a local layer.
            h: states of the nodes.
            e: states of the edges, sorted by target, or None.
            pairs: result of :meth:`pairs`.
        """
        if isinstance(block, SingleBlock):
            x, e = self._branch(block.branch, h, e, pairs)
            return self.rows(_relu, x), e
        if isinstance(block, BlockwiseBlock):
            return block.forward_blockwise(h, e, self)
        if not isinstance(block, GPSBlock):
            return self.messages(block, h, e, then=_same)
        summed: tuple[HostRows, ...] = ()
        for branch in block.branches:
            if branch.part is not None:
                x, e = self._branch(branch, h, e, pairs, *summed)
                summed = (x,)

        def finish(x: Tensor, batch: GraphBatch) -> Tensor:
            return block.norm_out(x + block.feed_forward(x), batch)

        return self.rows(finish, *(summed or (h,)), part=block.norm_out), e

    def _branch(
        self, branch: SubLayer, h: HostRows, e: HostRows | None, pairs: HostRows | None, *summed: HostRows
    ) -> tuple[HostRows, HostRows | None]:
        """Output of the branch, plus ``summed``, and the edge states."""
        part = branch.part
        if branch.edges is not None:
            raise ValueError(
                f"{type(part).__name__} reads the edge set '{branch.edges}', which is not cut into blocks. Use "
                "val.sampler full_batch"
            )

        def finish(new: Tensor, old: Tensor, *before: Tensor) -> Tensor:
            x = old + branch.dropout(new) if branch.adds_residual else new
            with named(branch.norm):
                normed: Tensor = branch.norm(x, nodes_of_graph(x.shape[0], x.device))
                return sum(before, normed)

        assert part is not None
        if isinstance(part, LocalLayer):
            return self.messages(part, h, e, h, *summed, then=finish)
        states = pairs if pairs is not None and isinstance(part, StatefulAttention) else e
        return self.attend(part, h, *summed, then=finish, e=states), e

    def pairs(self, prepare: nn.Module | None, e: HostRows | None) -> HostRows | None:
        """States of the pairs that Exphormer attends along: those of the edges, where there are no other pairs.

        Args:
            prepare: module that puts the pairs together, or None.
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
        """The blocks of this process, and where their nodes begin and end."""
        bounds = self.graph.bounds
        return [(block, bounds[block], bounds[block + 1]) for block in own(self.graph, len(bounds) - 1)]

    def _slice(self, rows: HostRows, first: int, last: int) -> Any:
        """Rows on the device: a tensor, or the sparse raw features, which only a layer that reads them is handed."""
        return rows.tensor[first:last].to(self.graph.device)


def _same(h: Tensor) -> Tensor:
    return h


def _relu(h: Tensor, batch: GraphBatch) -> Tensor:
    return h.relu()
