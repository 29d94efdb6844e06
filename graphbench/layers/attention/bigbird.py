"""BigBird: attention to neighbouring, global and random blocks of a sequence (https://arxiv.org/abs/2007.14062)."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from graphbench.errors import check_at_least, check_multiple, check_one_of
from graphbench.layers.activation import activation
from graphbench.layers.contract import GlobalAttention, GraphLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.norm import LayerNorm
from graphbench.ops.edge_attention import edge_attention
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency, adjacency


class BigBirdCore(GraphLayer):
    """A complete BigBird layer over the nodes of every graph in their given order.

    Equations::

        x  = norm_attention(h + drop(W_O attention(h)))
        h' = norm_out(x + drop(W_2 act(W_1 x)))

    The nodes of a graph are cut into blocks. A node sees its block and the two next to it, the first and the last
    block of the graph, and ``num_random_blocks`` others; the nodes of the first and the last block see all. In a graph
    of at most ``(5 + 2 num_random_blocks) block_size`` nodes every node sees all.

    Args:
        dim: channels of input and output, divisible by ``heads``; also the inner width of the feed-forward network.
        heads: number of heads.
        hidden_dropout: probability of dropping an entry after W_O and after W_2; attention weights are not dropped.
        attention_type: ``block_sparse`` as above, or ``original_full``: every node sees all.
        num_random_blocks: random blocks per block.
        block_size: nodes per block; the last block of a graph may be smaller.
        use_bias: queries, keys and values have a bias.
        hidden_act: activation of the feed-forward network.
        layer_norm_eps: number added to the variance of both norms (per node).
        seed: seed of the random blocks, which depend on it and on the number of blocks of the graph, and are the same
            for all heads, layers and epochs.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read. Depends on the order of the nodes.

    Differences from the released code (HuggingFace's, as changed in GraphGPS): blocks are those of the graph, not of
    the padded batch; a pair counts once (there a random block may repeat one already seen); random blocks come
    from the whole graph (there from its beginning) and do not differ between heads; short graphs are legal.
    """

    permutation_equivariant: ClassVar[bool] = False

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        hidden_dropout: FromContext[float] = 0.0,
        attention_type: Literal["block_sparse", "original_full"] = "block_sparse",
        num_random_blocks: int = 3,
        block_size: int = 3,
        use_bias: bool = False,
        hidden_act: str = "relu",
        layer_norm_eps: float = 1e-6,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_multiple(dim=dim, heads=heads)
        check_one_of(("block_sparse", "original_full"), attention_type=attention_type)
        check_at_least(1, block_size=block_size)
        check_at_least(0, num_random_blocks=num_random_blocks)
        self.heads = heads
        self.sparse = attention_type == "block_sparse"
        self.blocks = (block_size, num_random_blocks, seed)
        self.q = nn.Linear(dim, dim, bias=use_bias)
        self.k = nn.Linear(dim, dim, bias=use_bias)
        self.v = nn.Linear(dim, dim, bias=use_bias)
        self.out = nn.Linear(dim, dim)
        self.norm_attention = LayerNorm(dim, eps=layer_norm_eps)
        self.lin_in = nn.Linear(dim, dim)
        self.act = activation(hidden_act)
        self.lin_out = nn.Linear(dim, dim)
        self.norm_out = LayerNorm(dim, eps=layer_norm_eps)
        self.dropout = Dropout(hidden_dropout)

    def attend(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), residuals and norms included."""
        q = self.q(h).unflatten(1, (self.heads, -1))
        k = self.k(h).unflatten(1, (self.heads, -1))
        v = self.v(h).unflatten(1, (self.heads, -1))
        if self.sparse:
            pairs = batch.derived(_pairs, *self.blocks)
            mixed = edge_attention(pairs, q, k, v)
        else:
            mixed = softmax_attention(q, k, v, batch.ragged)
        x = self.norm_attention(h + self.dropout(self.out(mixed.flatten(1))))
        return self.norm_out(x + self.dropout(self.lin_out(self.act(self.lin_in(x)))))

    def extra_repr(self) -> str:
        """Heads and blocks, in ``print(model)``."""
        size, random, _ = self.blocks
        pattern = f"block_size={size}, random={random}" if self.sparse else "full"
        return f"heads={self.heads}, {pattern}"


@register("BigBird", group="gt.bigbird")
class BigBird(BigBirdCore, GlobalAttention):
    """BigBird's sparse attention: :class:`BigBirdCore` as a sublayer of a block.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read. Depends on the order of the nodes.
    """

    reads_edge_states: ClassVar[bool] = False

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), residuals and norms included."""
        return self.attend(h, batch)


def _pairs(batch: GraphBatch, block_size: int, random: int, seed: int) -> Adjacency:
    """The visible pairs of a batch as edges, source seen by target."""
    first = 0
    parts = [np.empty((2, 0), np.int64)]
    for size in batch.ragged.sizes:
        parts.append(visible_pairs(size, block_size, random, seed) + first)
        first += size
    index = torch.from_numpy(np.concatenate(parts, axis=1)).to(batch.device, non_blocking=True)
    return adjacency(index, batch.num_nodes)


@lru_cache(maxsize=128)
def visible_pairs(size: int, block_size: int, random: int, seed: int) -> np.ndarray:
    """(2, P) int64 pairs of nodes of one graph: source seen by target."""
    if size <= (5 + 2 * random) * block_size:
        target, source = np.divmod(np.arange(size * size), max(size, 1))
        return np.stack([source, target])
    blocks = -(-size // block_size)
    source_block, target_block = visible_blocks(blocks, random, np.random.default_rng([seed, blocks]))
    within = np.arange(block_size)
    source = (source_block * block_size)[:, None, None] + within[None, :, None]
    target = (target_block * block_size)[:, None, None] + within[None, None, :]
    source, target = np.broadcast_arrays(source, target)
    inside = (source < size) & (target < size)
    return np.stack([source[inside], target[inside]])


def visible_blocks(blocks: int, random: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(P,) source and (P,) target blocks of the visible pairs, every pair once.

    Args:
        blocks: number of blocks, more than 5 + 2 * random.
        random: random blocks per block.
        rng: stream of the random blocks.
    """
    inner = np.arange(1, blocks - 1)
    fixed = np.stack([0 * inner, inner - 1, inner, inner + 1, 0 * inner + blocks - 1], axis=1)
    drawn = rng.integers(0, blocks, (len(inner), random))
    repeats = np.flatnonzero(_has_repeats(drawn, fixed))
    while len(repeats):
        drawn[repeats] = rng.integers(0, blocks, (len(repeats), random))
        repeats = np.flatnonzero(_has_repeats(drawn, fixed))
    ends = np.array([[0], [blocks - 1]])  # they see all
    inner_code = inner[:, None] * blocks + np.concatenate([fixed, drawn], axis=1)
    code = np.concatenate([inner_code.ravel(), (ends * blocks + np.arange(blocks)).ravel()])
    target, source = np.divmod(np.unique(code), blocks)
    return source, target


def _has_repeats(drawn: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """Whether a row of ``drawn`` holds a number twice, or one of the row of ``fixed``."""
    ordered = np.sort(drawn, axis=1)
    twice = np.any(ordered[:, 1:] == ordered[:, :-1], axis=1)
    overlaps = np.any(drawn[:, :, None] == fixed[:, None, :], axis=(1, 2))
    return twice | overlaps
