"""ANS-GT: a Transformer on sequences of nodes, drawn by samplers whose shares follow a bandit.

Zhang et al., Hierarchical Graph Transformer with Adaptive Node Sampling, https://arxiv.org/abs/2210.03930.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.layers.normal_weights import draw_normal_weights
from graphbench.models.ans_gt.bandit import SamplerBandit
from graphbench.models.ans_gt.block import SequenceBlock, SequenceSettings
from graphbench.models.ans_gt.sampling_tables import SAMPLERS
from graphbench.models.ans_gt.sequences import Drawn, SamplingTables, sampling_tables
from graphbench.models.contract import EncodedModel, Frame
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, Ragged

CHUNK = 2048
"""Sequences that are passed through the Transformer at a time."""
DEFAULTS = SequenceSettings()


@register("ANSGT")
class ANSGT(EncodedModel):
    r"""Transformer over sampled sequences per node: itself, K drawn nodes, its super-node and learned global tokens.

    Equations, x_i the encoded features, C(i) the super-node of i, t the tokens of one sequence of i::

        t_0 = W x_i + b,   t_1 .. t_K = W x_j + b for the drawn j,   t_{K+1} = mean of W x_j + b over C(i)
        phi_ab = (A^_ab, .., A^^M_ab),  for super-nodes of the coarse graph,  for global tokens a learned vector
        z_i = mean over the sequences of LN(Blocks(t, phi))_0,   y_i = head(z_i)

    j is drawn without replacement from sum_m p_m w_m(j | i), the samplers of :class:`.Candidates`. Their shares p
    follow :class:`.SamplerBandit`, whose a_j is :meth:`.SequenceBlock.significance` in the last block.

    Args:
        frame: encoder, widths, factory of the head, a linear map (``gnn.layers_post_mp: 1``).
        layers: blocks (``gt.layers``).
        dropout: dropout of the blocks (``gnn.dropout``).
        sequences: keys of their own, see :class:`SequenceSettings`.

    Shape:
        batch -> prediction of the head. With ``batch.state.seed_nodes`` (``train.sampler: seeds``) the head reads zeros
        in all other rows.

    Reproducible and resumable: the sequences of a round are drawn from (seed, round), which are buffers, for every
    graph by itself, so that predictions of several graphs do not depend on each other.

    Differences from the paper and the released code: a training step reads one sequence per node, drawn anew, in place
    of all S (the expected gradient is the same); evaluation averages their states where there sequences vote. Samplers
    choose from ``candidates`` nodes each, and are rewarded on the nodes of training steps in place of those of
    validation (in the code, on the first nine drawn). A node with fewer than K candidates has
    a shorter sequence (there repeated nodes fill it up). ``W_B`` has no bias, which softmax cancels. Super-nodes beside
    that of the node itself, which the paper allows, are not drawn, as in the code. Rows are read on the host.
    """

    own_pair_bias: ClassVar[bool] = True

    def __init__(
        self,
        frame: Frame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        sequences: SequenceSettings = DEFAULTS,
    ) -> None:
        super().__init__(frame.encoder)
        dim = frame.dim
        sequences.check()
        check_at_least(1, layers=layers)
        self.settings = sequences
        self.lin_in = InputLinear(frame.dim_encoded, dim)
        self.input_dropout = Dropout(sequences.input_dropout)
        self.blocks: Modules[SequenceBlock] = Modules(SequenceBlock(dim, dropout, sequences) for _ in range(layers))
        self.norm = LayerNorm(dim)
        self.global_tokens = nn.Embedding(sequences.global_nodes, dim)
        self.global_encodings = nn.Embedding(sequences.global_nodes, sequences.orders)
        self.head = frame.head(dim)
        s = sequences
        self.bandit = SamplerBandit(s.update_period, s.min_share, s.bandit_rate, s.exploration)
        self._drawn: Drawn | None = None
        draw_normal_weights(self, layers)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        seed_nodes = batch.state.seed_nodes
        x, _, batch = self.encode(batch)
        h = self.lin_in(x)
        tables = batch.derived(sampling_tables, self.settings, h.dtype)
        drawn = self._sequences(tables)
        if tables.cluster is not None:
            h = torch.cat([h, _cluster_means(h, tables.cluster)])
        rows = torch.arange(batch.num_nodes) if seed_nodes is None else seed_nodes.to("cpu")
        every = 1 if self.training else self.settings.samples
        states = []
        for part in rows.split(max(1, CHUNK // every)):
            picks = torch.randint(self.settings.samples, (len(part), 1)) if self.training else torch.arange(every)
            first = self._first_tokens(h, drawn, part.view(-1, 1).expand(-1, every), picks.expand(len(part), every))
            states.append(first.unflatten(0, (len(part), every)).mean(1))
        z = h.new_zeros(batch.num_nodes, h.shape[1])
        if len(rows):
            z = z.index_copy(0, rows.to(h.device, non_blocking=True), torch.cat(states))
        if self.training and self.settings.update_period:
            self.bandit.end_step()
        return self.head(z, batch)

    def _first_tokens(self, h: Tensor, drawn: Drawn, rows: Tensor, picks: Tensor) -> Tensor:
        """(rows.numel(), dim) states of the nodes ``rows``, each from its sequence number ``picks``."""
        rows, picks = rows.reshape(-1), picks.reshape(-1)
        nodes = torch.cat([rows.unsqueeze(1), drawn.node[rows, picks]], 1)
        tokens, encodings, there = self._tokens(h, nodes, drawn.of)
        sizes = there.sum(1)
        sequences = GraphBatch(Ragged.from_sizes(sizes.numpy(), h.device), rows.new_empty(2, 0).to(h.device))
        at = _places(there, h.device)
        pairs = _places(there.unsqueeze(2) & there.unsqueeze(1), h.device)
        t = self.input_dropout(tokens.flatten(0, 1).index_select(0, at))
        phi = encodings.flatten(0, 2).index_select(0, pairs)
        *before, last = self.blocks
        for block in before:
            t = block(t, phi, sequences)
        if self.training and self.settings.update_period:
            significance = t.new_zeros(there.numel())
            significance = significance.index_copy(0, at, last.significance(t, phi, sequences)).view(there.shape)
            weight = drawn.weight[rows, picks].to(t.device, t.dtype, non_blocking=True)
            self.bandit.add(significance[:, 1 : 1 + weight.shape[1]], weight)
        t = last(t, phi, sequences)
        return self.norm(t.index_select(0, sequences.ragged.ptr[:-1]))

    def _tokens(self, h: Tensor, nodes: Tensor, tables: SamplingTables) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens (S, T, dim), encodings (S, T, T, orders), and (S, T) bool on the host, which tokens there are."""
        there, phi = nodes >= 0, tables.proximity(nodes)
        index = nodes.clamp(min=0)
        if tables.cluster is not None and tables.coarse is not None:
            count = len(tables.cluster)
            cluster = torch.cat([tables.cluster[index], tables.cluster[index[:, :1]]], 1)
            cluster = cluster.to(h.device, non_blocking=True)
            to_own = tables.coarse[:, cluster[:, :1], cluster].permute(1, 2, 0)
            phi = torch.cat([phi, to_own[:, :-1].unsqueeze(1)], 1)
            phi = torch.cat([phi, to_own.unsqueeze(2)], 2)
            index = torch.cat([index, count + tables.cluster[index[:, :1]]], 1)
            there = torch.cat([there, there[:, :1]], 1)
        tokens = h[index.to(h.device, non_blocking=True)]
        extra, (count, length) = self.settings.global_nodes, index.shape
        learned = self.global_encodings.weight
        phi = torch.cat([phi, learned[None, :, None].expand(count, -1, length, -1)], 1)
        phi = torch.cat([phi, learned[None, None].expand(count, length + extra, -1, -1)], 2)
        tokens = torch.cat([tokens, self.global_tokens.weight.expand(count, -1, -1)], 1)
        return tokens, phi, torch.cat([there, there[:, :1].expand(-1, extra)], 1)

    def _sequences(self, tables: SamplingTables) -> Drawn:
        """Sequences of this round; those of the last call where nothing has changed."""
        key = self.bandit.key
        if self._drawn is None or self._drawn.of is not tables or self._drawn.key != key:
            only_ppr = self.settings.first_round == "ppr" and not self.bandit.round
            shares = torch.tensor([float(name == "PPR") for name in SAMPLERS]) if only_ppr else self.bandit.shares()
            self._drawn = Drawn.round(tables, key, shares, self.settings)
        return self._drawn


def _cluster_means(h: Tensor, cluster: Tensor) -> Tensor:
    """(C, dim) mean states of the members of every super-node."""
    index = cluster.to(h.device, non_blocking=True)
    count = h.new_zeros(int(cluster.max()) + 1 if len(cluster) else 0, 1)
    size = count.index_add(0, index, h.new_ones(len(h), 1))
    return h.new_zeros(len(count), h.shape[1]).index_add(0, index, h) / size


def _places(mask: Tensor, device: torch.device) -> Tensor:
    """(number of True,) int64 on the device: where a mask of the host is True, in its flat order."""
    return torch.from_numpy(np.flatnonzero(mask.numpy())).to(device, non_blocking=True)
