"""Baselines whose propagation has no parameters: SGC, SIGN, APPNP and H2GCN.

Encoder, linear layers, propagation, head: they differ in the propagation. A^ = D^-1/2 (A + I) D^-1/2 throughout.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.encoders.compose import NodeEncoder, keep_sparse
from graphbench.errors import ArgumentError
from graphbench.heads.contract import Head
from graphbench.layers.activation import activation
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear, Readable, propagated, readable
from graphbench.models.contract import Model
from graphbench.ops.propagate import propagate
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch, as_dense
from graphbench.structures.adjacency import Adjacency, adjacency


class Decoupled(Model):
    """y = head(spread(pre(X))); a subclass says what ``spread`` is and makes the head.

    Args:
        encoder: module ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: its width.
        dim: width of the linear layers (``gnn.dim_inner``).
        pre_mp: linear layers of that width (``gnn.layers_pre_mp``); None for none.

    Attributes:
        layers_from: see :class:`~graphbench.models.stacked.GPSModel`; widths come from ``gnn``.
        width: columns of the states that ``spread`` receives.

    Shape:
        batch -> what the head returns
    """

    layers_from: ClassVar[str] = "gnn"
    reads_sparse: ClassVar[bool] = False
    head: Head

    def __init__(self, encoder: NodeEncoder, dim_encoded: int, dim: int, pre_mp: nn.ModuleList | None) -> None:
        super().__init__()
        self.encoder = keep_sparse(encoder)
        self.pre_mp = nn.ModuleList() if pre_mp is None else pre_mp
        self.width = dim if self.pre_mp else dim_encoded

    def forward(self, batch: GraphBatch) -> Tensor:
        """Predicts from a batch."""
        h, batch = self.encoder(batch)
        for layer in self.pre_mp:
            h = layer(h)
        return self.head(self.spread(readable(h, self), batch), batch)

    @abstractmethod
    def spread(self, h: Features, batch: GraphBatch) -> Readable:
        """What the head reads, from the states (N, width); sparse ones only with ``reads_sparse``."""


@register("SGC")
class SGC(Decoupled):
    """Simple graph convolution, https://arxiv.org/abs/1902.07153: y = head((A^)^K X).

    The product with raw features is computed once per batch, with sparse ones never: the first map of the head comes
    before the propagation there, which is the same. With the linear head (``gnn.layers_post_mp: 1``) and no linear
    layers before it, this is the paper's logistic regression.

    Args:
        encoder, dim_encoded, dim, pre_mp: see :class:`Decoupled`.
        head: makes the head from the width of the states, ``(h, batch) -> prediction``.
        hops: K.

    Shape:
        batch -> what the head returns
    """

    reads_sparse: ClassVar[bool] = True

    def __init__(
        self,
        encoder: FromContext[NodeEncoder],
        dim_encoded: FromContext[int],
        dim: FromContext[int],
        head: FromContext[Callable[[int], Head]],
        *,
        pre_mp: FromContext[nn.ModuleList | None] = None,
        hops: int = 2,
    ):
        super().__init__(encoder, dim_encoded, dim, pre_mp)
        self.hops = _counted("hops", hops)
        self.head = head(self.width)

    def spread(self, h: Features, batch: GraphBatch) -> Readable:
        """(A^)^K h."""
        near, seen = _normalised(batch), readable(h, self.head)
        if h is batch.x and isinstance(seen, Tensor):
            return batch.derived(_propagated_features, self.hops)
        return propagated(near, seen, self.hops)


@register("SIGN")
class SIGN(Decoupled):
    """Scalable inception graph networks, https://arxiv.org/abs/2004.11198.

    Equation::

        y = head(drop(act([X W_0 | A^ X W_1 | .. | (A^)^K X W_K])))

    Args:
        encoder, dim_encoded, pre_mp: see :class:`Decoupled`.
        dim: width of every W as well.
        dropout: drop above, too.
        act: act above, too.
        head: makes the head from the width of the states, ``(h, batch) -> prediction``.
        hops: K.

    Shape:
        batch -> what the head returns

    Differences from the paper: one operator, A^, of the three kinds it allows. Products are taken as (A^)^k (X W_k),
    which is the same and needs no memory for (A^)^k X.
    """

    reads_sparse: ClassVar[bool] = True

    def __init__(
        self,
        encoder: FromContext[NodeEncoder],
        dim_encoded: FromContext[int],
        dim: FromContext[int],
        head: FromContext[Callable[[int], Head]],
        *,
        pre_mp: FromContext[nn.ModuleList | None] = None,
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        hops: int = 3,
    ):
        super().__init__(encoder, dim_encoded, dim, pre_mp)
        self.lin = InputLinear(self.width, (_counted("hops", hops) + 1) * dim, bias=False)
        self.bias = nn.Parameter(torch.zeros((hops + 1) * dim))
        self.act, self.dropout = activation(act), Dropout(dropout)
        self.dim = dim
        self.head = head((hops + 1) * dim)

    def spread(self, h: Features, batch: GraphBatch) -> Tensor:
        """All powers side by side."""
        near = _normalised(batch)
        own, *rest = self.lin(h).split(self.dim, dim=1)
        powers = [own]
        left = torch.cat(rest, dim=1) if rest else own[:, :0]
        while left.shape[1]:  # one more step for all powers that are not there yet
            left = propagate(near, left)
            powers.append(left[:, : self.dim])
            left = left[:, self.dim :]
        return self.dropout(self.act(torch.cat(powers, dim=1) + self.bias))


@register("APPNP")
class APPNP(Decoupled):
    """Personalised PageRank of an MLP's states, https://arxiv.org/abs/1810.05997.

    Equation::

        Z_0 = H = pre(X),   Z_k = (1 - alpha) A^ Z_{k-1} + alpha H,   y = head(Z_K)

    Args:
        encoder, dim_encoded, dim, pre_mp: see :class:`Decoupled`.
        head: makes the head from the width of the states, ``(h, batch) -> prediction``.
        hops: K.
        alpha: probability of teleporting.

    Shape:
        batch -> what the head returns

    Differences from the paper: the head stands after the propagation, not before; a linear head commutes with it, all
    but its bias, which is not propagated here. Neither the features nor the entries of A^ are dropped out.
    """

    def __init__(
        self,
        encoder: FromContext[NodeEncoder],
        dim_encoded: FromContext[int],
        dim: FromContext[int],
        head: FromContext[Callable[[int], Head]],
        *,
        pre_mp: FromContext[nn.ModuleList | None] = None,
        hops: int = 10,
        alpha: float = 0.1,
    ):
        super().__init__(encoder, dim_encoded, dim, pre_mp)
        if not 0.0 <= alpha <= 1.0:
            raise ArgumentError("alpha", f"alpha must lie between 0 and 1, received {alpha}")
        self.hops, self.alpha = _counted("hops", hops), alpha
        self.head = head(self.width)

    def spread(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Z_K."""
        near, z = _normalised(batch), h
        for _ in range(self.hops):
            z = torch.lerp(propagate(near, z), h, self.alpha)
        return z


