"""HSGT: a Transformer over a graph and coarser graphs of its clusters (https://arxiv.org/abs/2305.02866)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graphbench.errors import ArgumentError, check_at_least, check_multiple
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.models.contract import EncodedModel, Frame
from graphbench.ops.edge_attention import edge_attention
from graphbench.ops.propagate import mean_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense
from graphbench.structures.adjacency import Adjacency, adjacency

SETS = ("Hierarchy", "HierarchyPairs")


@dataclass(frozen=True)
class LevelSettings:
    """Levels and their Transformer; every field is a key of the model.

    Attributes:
        coarsening: clusters of every level from level 1 on, as ratios of the nodes of the level below.
        partition: ``metis`` or ``rcm``, see :mod:`graphbench.transforms.hierarchy`.
        hops: D, how far nodes of a level see each other.
        heads: heads of every attention.
        readout_layers: Transformer layers over the levels of a node.
        ffn_expansion: width inside feed-forward networks as a multiple of ``dim``.
        max_degree: nodes with as many neighbours or more share an embedding.
    """

    coarsening: list[float] = field(default_factory=lambda: [0.05])
    partition: Literal["metis", "rcm"] = "metis"
    hops: int = 1
    heads: int = 4
    readout_layers: int = 1
    ffn_expansion: int = 1
    max_degree: int = 199


class TransformerLayer(nn.Module):
    """``y = x + drop(W_O MHA(x, s)),  x' = LN'(y + FFN(LN(y)))``, states x attend to states s; FFN with GELU.

    Args:
        dim: channels.
        heads: attention heads; the maps of attention have no biases.
        expansion: inner width of the feed-forward network as a multiple of ``dim``.
        dropout: dropout after attention, and inside and after the feed-forward network.
    """

    def __init__(self, dim: int, heads: int, expansion: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.dropout = Dropout(dropout)
        self.norm_in, self.norm_out = LayerNorm(dim), LayerNorm(dim)
        self.feed_forward = FeedForward(dim, act="gelu", dropout=dropout, expansion=expansion)

    def along(self, x: Tensor, s: Tensor, pairs: Adjacency, bias: Tensor | None = None) -> Tensor:
        """(T, dim) new states of x (T, dim), which attend to s (S, dim) along pairs s -> x.

        A bias b (D+1,) of scores is a further column of keys: ``[sqrt(d+1) q / sqrt(d) | sqrt(d+1)] . [k | b_d]``. The
        pairs at distance d then come from the d-th copy of the states.

        Args:
            x: see above.
            s: see above, S >= T.
            pairs: S nodes, or (D+1) S with a bias.
            bias: see above, or None.
        """
        q, k, v = (self._heads(lin(y)) for lin, y in ((self.query, x), (self.key, s), (self.value, s)))
        if bias is not None:
            copies, width = len(bias), q.shape[2]
            column = bias.repeat_interleave(len(s)).view(-1, 1, 1).expand(-1, self.heads, 1)
            k, v = torch.cat([k.repeat(copies, 1, 1), column], 2), v.repeat(copies, 1, 1)
            q = F.pad(q * width**-0.5, (0, 1), value=1.0) * (width + 1) ** 0.5
        q = F.pad(q, (0, 0, 0, 0, 0, len(k) - len(q)))  # rows that nothing points at
        return self._rest(x, edge_attention(pairs, q, k, v)[: len(x)].flatten(1))

    def among(self, x: Tensor) -> Tensor:
        """(N, K, dim) new states of sequences (N, K, dim), whose K states attend to each other."""
        q, k, v = (self._heads(lin(x)).transpose(1, 2) for lin in (self.query, self.key, self.value))
        weight = (q @ k.mT * q.shape[3] ** -0.5).softmax(3)
        return self._rest(x, (weight @ v).transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1))

    def _rest(self, x: Tensor, mixed: Tensor) -> Tensor:
        y = (x + self.dropout(self.out(mixed))).flatten(0, -2)
        new: Tensor = self.norm_out(y + self.feed_forward(self.norm_in(y)))
        return new.view_as(x)


class HorizontalBlock(nn.Module):
    """Transformer layers on one level; scores of nodes at distance d = 1 .. D get a bias b_d, b_0 = 0.

    Args:
        layers: number of Transformer layers.
        hops: D.
        layer: arguments of :class:`TransformerLayer`.
    """

    def __init__(self, layers: int, hops: int, layer: tuple[int, int, int, float]) -> None:
        super().__init__()
        self.layers: Modules[TransformerLayer] = Modules(TransformerLayer(*layer) for _ in range(layers))
        self.bias = nn.Parameter(torch.randn(hops))

    def forward(self, x: Tensor, pairs: Adjacency) -> Tensor:
        """(n, dim)."""
        bias = F.pad(self.bias, (1, 0))
        for layer in self.layers:
            x = layer.along(x, x, pairs, bias)
        return x


@register("HSGT")
class HSGT(EncodedModel):
    r"""Hierarchical Transformer: attention between neighbours of a level, from clusters to members, and over levels.

    Equations, c(i) the cluster of i on the next level, Z_i the embedding of the number of its neighbours::

        x^0_i = W h_i + Z_i,    z^0_i = W h_i,    z^l_j = mean of z^{l-1}_i over c(i) = j
        x^l <- horizontal_l(x^l)                              i attends to nodes of level l within D hops and itself
        x^{l+1}_j = vertical_l(z^{l+1}_j; {x^l_i: c(i) = j})  j attends to its members, after which level l + 1 follows
        y_i = head(first state of readout(x^0_i, x^1_c(i), .., x^L_c(..c(i))))

    A horizontal block is :class:`HorizontalBlock`, a vertical block a :class:`TransformerLayer`, readout some of them.
    Every level has parameters of its own.

    Args:
        frame: encoder, widths, factory of the head.
        layers: layers of every horizontal block (``gt.layers``).
        dropout: dropout of all blocks (``gnn.dropout``).
        levels: keys of their own, see :class:`LevelSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the paper: it trains on some clusters of the last level with all that is below them, with sampled
    neighbours on every level, and with states of neighbours on levels above 0 from the step that last computed them.
    Here a step has whole graphs with all their levels: every neighbour is there, and every state is of this step.

    Source: the paper's text in outline only, without its equations, and no code of its authors was to be had. What the
    outline leaves open (maps, norms, degrees on level 0 alone, biases by distance, means as first states of clusters)
    is as in the one implementation found among public code, by others, with these differences: there distances are
    those within a sample and up to 2, which is dense on whole graphs, so that D = 1 is the default; a tenth of all
    pairs is joined at random besides, and attention weights are dropped; clusters attend to all nodes, since their mask
    is not used, here to their members.
    """

    def __init__(
        self,
        frame: Frame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        levels: LevelSettings = LevelSettings(),
    ) -> None:
        super().__init__(frame.encoder, keep_sparse=False)
        dim, count = frame.dim, len(levels.coarsening)
        check_at_least(1, layers=layers, hops=levels.hops, heads=levels.heads)
        check_at_least(1, readout_layers=levels.readout_layers, ffn_expansion=levels.ffn_expansion)
        check_at_least(0, max_degree=levels.max_degree)
        if not count:
            raise ArgumentError("coarsening", "coarsening must be one or more ratios in (0, 1], received []")
        check_multiple(dim=dim, heads=levels.heads)
        own = (dim, levels.heads, levels.ffn_expansion, dropout)
        self.settings = levels
        self.lin_in = nn.Linear(frame.dim_encoded, dim, bias=False)
        self.degrees = nn.Embedding(levels.max_degree + 1, dim)
        self.horizontal: Modules[HorizontalBlock] = Modules(
            HorizontalBlock(layers, levels.hops, own) for _ in range(count + 1)
        )
        self.vertical: Modules[TransformerLayer] = Modules(TransformerLayer(*own) for _ in range(count))
        self.readout: Modules[TransformerLayer] = Modules(TransformerLayer(*own) for _ in range(levels.readout_layers))
        self.head = frame.head(dim)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_normal_(parameter)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Nodes of all levels and the pairs that see each other."""
        wanted = {"coarsening": arguments["coarsening"], "method": arguments["partition"]}
        return {"Hierarchy": wanted, "HierarchyPairs": {**wanted, "hops": arguments["hops"]}}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, _, batch = self.encode(batch)
        levels = batch.derived(_levels, len(self.vertical), self.settings.hops)
        z = self.lin_in(as_dense(h))
        x = self.horizontal[0](z + self.degrees(levels[0].degree.clamp(max=self.settings.max_degree)), levels[0].pairs)
        states, place = [x], None
        for level, vertical, horizontal in zip(levels[1:], self.vertical, self.horizontal[1:], strict=True):
            z = mean_at_target(level.members, z)[: level.size]
            x = horizontal(vertical.along(z, x, level.members), level.pairs)
            place = level.parent if place is None else level.parent.index_select(0, place)
            states.append(x.index_select(0, place))
        tokens = torch.stack(states, 1)
        for layer in self.readout:
            tokens = layer.among(tokens)
        return self.head(tokens[:, 0], batch)


@dataclass(frozen=True, eq=False)
class _Level:
    """One level of all graphs of a batch, with n nodes.

    Attributes:
        size: n.
        pairs: from node i at distance d of j, numbered d n + i, to j; itself at distance 0 among them.
        degree: (n,) other nodes at distance 1.
        parent: (n',) for the n' nodes of the level below, the node here that they belong to; on level 0 itself.
        members: edges from the nodes of the level below to the node here that they belong to.
    """

    size: int
    pairs: Adjacency
    degree: Tensor
    parent: Tensor
    members: Adjacency


def _levels(batch: GraphBatch, above: int, hops: int) -> list[_Level]:
    """Levels 0 .. ``above``; the host waits for their sizes, once for a batch."""
    if any(name not in batch.edge_sets for name in SETS):
        raise ValueError(f"HSGT reads the edge sets {' and '.join(SETS)}, which its transforms compute")
    nodes, pairs = (batch.edge_sets[name] for name in SETS)
    assert nodes.attr is not None
    assert pairs.attr is not None
    nodes_0 = torch.arange(batch.num_nodes, device=batch.device)
    number, cluster = nodes_0, nodes_0  # of a name, on the level at hand; the name of that of every node below
    found: list[_Level] = []
    for level in range(above + 1):
        name, next_cluster = nodes.index[:, nodes.attr == level]
        own = nodes_0[: len(name)]
        if level:
            number = torch.zeros_like(nodes_0).index_copy(0, name, own)
        parent = number.index_select(0, cluster)
        seen = pairs.attr[:, 0] == level
        (source, target), distance = number[pairs.index[:, seen]], pairs.attr[seen, 1]
        linked = torch.stack([torch.cat([own, source + len(own) * distance]), torch.cat([own, target])])
        found.append(
            _Level(
                len(own),
                adjacency(linked, (hops + 1) * len(own)),
                torch.zeros_like(own).index_add(0, target, (distance == 1).long()),
                parent,
                adjacency(torch.stack([nodes_0[: len(parent)], parent]), max(len(parent), len(own))),
            )
        )
        cluster = torch.empty_like(own).index_copy(0, number.index_select(0, name), next_cluster)
    return found
