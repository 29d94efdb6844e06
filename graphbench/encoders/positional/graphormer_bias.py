"""Graphormer's encodings: degrees for the nodes, distances and edges along paths for attention.

Ying et al., Do Transformers Really Perform Badly for Graph Representation?, https://arxiv.org/abs/2106.05234 (version 1
of their code), as ported by GraphGPS, https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphbench.encoders.contract import BatchEncoder
from graphbench.encoders.inputs import embed
from graphbench.encoders.token import insert, pairs_after_token, with_token
from graphbench.errors import ArgumentError
from graphbench.layers.dropout import Dropout
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.pairs import UNREACHABLE


@register("GraphormerBias")
class GraphormerBias(BatchEncoder):
    r"""Graphormer's encodings: degree embeddings, added to the nodes, and ``state.pair_bias`` for attention.

    .. math::

        h_i &\leftarrow h_i + z^-_{\deg^-(i)} + z^+_{\deg^+(i)} \\
        b_{ij} &= s_{\phi(i,j)} + \frac{1}{\max(1, \phi(i,j))} \sum_{k=0}^{D-1} W_k^\top \, t_{e_k(i,j)}

    :math:`\phi`: hops from i to j, D - 1 for D - 1 hops and more, D where there is no path; :math:`e_k`: type of the
    (k+1)-th edge on a shortest path, type 0 beyond its end (which counts, too); degrees count distinct edges. Rows of
    :math:`s` and :math:`t` and the matrices :math:`W_k` have one number per head. Without edge types there is no second
    term.

    With a graph token every graph, empty ones included, has one more node, its first, with a learned state and one
    learned bias per head for all pairs with it; see :mod:`graphbench.encoders.token`.

    Args:
        dim: the first columns of ``h``, which degrees are added to; encodings named after this one follow them.
        heads: heads of the attention that reads the bias (``graphormer.num_heads``).
        num_spatial_types: D.
        num_in_degrees: size of the in-degree table, larger than every degree.
        num_out_degrees: size of the out-degree table.
        node_degrees_only: leave out the bias and its parameters.
        degrees: False leaves out the embeddings of degrees.
        use_graph_token: add a node that represents the graph.
        input_dropout: probability of dropping an entry of the result.
        edge_types: size of the table t (``dataset.edge_encoder_num_types``); 0 where edges have no types.

    Shape:
        h (N, dim + c) -> (N, dim + c), or (N + G, dim + c) with a graph token; ``pair_bias`` (sum n_g^2, heads),
        row-major per graph, rows are queries; added to one that is there.

    Differences from GraphGPS:
        Its token does not renumber the edges, so that parallel message passing joins wrong nodes; here it does. It
        inserts the token with a sort that may reorder the nodes of a graph against their bias; here nodes keep their
        order. With a token, encodings named after this one are 0 for it (there: an error).
    """

    capturable: ClassVar[bool] = True
    transform: ClassVar[str | None] = "GraphormerPaths"

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        num_spatial_types: int | None = None,
        num_in_degrees: int | None = None,
        num_out_degrees: int | None = None,
        node_degrees_only: bool = False,
        degrees: bool = True,
        use_graph_token: FromContext[bool] = True,
        input_dropout: FromContext[float] = 0.0,
        edge_types: FromContext[int] = 0,
    ) -> None:
        super().__init__()
        sizes = {"num_in_degrees": num_in_degrees, "num_out_degrees": num_out_degrees}
        if not node_degrees_only:
            sizes["num_spatial_types"] = num_spatial_types
        for name, size in sizes.items():
            if size is None or size < 1:
                raise ArgumentError(name, f"GraphormerBias: {name} must be 1 or more, received {size}")
        self.dim = dim
        self.in_degree_emb = nn.Embedding(num_in_degrees or 0, dim) if degrees else None
        self.out_degree_emb = nn.Embedding(num_out_degrees or 0, dim) if degrees else None
        self.token = nn.Parameter(torch.empty(1, dim)) if use_graph_token else None
        self.adds_token = use_graph_token
        self.dropout = Dropout(input_dropout)
        self.bias = None
        if not node_degrees_only:
            self.supplies = "pair_bias"
            self.bias = PairBias(heads, num_spatial_types or 0, edge_types, use_graph_token)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """New node states, and the batch with the bias."""
        bias = None if self.bias is None else self.bias(batch)
        encoded = h[:, : self.dim]
        if self.in_degree_emb is not None and self.out_degree_emb is not None:
            in_degree, out_degree = batch.derived(degrees_of)
            encoded = encoded + embed(self.in_degree_emb, in_degree, "GraphormerBias (num_in_degrees)")
            encoded = encoded + embed(self.out_degree_emb, out_degree, "GraphormerBias (num_out_degrees)")
        h = self._with_first_columns(h, encoded)
        if self.token is not None:
            h, batch = with_token(h, self.token, batch, "GraphormerBias")
        h = self._with_first_columns(h, self.dropout(h[:, : self.dim]))
        if bias is not None:
            before = batch.state.pair_bias
            batch = batch.with_state(pair_bias=bias if before is None else before + bias)
        return h, batch

    def _with_first_columns(self, h: Tensor, columns: Tensor) -> Tensor:
        """``h`` with its first ``dim`` columns replaced."""
        return torch.cat([columns, h[:, self.dim :]], dim=1) if h.shape[1] > self.dim else columns


class PairBias(nn.Module):
    """The attention bias b of :class:`GraphormerBias`.

    Args:
        heads: numbers per pair.
        num_spatial_types: D.
        edge_types: size of the table of edge types.
        use_graph_token: make room for one more node per graph.

    Shape:
        batch -> (sum n_g^2, heads), with n_g + 1 in place of n_g where there is a token
    """

    def __init__(self, heads: int, num_spatial_types: int, edge_types: int, use_graph_token: bool) -> None:
        super().__init__()
        self.num_spatial_types = num_spatial_types
        self.spatial_emb = nn.Parameter(torch.empty(num_spatial_types + 1, heads))
        self.edge_type_emb = nn.Parameter(torch.empty(edge_types, heads))
        self.edge_distance = nn.Parameter(torch.empty(num_spatial_types, heads, heads))
        self.token = nn.Parameter(torch.empty(1, heads)) if use_graph_token else None

    def forward(self, batch: GraphBatch) -> Tensor:
        """(P, heads) bias of the ordered pairs, tokens included."""
        if batch.pairs is None:
            raise ValueError("GraphormerBias reads hop distances (batch.pairs), which its transform computes")
        spatial = batch.derived(_spatial_types, self.num_spatial_types)
        bias = F.embedding(spatial, self.spatial_emb)
        types = batch.pair_pe.get("GraphormerBias.edge_types")
        if types is not None and len(self.edge_type_emb):
            bias = bias + self._along_paths(types) / spatial.clamp(min=1).unsqueeze(1)
        if self.token is None:
            return bias
        total = batch.ragged.with_token().num_pairs
        return insert(bias, batch.derived(pairs_after_token), self.token, total)

    def _along_paths(self, types: Tensor) -> Tensor:
        """(P, heads) or (heads,): the sum over k, as the sum for type 0 everywhere plus the differences to it.

        A product per type is ten times faster in the backward pass than looking up every edge of every path.
        """
        num_types = len(self.edge_type_emb)
        hops = types.shape[1]
        if types.device.type == "cpu" and types.numel() and int(types.max()) >= num_types:
            raise ValueError(
                f"GraphormerBias has {num_types} edge types (0 to {num_types - 1}), received type {int(types.max())}"
            )
        table = torch.einsum("th,khj->tkj", self.edge_type_emb, self.edge_distance)
        total = table[0].sum(0)
        for edge_type in range(1, num_types):
            difference = table[edge_type, :hops] - table[0, :hops]
            total = total + (types == edge_type).to(table.dtype) @ difference
        return total


def _spatial_types(batch: GraphBatch, number: int) -> Tensor:
    """(P,) int64 type of every pair: its distance, at most ``number - 1``, and ``number`` where there is no path."""
    assert batch.pairs is not None
    hops = batch.pairs.distance.long()
    return hops.clamp(max=number - 1).masked_fill(hops == UNREACHABLE, number)


def degrees_of(batch: GraphBatch) -> tuple[Tensor, Tensor]:
    """(N,) in-degrees and out-degrees; an edge that repeats counts once."""
    source, target = batch.edge_index
    order = (source * batch.num_nodes + target).argsort()
    source, target = source[order], target[order]
    distinct = torch.ones_like(source)
    distinct[1:] = (source.diff() != 0) | (target.diff() != 0)
    none = source.new_zeros(batch.num_nodes)
    return none.index_add(0, target, distinct), none.index_add(0, source, distinct)