@register("H2GCN")
class H2GCN(Decoupled):
    """Ego and neighbours kept apart, neighbours two edges away, all rounds read: https://arxiv.org/abs/2006.11468.

    Equation, A_1 joining nodes at distance one, A_2 at distance two, both normalised symmetrically, without loops::

        R_0 = pre(X),   R_k = [A_1 R_{k-1} | A_2 R_{k-1}],   y = head(drop([R_0 | R_1 | .. | R_K]))

    Args:
        encoder, dim_encoded, dim, pre_mp: see :class:`Decoupled`; the paper has one
            linear layer.
        dropout: drop above, too.
        head: makes the head from the width of the states, (2^(K+1) - 1) ``dim``.
        rounds: K.

    Shape:
        batch -> what the head returns

    Differences from the paper: ``dropout`` acts in the linear layer as well, not only before the head.
    """

    def __init__(
        self,
        encoder: FromContext[NodeEncoder],
        dim_encoded: FromContext[int],
        dim: FromContext[int],
        head: FromContext[Callable[[int], Head]],
        *,
        pre_mp: FromContext[nn.ModuleList | None] = None,
        dropout: FromContext[float] = 0.0,
        rounds: int = 2,
    ):
        super().__init__(encoder, dim_encoded, dim, pre_mp)
        self.rounds = _counted("rounds", rounds)
        self.dropout = Dropout(dropout)
        self.head = head((2 ** (rounds + 1) - 1) * self.width)

    def spread(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """All rounds side by side."""
        one = batch.derived(_without_loops)
        two = batch.two_hop_adjacency(direct=False, norm="sym")
        found = [h]
        for _ in range(self.rounds):
            found.append(torch.cat([propagate(one, found[-1]), propagate(two, found[-1])], dim=1))
        return self.dropout(torch.cat(found, dim=1))


def _counted(name: str, number: int) -> int:
    if number < 0:
        raise ArgumentError(name, f"{name} must be 0 or more, received {number}")
    return number


def _normalised(batch: GraphBatch) -> Adjacency:
    return batch.adjacency(norm="sym", self_loops=True)


def _propagated_features(batch: GraphBatch, hops: int) -> Readable:
    """(A^)^K X of dense features, which no parameter changes: once per batch."""
    assert batch.x is not None
    return propagated(_normalised(batch), as_dense(batch.x), hops)


def _without_loops(batch: GraphBatch) -> Adjacency:
    source, target = batch.edge_index
    return adjacency(batch.edge_index[:, source != target], batch.num_nodes, norm="sym")
