"""DeepGraph: tokens of motifs, which attend to their nodes alone, in a very deep Transformer (https://arxiv.org/abs/2303.00579)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.blocks.deep_norm import DeepNorm
from graphbench.layers.dropout import Dropout
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.models.contract import EncodedModel, Frame
from graphbench.models.graph_trans import graphs_as_nodes
from graphbench.models.motif_sampling import MotifLists, cover, ordered_adjacency, places
from graphbench.models.requirements import check_same_width
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, Ragged, as_dense


@dataclass(frozen=True)
class MotifSettings:
    """Motifs (see :mod:`graphbench.transforms.motifs`) and layers; every field is a key of the model.

    Attributes:
        cycles: nodes of the longest cycle; 0: none.
        paths: nodes of the longest path; 0: none.
        stars: leaves of the largest star; 0: none.
        hops: radius of the ball around every node; 0: none.
        walk: steps of a walk from every node; 0: none.
        max_nodes: most nodes of a motif.
        redundancy: motifs that every node lies in at least, where that is possible.
        of_graphs: the head reads the token of every graph; False: the nodes.
        heads: attention heads, as many as the bias of pairs has columns (``graphormer.num_heads``).
        ffn_dim: width inside feed-forward networks; None: that of the layers.
        attn_dropout: dropout of attention weights.
        mlp_dropout: dropout inside feed-forward networks.
    """

    cycles: int = 8
    paths: int = 8
    stars: int = 6
    hops: int = 2
    walk: int = 0
    max_nodes: int = 12
    redundancy: int = 6
    of_graphs: bool = True
    heads: int = 8
    ffn_dim: int | None = None
    attn_dropout: float = 0.1
    mlp_dropout: float = 0.1


_LISTED = ("cycles", "paths", "stars", "hops", "walk")


@register("DeepGraph")
class DeepGraph(EncodedModel):
    r"""Transformer over the nodes of a graph, its token, and tokens of some of its motifs.

    Equations, A_m the adjacency of motif m in an order by breadth-first search, t the graph's token, LN of tokens::

        x = drop(LN([t | h | W_2 relu(W_1 vec(A_m) + b_1) + b_2, all m of a cover]))
        x <- DeepNorm_l(x, B),    y = head(LN(gelu(W x + b)))    of t, or of the nodes

        B_ij  = bias of the encoder GraphormerBias for nodes,  b' for pairs with t
        B_im  = B_mi = b'' for the nodes i of m;   minus infinity for all other pairs with m, m itself included

    The cover is drawn anew in every training step (:func:`~graphbench.models.motif_sampling.cover`); in evaluation it
    depends on a graph and the numbering of its nodes alone, so that the model is invariant in distribution only.

    Args:
        frame: encoder with GraphormerBias, without a graph token, widths, both of them ``dim``, factory of the head.
        layers: number of them (``gt.layers``).
        dropout: drop, and after every sublayer (``gnn.dropout``).
        motif: keys of their own, see :class:`MotifSettings`.

    Shape:
        batch -> prediction of the head. Layers compute 1 + 2 n rows for a graph of n nodes: there is room for as many
        motifs, and what of it is empty is heard by nobody.

    Differences from the released code: motifs are ordered by breadth-first search, as the paper says; there the order
    is lost in a set, so that nodes come by their numbers, and the first motif of the smallest graph of a batch is a row
    of zeros. Covers have at most as many motifs as the graph has nodes, and are fixed in evaluation. b'' is there the
    bias of nodes without a path. Edges enter the bias as in Graphormer's first version (GraphGPS's), there those of the
    first five steps of a path. Training is in half precision there.
    """

    permutation_equivariant: ClassVar[bool] = False  # in distribution only

    def __init__(
        self,
        frame: Frame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        motif: MotifSettings = MotifSettings(),
    ) -> None:
        super().__init__(frame.encoder, keep_sparse=False)
        m, dim = motif, frame.dim
        check_at_least(1, layers=layers, max_nodes=m.max_nodes, redundancy=m.redundancy, heads=m.heads)
        check_same_width(frame.dim_encoded, dim, "layers are as wide as encoded nodes")
        largest = max(m.cycles, m.paths, m.stars and m.stars + 1, m.walk and m.walk + 1)
        if m.max_nodes < largest:
            text = f"max_nodes must be at least {largest}, the nodes of the largest motif, received {m.max_nodes}"
            raise ArgumentError("max_nodes", text)
        self.motif, self.of_graphs = m, m.of_graphs
        self.token = nn.Parameter(torch.empty(1, dim))
        self.token_bias, self.motif_bias = (nn.Parameter(torch.empty(1, m.heads)) for _ in range(2))
        for parameter in (self.token, self.token_bias, self.motif_bias):
            nn.init.normal_(parameter, std=0.02)
        self.of_motif = nn.Sequential(nn.Linear(m.max_nodes**2, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.norm_in, self.dropout = LayerNorm(dim), Dropout(dropout)
        self.layers: Modules[DeepNorm] = Modules(
            DeepNorm(
                dim,
                m.heads,
                depth=layers,
                dropout=dropout,
                attn_dropout=m.attn_dropout,
                mlp_dropout=m.mlp_dropout,
                ffn_dim=m.ffn_dim,
            )
            for _ in range(layers)
        )
        self.hidden, self.norm_out, self.head = nn.Linear(dim, dim), LayerNorm(dim), frame.head(dim)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Motifs and their nodes."""
        listed = {name: arguments[name] for name in _LISTED}
        return {"Motifs": listed, "MotifNodes": listed}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        encoded, _, batch = self.encode(batch)
        h, lists = as_dense(encoded), batch.derived(MotifLists)
        draw = lists.drawn() if self.training else lists.fixed()
        chance = draw()
        place, motif = places(lists, batch, cover(lists, batch, self.motif.redundancy, draw))
        adjacency = ordered_adjacency(lists, batch, motif, self.motif.max_nodes, chance)
        tokens = _Tokens(batch, lists, place)
        motifs = self.of_motif(adjacency.flatten(1).to(h.dtype))
        x = self.token.expand(tokens.ragged.num_rows, -1)
        x = x.index_copy(0, tokens.node, h).index_copy(0, tokens.motif, motifs)
        x = self.dropout(self.norm_in(x))
        around = GraphBatch(tokens.ragged, batch.edge_index.new_empty(2, 0)).with_state(
            pair_bias=tokens.bias(batch.state.pair_bias, self.token_bias, self.motif_bias)
        )
        for layer in self.layers:
            x, _, around = layer(x, None, around)
        rows = x.index_select(0, tokens.ragged.ptr[:-1] if self.motif.of_graphs else tokens.node)
        rows = self.norm_out(F.gelu(self.hidden(rows)))
        return self.head(rows, batch.derived(graphs_as_nodes) if self.motif.of_graphs else batch)


