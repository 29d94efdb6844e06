"""SGFormer's linear global attention (https://arxiv.org/abs/2306.10759)."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from graphbench.errors import check_one_of
from graphbench.layers.contract import BlockwiseAttention
from graphbench.layers.linear import Linear
from graphbench.ops.linear_attention import Sums, linear_attention, linear_attention_of_sums, linear_attention_sums
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("SGFormer")
class SGFormer(BlockwiseAttention):
    """Attention without softmax, in O(N).

    Equation::

        Z = D^-1 [V + (1/n) Q~ (K~^T V)],   D = diag(1 + (1/n) Q~ (K~^T 1)),   Q~ = Q / |Q|_F,   K~ = K / |K|_F

    n nodes in the graph; every head has the full width ``dim``; the norms run over the nodes and heads of a graph.

    Args:
        dim: channels of input and output.
        heads: number of heads, each as wide as ``dim``.
        combine: ``"mean"`` of the heads, or ``"concat"`` followed by a linear map back to ``dim``.
        norm: ``"frobenius"`` (one norm per graph) or ``"l2"`` (one per row and head).
        use_weight: V is a linear map of the input; False: the input for all heads.
        self_loop: False leaves out V in the numerator and 1 in D (the paper's Figure 5).

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Differences from the paper: norms and n belong to one graph, never to the batch. ``concat`` and ``l2`` are not in
    the paper. Residual, LayerNorm, activation and dropout around it belong to the model; attention weights are never
    computed, so that none is dropped. Without ``self_loop`` D may cancel, which the paper does not mention; it is kept
    at a hundredth or more of the largest possible sum of the row's absolute weights (``ops/linear_attention``).
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        combine: Literal["mean", "concat"] = "mean",
        norm: Literal["frobenius", "l2"] = "frobenius",
        use_weight: bool = True,
        self_loop: bool = True,
    ) -> None:
        super().__init__()
        check_one_of(("mean", "concat"), combine=combine)
        check_one_of(("frobenius", "l2"), norm=norm)
        self.heads = heads
        self.norm = norm
        self.base: Literal["self", "none"] = "self" if self_loop else "none"
        self.q = Linear(dim, heads * dim)
        self.k = Linear(dim, heads * dim)
        self.v = Linear(dim, heads * dim) if use_weight else None
        self.out = Linear(heads * dim, dim) if combine == "concat" else None

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        q, k = self._heads(self.q, h), self._heads(self.k, h)
        return self._combined(linear_attention(q, k, self._values(h), batch.ragged, norm=self.norm, base=self.base))

    def reduce_nodes(self, h: Tensor) -> Sums:
        """Sums over some nodes (R, dim) of one large graph; those of disjoint nodes can be added."""
        q, k = self._heads(self.q, h), self._heads(self.k, h)
        return linear_attention_sums(q, k, self._values(h), norm=self.norm)

    def apply_summary(self, h: Tensor, summary: Sums, along: Tensor | None = None) -> Tensor:
        """New states (R, dim) of some nodes, from the sums over all nodes of their graph."""
        q = self._heads(self.q, h)
        return self._combined(linear_attention_of_sums(q, self._values(h), summary, norm=self.norm, base=self.base))

    def _heads(self, lin: nn.Module, h: Tensor) -> Tensor:
        projected: Tensor = lin(h)
        return projected.view(h.shape[0], self.heads, h.shape[1])

    def _values(self, h: Tensor) -> Tensor:
        return h.unsqueeze(1) if self.v is None else self._heads(self.v, h)

    def _combined(self, z: Tensor) -> Tensor:
        if self.out is not None:
            return self.out(z.flatten(1))
        return z.squeeze(1) if self.heads == 1 else z.mean(1)  # the mean of one head takes two passes over all rows

    def extra_repr(self) -> str:
        """Heads and norm, in ``print(model)``."""
        return f"heads={self.heads}, norm={self.norm}, base={self.base}"
