"""NodeFormer: message passing over a latent graph of all pairs (https://arxiv.org/abs/2306.08385)."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.contract import HasAuxiliaryLoss
from graphbench.errors import ArgumentError, check_at_least, check_one_of
from graphbench.layers.attention.performer import directions
from graphbench.layers.contract import BlockwiseAttention
from graphbench.ops.kernel_attention import (
    KeySums,
    edge_weights,
    kernel_attention,
    kernel_attention_of_sums,
    kernel_attention_sums,
)
from graphbench.ops.propagate import propagate
from graphbench.ops.segment import segment_max, segment_repeat
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency

EPS = 1e-6
"""Added to the random features, as in the released code."""

OVERFLOW = -(2**31)
"""Value that a conversion of a number too large for 32 bits has on x86."""


@register("NodeFormer")
class NodeFormer(BlockwiseAttention, HasAuxiliaryLoss):
    """Kernelised Gumbel-softmax message passing, with a bias towards the edges, in O(N + E).

    Equation, per head; phi are Performer's random features, so that phi(q) . phi(k) estimates exp(q . k / sqrt(dim))::

        z_i = 1/K sum_s [sum_j w_ijs v_j / sum_j w_ijs] + sum_r sigmoid(b_r) (A^_r v)_i
        w_ijs = phi(q_i / sqrt(tau)) . phi(k_j / sqrt(tau)) exp(g_js / tau),    g_js ~ Gumbel(0, 1) in training, else 0
        h' = W_O [z_1 | .. | z_H]

    A^_r is the symmetrically normalised pattern of (A + I)^(2^(r - 1)), r = 1 .. ``bias_order``: one, two and, as the
    released code squares what it has (main.py:111-113 at 50fe19b), four edges. The edge regularisation is

        L = - edge_loss / (E H) sum over edges j -> i and heads of log(w_ij / sum_k w_ik) / deg_i,

    loops added, no noise in w. Every head has the full width ``dim``.

    Args:
        dim: channels of input and output.
        heads: number of heads H.
        nb_features: random directions of phi (M in the released code).
        tau: temperature.
        gumbel_samples: K; 0: no noise in training, either.
        bias_order: 0 (no relational bias), 1, 2 or 3.
        bias_act: ``"sigmoid"`` of b as above, or ``"identity"``.
        edge_loss: weight of L in the training loss; 0 leaves it out. The released code averages over layers: its
            lambda is ``edge_loss`` times the number of layers.
        combine: ``"concat"`` the heads and map them by W_O, or take their ``"mean"`` without a map.
        use_weight: v is a linear map of the input; False: the input for all heads.
        noise: ``"step"``: directions, Gumbel noise and dropout are drawn anew in every training pass. ``"released"``:
            every pass seeds PyTorch's generators as the released code does (see below), so that most passes have the
            same noise, and waits for the device to do so: for its tables, not for new models.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Differences from the released code: directions are drawn in every training step by the device, and the last ones
    are kept for evaluation. The code seeds all generators in every pass with |sum of the queries| * 1e8, made a 32-bit
    integer, which overflows to one and the same number where that sum is above 21.5: ``noise: released``, in evaluation
    as well. Degrees are in-degrees at both ends. Sums, maxima and noise belong to one graph, never to the batch. L is
    an :class:`auxiliary loss <graphbench.contract.HasAuxiliaryLoss>`: minimised, not reported. Residual, LayerNorm and
    activation belong to the model (TwoBranch: ``attention_norm``, ``attention_residual: sum``; before a LayerNorm the
    mean is as good as the sum). SGFormer's release calls the same model with ``tau`` 1, its default there.
    """

    capturable: ClassVar[bool | Literal["one batch"]] = "one batch"
    reads_edge_states: ClassVar[bool] = False

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        nb_features: int = 30,
        tau: float = 0.25,
        gumbel_samples: int = 10,
        bias_order: int = 2,
        bias_act: Literal["sigmoid", "identity"] = "sigmoid",
        edge_loss: float = 0.0,
        combine: Literal["concat", "mean"] = "concat",
        use_weight: bool = True,
        noise: Literal["step", "released"] = "step",
    ) -> None:
        super().__init__()
        check_at_least(1, nb_features=nb_features)
        check_at_least(0, gumbel_samples=gumbel_samples)
        if not tau > 0:
            raise ArgumentError("tau", f"tau must be positive, received {tau}")
        check_at_least(0, edge_loss=edge_loss)
        check_one_of((0, 1, 2, 3), bias_order=bias_order)
        check_one_of(("sigmoid", "identity"), bias_act=bias_act)
        check_one_of(("concat", "mean"), combine=combine)
        check_one_of(("step", "released"), noise=noise)
        self.heads = heads
        self.tau = tau
        self.gumbel_samples = gumbel_samples
        self.bias_act = bias_act
        self.edge_loss = edge_loss
        self.noise = noise
        self.reads_edges = bias_order > 0
        self.q = nn.Linear(dim, heads * dim)
        self.k = nn.Linear(dim, heads * dim)
        self.v = nn.Linear(dim, heads * dim) if use_weight else None
        self.out = nn.Linear(heads * dim, dim) if combine == "concat" else None
        start = 0.1 if bias_act == "sigmoid" else 1.0  # as in the released code
        self.bias = nn.Parameter(torch.full((bias_order, heads), start)) if bias_order else None
        self.projection: Tensor
        self.register_buffer("projection", directions(nb_features, dim))

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        q, k, v = self._scaled(self.q, h), self._scaled(self.k, h), self._values(h)
        projection = self.projection
        if self.noise == "released":
            torch.manual_seed(released_seed(q * self.tau**0.5))
        if self.training or self.noise == "released":
            # The backward pass needs a tensor that the next step does not write to.
            projection = directions(len(projection), projection.shape[1], h.device).to(self.projection)
            self.projection.copy_(projection)
        z = self._attend(q, k, v, projection, batch)
        if self.bias is not None:
            z = z + self._along_edges(self.bias, v, batch)
        regularises = self.training and self.edge_loss
        self.auxiliary_loss = self.edge_regularisation(q, k, projection, batch) if regularises else None
        return self._combined(z)

    def capture_obstacle(self, one_batch: bool = False) -> str | None:
        """Why this one cannot be captured; a recording cannot seed a generator."""
        seeds = "NodeFormer seeds the generators in every pass (noise: released)"
        return super().capture_obstacle(one_batch) if self.noise == "step" else seeds

    def reduce_nodes(self, h: Tensor) -> KeySums:
        """Sums over some nodes (R, dim) of one large graph; those of disjoint nodes can be added."""
        return kernel_attention_sums(self._scaled(self.k, h), self._values(h), self.projection)

    def along_edges(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, H, dim) the relational bias; beyond the first order it reads nodes two and four edges away."""
        assert self.bias is not None
        return self._along_edges(self.bias, self._values(h), batch)

    def apply_summary(self, h: Tensor, summary: KeySums, along: Tensor | None = None) -> Tensor:
        """New states (R, dim) of some nodes, from the sums over all nodes and what reaches them along edges."""
        z = kernel_attention_of_sums(self._scaled(self.q, h), summary, self.projection, eps=EPS).to(h.dtype)
        return self._combined(z if along is None else z + along)

    def _scaled(self, lin: nn.Module, h: Tensor) -> Tensor:
        """(N, H, dim) queries or keys over the root of the temperature."""
        projected: Tensor = lin(h)
        scale: float = self.tau**-0.5
        return projected.view(h.shape[0], self.heads, h.shape[1]) * scale

    def _values(self, h: Tensor) -> Tensor:
        shape = (h.shape[0], self.heads, h.shape[1])
        return h.unsqueeze(1).expand(shape) if self.v is None else self.v(h).view(shape)

    def _combined(self, z: Tensor) -> Tensor:
        return z.mean(1) if self.out is None else self.out(z.flatten(1))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, projection: Tensor, batch: GraphBatch) -> Tensor:
        noise = self._noise(v, batch) if self.training and self.gumbel_samples else None
        return kernel_attention(q, k, v, projection, batch.ragged, eps=EPS, key_weights=noise)

    def _noise(self, v: Tensor, batch: GraphBatch) -> Tensor:
        """(N, H, K) exp(g / tau), divided by the largest of the graph, which cancels."""
        dtype = torch.promote_types(v.dtype, torch.float32)
        gumbel = -torch.empty(*v.shape[:2], self.gumbel_samples, dtype=dtype, device=v.device).exponential_().log()
        top = segment_repeat(segment_max(gumbel, batch.ragged), batch.ragged)
        return torch.exp((gumbel - top) / self.tau)

    def _along_edges(self, bias: Tensor, v: Tensor, batch: GraphBatch) -> Tensor:
        """The relational term, (N, H, dim), from b (order, H)."""
        weight = torch.sigmoid(bias) if self.bias_act == "sigmoid" else bias
        z = weight[0].unsqueeze(1) * propagate(batch.adjacency(norm="sym", self_loops=True), v)
        for squarings in range(1, len(weight)):
            near = batch.two_hop_adjacency(direct=True, norm="sym", self_loops=True, squarings=squarings)
            z = z + weight[squarings].unsqueeze(1) * propagate(near, v)
        return z

    def edge_regularisation(self, q: Tensor, k: Tensor, projection: Tensor, batch: GraphBatch) -> Tensor:
        """L of the scaled queries and keys (N, H, dim)."""
        loops: Adjacency = batch.adjacency(norm="row", self_loops=True)
        edges = torch.stack([loops.source, loops.target])
        weight = edge_weights(q, k, projection, batch.ragged, edges, eps=EPS)
        assert loops.weight is not None
        # A loop that was among the edges is counted by the added one, and has weight 0 = 1 / deg here.
        inverse_degree = loops.weight.to(weight.dtype)
        count = (inverse_degree > 0).sum().clamp(min=1) * self.heads
        return -self.edge_loss * (weight.log() * inverse_degree.unsqueeze(1)).sum() / count

    def extra_repr(self) -> str:
        """Heads, directions and temperature, in ``print(model)``."""
        return f"heads={self.heads}, nb_features={self.projection.shape[0]}, tau={self.tau}"


def released_seed(queries: Tensor) -> int:
    """Seed that the released code computes from the queries of a pass, in their precision."""
    number = float((queries.detach().sum() * 1e8).abs())
    return math.ceil(number) if number < 2**31 else OVERFLOW