class _Tokens:
    """Places of every graph's token, its nodes and as many places for motifs, one after the other.

    Attributes:
        ragged: layout of all of them.
        node: (N,) position of every node.
        motif: (N,) position of every place for a motif.
    """

    def __init__(self, batch: GraphBatch, lists: MotifLists, place: Tensor) -> None:
        old = batch.ragged
        self._old = old
        self.ragged = Ragged.from_sizes([1 + 2 * size for size in old.sizes], batch.device)
        number, graph = torch.arange(old.num_rows, device=batch.device), old.graph_id
        self.node = number + (self.ragged.ptr[:-1] + 1 - old.ptr[:-1]).index_select(0, graph)
        self.motif = self.node + old.size_tensor.index_select(0, graph)
        self._filled = torch.zeros(old.num_rows + 1, dtype=torch.bool, device=batch.device)
        self._filled = self._filled.index_fill(0, place, True)[:-1]
        place = place.index_select(0, lists.motif)
        self._member = place < old.num_rows
        motif = self.motif.take(place.clamp(max=max(old.num_rows - 1, 0)))
        self._members = self.node.index_select(0, lists.node), motif

    def bias(self, of_nodes: Tensor | None, of_token: Tensor, of_motif: Tensor) -> Tensor:
        """(P, heads) bias of all pairs.

        Args:
            of_nodes: (sum n_g^2, heads) that of pairs of nodes; None: 0.
            of_token: (1, heads) that of pairs with a graph's token.
            of_motif: (1, heads) that of a motif and its nodes.
        """
        old, new = self._old, self.ragged
        if of_nodes is None:
            of_nodes = of_token.new_zeros(old.num_pairs, of_token.shape[1])
        last = new.num_pairs  # where goes what belongs nowhere
        bias = of_token.new_full((last + 1, of_token.shape[1]), -torch.inf)
        row, column = (self.node.index_select(0, end) for end in old.pair_ends)
        bias = bias.index_copy(0, self._pair(row, column), of_nodes)
        every = torch.arange(new.num_rows, device=self.node.device)
        first = new.ptr.index_select(0, new.graph_id)
        heard = (every != first).index_copy(0, self.motif, self._filled)
        to_token, to_all = self._pair(every, first), torch.where(heard, self._pair(first, every), last)
        bias = bias.index_copy(0, torch.cat([to_token, to_all]), of_token.expand(2 * len(every), -1))
        node, motif = self._members
        inside = torch.stack([self._pair(node, motif), self._pair(motif, node)])
        inside = torch.where(self._member, inside, last).flatten()
        return bias.index_copy(0, inside, of_motif.expand(len(inside), -1))[:-1]

    def _pair(self, row: Tensor, column: Tensor) -> Tensor:
        """Places of pairs of one graph."""
        graph = self.ragged.graph_id.index_select(0, row)
        first, size = (each.index_select(0, graph) for each in (self.ragged.ptr, self.ragged.size_tensor))
        return self.ragged.pair_ptr.index_select(0, graph) + (row - first) * size + column - first
