"""GRED: a linear recurrence over the shells around a node, from far to near (https://arxiv.org/abs/2312.01538)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.contract import HasOptimizerGroup
from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.dropout import Dropout
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.ops.propagate import mean_at_target, propagate
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense
from graphbench.structures.shells import shells


@dataclass(frozen=True)
class RecurrenceSettings:
    """Shells and recurrence; every field is a key of the model.

    Attributes:
        hops: K, the furthest shell.
        state_dim: numbers that the recurrence carries; None: ``dim``.
        expand: width inside the MLP as a multiple of ``dim``.
        r_min: smallest modulus of the eigenvalues at first.
        r_max: the largest.
        max_phase: largest phase at first.
        stem: first states are W gelu(encoded) + b, plus the same of the edges' mean; False: what the encoder gives.
    """

    hops: int = 4
    state_dim: int | None = None
    expand: int = 1
    r_min: float = 0.0
    r_max: float = 1.0
    max_phase: float = 6.28
    stem: bool = True


class ShellRecurrence(nn.Module, HasOptimizerGroup):
    """s = sum over k of lambda^k gamma B u_k, what s <- lambda s + gamma B u_k ends with when it runs from k = K to 0.

    lambda = exp(-exp(nu) + i exp(theta)) and B are complex; gamma keeps the size of s. Without weight decay.

    Args:
        dim: channels of u.
        settings: numbers that s has, and where lambda begins.

    Shape:
        u (K + 1, N, dim) -> real and imaginary part of s, each (N, state_dim)
    """

    optimizer_group: ClassVar[str] = "filter"

    def __init__(self, dim: int, settings: RecurrenceSettings) -> None:
        super().__init__()
        s, number = settings, settings.state_dim or dim
        modulus = (torch.rand(number) * (s.r_max**2 - s.r_min**2) + s.r_min**2).clamp_(1e-12, 1 - 1e-6).sqrt_()
        self.nu = nn.Parameter((-modulus.log()).log())
        self.theta = nn.Parameter((torch.rand(number).clamp_(min=1e-6) * s.max_phase).log())
        self.gamma = nn.Parameter(0.5 * (1 - modulus**2).log())
        self.reads = nn.Parameter(torch.randn(2, dim, number) * (0.5 / dim) ** 0.5)

    def forward(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """The state after the last step."""
        k = torch.arange(len(u), device=u.device, dtype=u.dtype).view(-1, 1, 1)
        size, phase = (-k * self.nu.exp()).exp(), k * self.theta.exp()
        real, imaginary = size * phase.cos(), size * phase.sin()
        a, b = torch.einsum("knd,cdv->cknv", u, self.reads * self.gamma.exp()).unbind(0)
        return (a * real - b * imaginary).sum(0), (a * imaginary + b * real).sum(0)


class GREDLayer(nn.Module):
    """Sums over shells, an MLP for each, the recurrence, a gated map.

    Args:
        dim: channels.
        dropout: drop.
        settings: see :class:`RecurrenceSettings`.

    Shape:
        x (N, dim) -> (N, dim)
    """

    def __init__(self, dim: int, dropout: float, settings: RecurrenceSettings) -> None:
        super().__init__()
        self.hops = settings.hops
        inner, number = settings.expand * dim, settings.state_dim or dim
        self.norm_shells, self.norm = LayerNorm(dim), LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, inner), nn.GELU(), nn.Linear(inner, dim))
        self.recurrence = ShellRecurrence(dim, settings)
        self.writes = nn.Parameter(torch.randn(2, number, dim) * number**-0.5)
        self.lin, self.gate, self.dropout = nn.Linear(dim, dim), nn.Linear(dim, dim), Dropout(dropout)

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """(N, dim)."""
        seen = x.expand(self.hops + 1, -1, -1)
        u = propagate(batch.derived(shells, self.hops)[-1], seen.flatten(0, 1)).view_as(seen)
        u = u + self.mlp(self.norm_shells(u))
        real, imaginary = self.recurrence(self.norm(u))
        y = self.dropout(F.gelu(real @ self.writes[0] - imaginary @ self.writes[1]))
        return u[0] + self.dropout(self.lin(y) * self.gate(y).sigmoid())


@register("GRED")
class GRED(EncodedModel):
    r"""Linear recurrence over distances: sums of the nodes at each distance, read from the furthest to the nearest.

    Equations, S_k(i) the nodes k hops from i, E(i) the edges into i::

        x = W_0 gelu(X) + b_0 + mean over E(i) of (W_e gelu(e) + b_e)
        u_k = MLP'(sum over j in S_k(i) of x_j),   MLP'(z) = z + W_2 gelu(W_1 LN(z))                   k = 0 .. K
        s = sum over k of lambda^k gamma B LN(u_k),   y = drop(gelu(Re(C s)))
        x <- u_0 + drop((W y + b) * sigmoid(W' y + b'))

    Args:
        frame: encoders, widths, factory of the head.
        layers: number of them (``gnn.layers_mp``).
        dropout: drop (``gnn.dropout``).
        settings: keys of their own, see :class:`RecurrenceSettings`.

    Shape:
        batch -> prediction of the head. O(N K dim) memory per layer.

    Differences from the released code: only the state after the last step is read, so that the sum is computed without
    a scan. GELU is exact, there its approximation by tanh; LayerNorm adds 1e-5, there 1e-6. As there nothing is dropped
    inside MLP'. Weights of B and C start normal, there truncated normal, and tables of categories as torch does.
    """

    layers_from = "gnn"

    def __init__(
        self,
        frame: EdgeFrame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        settings: RecurrenceSettings = RecurrenceSettings(),
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder, keep_sparse=False)
        dim, dim_encoded = frame.dim, frame.dim_encoded
        s = settings
        check_at_least(1, hops=s.hops, expand=s.expand, state_dim=s.state_dim or 1)
        if not 0 <= s.r_min < s.r_max <= 1:
            raise ArgumentError(
                ("r_min", "r_max"), f"0 <= r_min < r_max <= 1 is needed, received r_min={s.r_min}, r_max={s.r_max}"
            )
        if not s.stem and (dim_encoded != dim or frame.edge_encoder is not None):
            raise ArgumentError(
                ("stem", "dim_encoded", "edge_encoder"),
                f"without stem the encoder gives the first states, {dim} columns, and edges are not read; "
                f"received {dim_encoded} columns and {'no' if frame.edge_encoder is None else 'an'} edge encoder",
            )
        self.lin_in = nn.Linear(dim_encoded, dim) if s.stem else None
        self.lin_edge = nn.Linear(frame.dim_edge, dim) if frame.edge_encoder is not None else None
        self.layers: Modules[GREDLayer] = Modules(GREDLayer(dim, dropout, s) for _ in range(layers))
        self.head = frame.head(dim)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Neighbour lists within K hops, which edges are walked for both ways, as in the release."""
        return {"HopNeighbors": {"cutoff": arguments["hops"], "undirected": True}}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        x = as_dense(h)
        if self.lin_in is not None:
            x = self.lin_in(F.gelu(x))
        if e is not None and self.lin_edge is not None:
            x = x + mean_at_target(batch.adjacency(), self.lin_edge(F.gelu(e)))
        for layer in self.layers:
            x = layer(x, batch)
        return self.head(x, batch)
