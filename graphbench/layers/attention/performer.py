"""Performer: softmax attention approximated in linear time (https://arxiv.org/abs/2009.14794)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.layers.contract import BlockwiseAttention
from graphbench.layers.dropout import Dropout
from graphbench.ops.kernel_attention import KeySums, kernel_attention, kernel_attention_of_sums, kernel_attention_sums
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("Performer")
class Performer(BlockwiseAttention):
    """FAVOR+ attention inside every graph, a linear approximation of softmax attention.

    Equation, per head::

        h'_i = W_O [sum_j phi(q_i) . phi(k_j) v_j / sum_j phi(q_i) . phi(k_j)]
        phi(x)_r = exp(w_r . x - |x|^2 / 2) + eps

    with orthogonal random directions w_r, drawn from torch's global generator; see ``ops/kernel_attention``.

    Args:
        dim: channels of input and output.
        heads: number of heads.
        dropout: probability of dropping an entry of the output (there are no attention weights to drop).
        dim_head: width of a head, independent of ``dim``; 64 in GraphGPS.
        nb_features: number of random directions; 0 for ``dim_head * ln(dim_head)``, rounded down.
        qkv_bias: queries, keys and values have a bias.
        trained: False keeps all maps as they were drawn: SGFormer's release (medium/graphgps.py), which makes its
            attentions anew after the optimizer; for its tables, not for new models.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Differences from the released code (performer_pytorch in GraphGPS): sums and the stabilising maximum of the keys
    run over the nodes of one graph. There they run over the padding too, and a graph's output depends on its batch.
    Later versions of performer_pytorch (1.1.4) take the maxima for constants in the backward pass, GraphGPS's copy
    does not: gradients of q and k differ by what ``eps`` weighs.
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        dim_head: int = 64,
        nb_features: int = 0,
        qkv_bias: bool = False,
        trained: bool = True,
    ) -> None:
        super().__init__()
        check_at_least(2, dim_head=dim_head)
        check_at_least(0, nb_features=nb_features)
        self.heads = heads
        self.q = nn.Linear(dim, heads * dim_head, bias=qkv_bias)
        self.k = nn.Linear(dim, heads * dim_head, bias=qkv_bias)
        self.v = nn.Linear(dim, heads * dim_head, bias=qkv_bias)
        self.out = nn.Linear(heads * dim_head, dim)
        self.dropout = Dropout(dropout)
        self.requires_grad_(trained)
        self.projection: Tensor
        self.register_buffer("projection", directions(nb_features or int(dim_head * math.log(dim_head)), dim_head))

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        q, k, v = (self._heads(lin, h) for lin in (self.q, self.k, self.v))
        return self._finish(kernel_attention(q, k, v, self.projection, batch.ragged))

    def reduce_nodes(self, h: Tensor) -> KeySums:
        """Sums over some nodes (R, dim) of one large graph; those of disjoint nodes can be added."""
        return kernel_attention_sums(self._heads(self.k, h), self._heads(self.v, h), self.projection)

    def apply_summary(self, h: Tensor, summary: KeySums, along: Tensor | None = None) -> Tensor:
        """New states (R, dim) of some nodes, from the sums over all nodes of their graph."""
        return self._finish(kernel_attention_of_sums(self._heads(self.q, h), summary, self.projection).to(h.dtype))

    def _heads(self, lin: nn.Module, h: Tensor) -> Tensor:
        projected: Tensor = lin(h)
        return projected.view(h.shape[0], self.heads, projected.shape[1] // self.heads)

    def _finish(self, mixed: Tensor) -> Tensor:
        return self.dropout(self.out(mixed.flatten(1)))

    def redraw(self) -> None:
        """Draws new random directions, in place."""
        self.projection.copy_(directions(*self.projection.shape))

    def extra_repr(self) -> str:
        """Heads and directions, in ``print(model)``."""
        return f"heads={self.heads}, nb_features={self.projection.shape[0]}"


def directions(count: int, width: int, device: torch.device | None = None) -> Tensor:
    """(count, width) Gaussian-like directions, orthogonal in groups of ``width``, as long as Gaussian ones.

    In float32 at least: half precision has no QR.

    Args:
        count: rows.
        width: columns.
        device: device that draws them; None: the host, so that they are the same for every device.
    """
    kind: dict[str, Any] = {"dtype": torch.promote_types(torch.get_default_dtype(), torch.float32), "device": device}
    groups = [torch.linalg.qr(torch.randn(width, width, **kind)).Q.t() for _ in range(-(-count // width))]
    length: Tensor = torch.linalg.vector_norm(torch.randn(count, width, **kind), dim=1, keepdim=True)
    return torch.cat(groups)[:count] * length
