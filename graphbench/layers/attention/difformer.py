"""DIFFormer's layer: diffusion over all pairs and along the edges (https://arxiv.org/abs/2301.09474)."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights
from graphbench.errors import ArgumentError, check_one_of
from graphbench.layers.contract import BlockwiseAttention
from graphbench.ops.linear_attention import Sums, linear_attention, linear_attention_of_sums, linear_attention_sums
from graphbench.ops.pair_attention import pair_attention
from graphbench.ops.pair_attention.reference import pair_weights
from graphbench.ops.propagate import propagate
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("DIFFormer")
class DIFFormer(BlockwiseAttention, HasAttentionWeights):
    """Diffusion step over all pairs and along the edges; the diffusivity of a pair depends on its states.

    Equation, averaged over the heads::

        Z = S V + A^ V,    S_ij = w_ij / sum_k w_ik
        simple    w_ij = 1 + q~_i . k~_j,   q~ = Q / |Q|_F, k~ = K / |K|_F      DIFFormer-s, O(N)
        sigmoid   w_ij = sigmoid(q_i . k_j)                                     DIFFormer-a, O(N^2) time, O(N) memory

    A^ = D^-1/2 (A + I) D^-1/2, D counting incoming edges. Every head has the full width ``dim``.

    Args:
        dim: channels of input and output.
        heads: number of heads.
        kernel: ``"simple"`` or ``"sigmoid"``, as above.
        use_weight: V is a linear map of the input; False: the input for all heads (published runs on medium graphs).
        use_graph: the term A^ V; without it attention alone.
        graph_weight: a, for (1 - a) S V + a A^ V instead of the sum.
        self_loops: A^ as above; False: of A alone, as in SGFormer's release, whose program adds no loops.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Differences from the paper: the step (1 - tau) z + tau Z, LayerNorm and dropout around it belong to the model
    (TwoBranch: ``attention_residual: mix``, ``alpha`` is tau). Norms and sums run over one graph, never the batch.
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        kernel: Literal["simple", "sigmoid"] = "simple",
        use_weight: bool = True,
        use_graph: bool = True,
        graph_weight: float | None = None,
        self_loops: bool = True,
    ) -> None:
        super().__init__()
        check_one_of(("simple", "sigmoid"), kernel=kernel)
        if graph_weight is not None and not (use_graph and 0.0 <= graph_weight <= 1.0):
            raise ArgumentError(
                ("graph_weight", "use_graph"),
                f"graph_weight must lie between 0 and 1 and needs use_graph, received {graph_weight} with "
                f"use_graph={use_graph}",
            )
        self.heads = heads
        self.kernel = kernel
        self.in_sums = kernel == "simple"
        self.reads_edges = use_graph
        self.graph_weight = graph_weight
        self.self_loops = self_loops
        self.q = nn.Linear(dim, heads * dim)
        self.k = nn.Linear(dim, heads * dim)
        self.v = nn.Linear(dim, heads * dim) if use_weight else None

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        q, k, v = self._heads(self.q, h), self._heads(self.k, h), self._values(h)
        if self.kernel == "simple":
            over_pairs = linear_attention(q, k, v, batch.ragged, base="uniform").mean(1)
        else:
            over_pairs = pair_attention(q, k, v, batch.ragged, weight="sigmoid").mean(1)
        return self._joined(over_pairs, self._propagated(v, batch) if self.reads_edges else None)

    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        """Weights of the kernel ``sigmoid``, (heads, n, n) per graph; of ``simple``, which forms none, no heads."""
        if self.kernel == "simple":
            return [h.new_empty(0, size, size) for size in batch.ragged.sizes]
        return list(pair_weights(self._heads(self.q, h), self._heads(self.k, h), batch.ragged, "sigmoid"))

    def reduce_nodes(self, h: Tensor) -> Sums:
        """Sums over some nodes (R, dim) of one large graph; those of disjoint nodes can be added."""
        return linear_attention_sums(self._heads(self.q, h), self._heads(self.k, h), self._values(h))

    def along_edges(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, dim) the term A^ V."""
        return self._propagated(self._values(h), batch)

    def apply_summary(self, h: Tensor, summary: Sums, along: Tensor | None = None) -> Tensor:
        """New states (R, dim) of some nodes, from the sums over all nodes of their graph and their rows of A^ V."""
        over_pairs = linear_attention_of_sums(self._heads(self.q, h), self._values(h), summary, base="uniform")
        return self._joined(over_pairs.mean(1), along)

    def _heads(self, lin: nn.Module, h: Tensor) -> Tensor:
        projected: Tensor = lin(h)
        return projected.view(h.shape[0], self.heads, h.shape[1])

    def _values(self, h: Tensor) -> Tensor:
        return h.unsqueeze(1) if self.v is None else self._heads(self.v, h)

    def _propagated(self, v: Tensor, batch: GraphBatch) -> Tensor:
        # The mean over heads and A^ commute.
        return propagate(batch.adjacency(norm="sym", self_loops=self.self_loops), v.mean(1))

    def _joined(self, over_pairs: Tensor, along_edges: Tensor | None) -> Tensor:
        if along_edges is None:
            return over_pairs
        if self.graph_weight is None:
            return over_pairs + along_edges
        return torch.lerp(over_pairs, along_edges, self.graph_weight)

    def extra_repr(self) -> str:
        """Heads and kernel, in ``print(model)``."""
        return f"heads={self.heads}, kernel={self.kernel}"
