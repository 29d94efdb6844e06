"""DRew: every layer hears nodes one hop further away (https://arxiv.org/abs/2305.08018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.layers.activation import activation
from graphbench.layers.dropout import Dropout
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm, NoNorm
from graphbench.models.contract import EncodedModel, Frame
from graphbench.models.pre_layers import LayerSettings
from graphbench.models.requirements import check_same_width
from graphbench.ops.propagate import propagate
from graphbench.ops.unit_rows import unit_length
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense
from graphbench.structures.shells import shells


class ShellConvolutions(nn.Module):
    """A graph convolution along pairs of nodes k hops apart, with weights of its own for every k = 1 .. K.

    Args:
        dim: channels.
        number: K.
        settings: BatchNorm, dropout, activation and L2 normalisation after every convolution.

    Shape:
        states (K, N, dim), the k-th of them what is heard from k hops away -> (N, dim), the sum
    """

    def __init__(self, dim: int, number: int, settings: LayerSettings) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(number, dim, dim))
        for matrix in self.weight:
            nn.init.xavier_uniform_(matrix)
        self.bias = None if settings.batchnorm else nn.Parameter(torch.zeros(number, dim))
        self.norm = (
            BatchNorm(number * dim, settings.norm_eps, settings.norm_momentum) if settings.batchnorm else NoNorm()
        )
        self.dropout, self.act = Dropout(settings.dropout), activation(settings.act)
        self.l2norm = settings.l2norm

    def forward(self, states: Tensor, batch: GraphBatch, hops: int) -> Tensor:
        """(N, dim); ``hops`` are those of the shells of the batch, which all layers share."""
        mapped = torch.bmm(states, self.weight)
        number, nodes, dim = mapped.shape
        nearest = batch.derived(shells, hops, True)[number - 1]
        heard = propagate(nearest, mapped.flatten(0, 1)).view_as(mapped).transpose(0, 1).flatten(1)
        if self.bias is not None:
            heard = heard + self.bias.flatten()
        new: Tensor = self.act(self.dropout(self.norm(heard, batch))).view(nodes, number, dim)
        return (unit_length(new) if self.l2norm else new).sum(1)


@register("DRew")
class DRew(EncodedModel):
    r"""Dynamically rewired message passing (nu-DRew-GCN) with delay.

    Layer t hears nodes up to t + 1 hops away, the further away the older what it hears.

    Equations, A^_k = D_k^-1/2 (A_k + I) D_k^-1/2, A_k joining nodes k hops apart, n dividing rows by their length::

        u_k = n(act(drop(BN(A^_k x_{t - max(k - nu, 0)} W_tk))))
        x_{t+1} = n(x_t + relu(sum over k = 1 .. min(t + 1, K) of u_k)),   y = head(x_L)

    Args:
        frame: encoder, widths, which must be the same, factory of the head.
        layers: L (``gnn.layers_mp``).
        post: BN, drop, act and n, as GraphGym's layers have them.
        hops: K; the released runs have K = L.
        nu: hops that are heard without delay; None: no delay at all.

    Shape:
        batch -> prediction of the head. Layer t costs the pairs within min(t + 1, K) hops and as many maps per node.

    Differences from the released code: a graph without nodes k hops apart is convolved along its self loops, there only
    if another graph of the batch has such nodes. In the paper A_k has no loops. Weights of the hops (``agg_weights``),
    which no released run has, and the variants of GIN and GatedGCN are not here.
    """

    layers_from = "gnn"

    def __init__(
        self,
        frame: Frame,
        layers: FromContext[int],
        *,
        post: FromContext[LayerSettings] = LayerSettings(),
        hops: int = 5,
        nu: int | None = 1,
    ) -> None:
        super().__init__(frame.encoder, keep_sparse=False)
        dim = frame.dim
        check_at_least(1, hops=hops, nu=1 if nu is None else nu)
        check_same_width(frame.dim_encoded, dim, "DRew adds the encoded nodes to its states")
        self.hops, self.nu, self.l2norm = hops, nu, post.l2norm
        self.layers: Modules[ShellConvolutions] = Modules(
            ShellConvolutions(dim, min(number, hops), post) for number in range(1, layers + 1)
        )
        self.head = frame.head(dim)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Neighbour lists within K hops."""
        return {"HopNeighbors": {"cutoff": arguments["hops"]}}

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, _, batch = self.encode(batch)
        states = [as_dense(h)]
        for t, layer in enumerate(self.layers):
            delays = [0 if self.nu is None else max(k - self.nu, 0) for k in range(1, min(t + 1, self.hops) + 1)]
            heard = torch.stack([states[t - delay] for delay in delays])
            new = states[-1] + layer(heard, batch, self.hops).relu()
            states.append(unit_length(new) if self.l2norm else new)
        return self.head(states[-1], batch)
