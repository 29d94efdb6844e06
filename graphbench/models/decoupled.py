"""Baselines whose propagation has no weight matrices: SGC, SIGN, APPNP, GPRGNN and H2GCN.

Encoder, linear layers, propagation, head: they differ in the propagation. A^ = D^-1/2 (A + I) D^-1/2 throughout.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.model import BlockwiseModel
from graphbench.errors import ArgumentError, check_at_least, check_one_of, check_within
from graphbench.heads.contract import Head
from graphbench.layers.activation import activation
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import BeginsWithLinear, InputLinear, Mapped, Readable, propagated, readable
from graphbench.layers.module_list import Modules
from graphbench.models.contract import EncodedModel, Frame
from graphbench.models.pre_layers import PreLayer
from graphbench.ops.propagate import propagate
from graphbench.ops.sparse_linear import sparse_linear
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch, SparseRows, as_dense
from graphbench.structures.adjacency import Adjacency, adjacency
from graphbench.structures.node_blocks import HostRows, NodeBlocks
from graphbench.structures.two_hops import more_walk_edges


@dataclass(frozen=True)
class PreFrame(Frame):
    """Encoder and head of a model with linear layers before the propagation.

    Attributes:
        pre_mp: linear layers of width ``dim`` (``gnn.layers_pre_mp``), or None.
    """

    pre_mp: FromContext[Modules[PreLayer] | None] = None

    @property
    def width(self) -> int:
        """Columns of the states that are propagated."""
        return self.dim if self.pre_mp else self.dim_encoded


class Decoupled(EncodedModel):
    """y = head(spread(pre(X))); a subclass defines ``spread``.

    Args:
        frame: encoder, linear layers ``pre``, factory of the head.

    Shape:
        batch -> prediction of the head
    """

    capturable: ClassVar[bool | Literal["one batch"]] = True
    layers_from = "gnn"
    reads_sparse: ClassVar[bool] = False
    head: Head

    def __init__(self, frame: PreFrame) -> None:
        super().__init__(frame.encoder)
        self.pre_mp: Modules[PreLayer] = Modules() if frame.pre_mp is None else frame.pre_mp

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, _, batch = self.encode(batch)
        for layer in self.pre_mp:
            h = layer(h, batch)
        return self.predict(readable(h, self), batch)

    def predict(self, h: Features, batch: GraphBatch) -> Tensor:
        """(N, out_dim) predictions from the states (N, width)."""
        return self.head(self.spread(h, batch), batch)

    @abstractmethod
    def spread(self, h: Features, batch: GraphBatch) -> Readable:
        """Input of the head, from the states (N, width); sparse ones only with ``reads_sparse``."""


class BlockwiseDecoupled(Decoupled, BlockwiseModel):
    """A decoupled model whose propagation is exact block by block, one step after the other."""

    def forward_blockwise(self, graph: NodeBlocks) -> Tensor:
        """The predictions of :meth:`forward` with bounded memory; see :class:`.BlockwiseModel`."""
        blocks = Blockwise(graph, self)
        h = blocks.nodes(self.encoder)
        for layer in self.pre_mp:
            h = blocks.rows(layer, h)
        return as_dense(self.predict_blockwise(h, blocks).tensor)

    def predict_blockwise(self, h: HostRows, blocks: Blockwise) -> HostRows:
        """(N, out_dim) predictions from the states (N, width)."""
        return blocks.rows(self.head, self.spread_blockwise(h, blocks))

    @abstractmethod
    def spread_blockwise(self, h: HostRows, blocks: Blockwise) -> HostRows:
        """:meth:`spread` for one graph in blocks."""


@register("SGC")
class SGC(BlockwiseDecoupled):
    """Simple graph convolution, https://arxiv.org/abs/1902.07153.

    y = head((A^)^K X).

    The product with dense raw features is computed once per batch; with sparse ones the first map of the head is
    exchanged with the propagation. With the linear head (``gnn.layers_post_mp: 1``) and no linear layers before it,
    this is the paper's logistic regression.

    Args:
        frame: see :class:`PreFrame`.
        hops: K.

    Shape:
        batch -> prediction of the head
    """

    reads_sparse: ClassVar[bool] = True

    def __init__(self, frame: PreFrame, *, hops: int = 2) -> None:
        super().__init__(frame)
        check_at_least(0, hops=hops)
        self.hops = hops
        self.head = frame.head(frame.width)

    def spread(self, h: Features, batch: GraphBatch) -> Readable:
        """(A^)^K h."""
        x = readable(h, self.head)
        if h is batch.x and isinstance(x, Tensor):
            return batch.derived(_propagated_features, self.hops)
        return propagated(_normalised(batch), x, self.hops)

    def spread_blockwise(self, h: HostRows, blocks: Blockwise) -> HostRows:
        """(A^)^K h."""
        for _ in range(self.hops):
            h = blocks.propagate(h)
        return h

    def predict_blockwise(self, h: HostRows, blocks: Blockwise) -> HostRows:
        """(N, out_dim); the first map of the head comes before the propagation where the rows are sparse."""
        head = self.head
        if not (isinstance(h.tensor, SparseRows) and isinstance(head, BeginsWithLinear)):
            return super().predict_blockwise(h, blocks)
        weight = head.entry.weight
        mapped = blocks.rows(lambda rows, batch: sparse_linear(rows, weight), h)
        spread = self.spread_blockwise(mapped, blocks)
        return blocks.rows(lambda rows, batch: self.head(Mapped(rows), batch), spread, part=head)


@register("SIGN")
class SIGN(BlockwiseDecoupled):
    """Scalable inception graph networks, https://arxiv.org/abs/2004.11198.

    Equation::

        y = head(drop(act([X W_0 | A^ X W_1 | .. | (A^)^K X W_K] + b)))

    Args:
        frame: see :class:`PreFrame`; ``dim`` is also the width of every W.
        dropout: ``drop`` above, and of the linear layers.
        act: ``act`` above, and of the linear layers.
        hops: K.
        joint: the products are added: one linear map of [X | A^ X | .. | (A^)^K X], drawn as ``nn.Linear`` draws it.
        self_loops: False: A^ = D^-1/2 A D^-1/2. With ``joint`` the model of SGFormer's release (medium/models.py).

    Shape:
        batch -> prediction of the head

    Differences from the paper: one operator, A^, of the three kinds it allows. Products are taken as (A^)^k (X W_k),
    which is the same and needs no memory for (A^)^k X.
    """

    reads_sparse: ClassVar[bool] = True

    def __init__(
        self,
        frame: PreFrame,
        *,
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        hops: int = 3,
        joint: bool = False,
        self_loops: bool = True,
    ) -> None:
        super().__init__(frame)
        check_at_least(0, hops=hops)
        self.dim = frame.dim
        self.hops = hops
        self.joint = joint
        self.self_loops = self_loops
        width = frame.dim if joint else (hops + 1) * frame.dim
        self.lin = InputLinear(frame.width, (hops + 1) * frame.dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))
        if joint:
            bound = ((hops + 1) * frame.width) ** -0.5
            for parameter in (self.lin.weight, self.bias):
                nn.init.uniform_(parameter, -bound, bound)
        self.act = activation(act)
        self.dropout = Dropout(dropout)
        self.head = frame.head(width)

    def spread(self, h: Features, batch: GraphBatch) -> Tensor:
        """(N, (K + 1) dim): all powers, concatenated; (N, dim) with ``joint``."""
        adj = batch.adjacency(norm="sym", self_loops=self.self_loops)
        remaining = self.lin(h)
        powers = [remaining[:, : self.dim]]
        remaining = remaining[:, self.dim :]
        while remaining.shape[1]:  # one more step for all higher powers together
            remaining = propagate(adj, remaining)
            powers.append(remaining[:, : self.dim])
            remaining = remaining[:, self.dim :]
        return self._joined(*powers)

    def spread_blockwise(self, h: HostRows, blocks: Blockwise) -> HostRows:
        """(N, (K + 1) dim): all powers, concatenated; (N, dim) with ``joint``."""
        remaining = blocks.rows(lambda rows, batch: self.lin(rows), h)
        powers = [remaining]
        for _ in range(self.hops):
            remaining = blocks.propagate(_columns(remaining, slice(self.dim, None)), self_loops=self.self_loops)
            powers.append(remaining)
        return blocks.rows(self._joined, *(_columns(power, slice(self.dim)) for power in powers))

    def _joined(self, *powers: Tensor, batch: GraphBatch | None = None) -> Tensor:
        mixed = torch.stack(powers).sum(0) if self.joint else torch.cat(powers, dim=1)
        return self.dropout(self.act(mixed + self.bias))


@register("APPNP")
class APPNP(BlockwiseDecoupled):
    """Personalised PageRank of an MLP's states, https://arxiv.org/abs/1810.05997.

    Equation::

        Z_0 = H = pre(X),   Z_k = (1 - alpha) A^ Z_{k-1} + alpha H,   y = head(Z_K)

    Args:
        frame: see :class:`PreFrame`.
        hops: K.
        alpha: probability of teleporting.
        input_dropout: dropout of the features.
        predict_first: the head is applied to H and its predictions are propagated, as in the paper.

    Shape:
        batch -> prediction of the head

    Differences from the paper: without ``predict_first`` the head is applied after the propagation, not before; a
    linear head commutes with it, except for its bias, which is not propagated then. The entries of A^ are not dropped
    out.
    """

    def __init__(
        self,
        frame: PreFrame,
        *,
        hops: int = 10,
        alpha: float = 0.1,
        input_dropout: float = 0.0,
        predict_first: bool = False,
    ) -> None:
        super().__init__(frame)
        check_at_least(0, hops=hops)
        check_within(0, 1, alpha=alpha)
        self.hops = hops
        self.alpha = alpha
        self.input_dropout = Dropout(input_dropout)
        self.predict_first = predict_first
        self.head = frame.head(frame.width)

    def encode(self, batch: GraphBatch) -> tuple[Features, Tensor | None, GraphBatch]:
        """First node states (N, dim_encoded), dropped out, no edge states, and the batch to go on with."""
        h, e, batch = super().encode(batch)
        return self.input_dropout(h), e, batch

    def predict(self, h: Features, batch: GraphBatch) -> Tensor:
        """(N, out_dim) predictions from the states (N, width)."""
        return self.spread(self.head(h, batch), batch) if self.predict_first else super().predict(h, batch)

    def predict_blockwise(self, h: HostRows, blocks: Blockwise) -> HostRows:
        """(N, out_dim) predictions from the states (N, width)."""
        if self.predict_first:
            return self.spread_blockwise(blocks.rows(self.head, h), blocks)
        return super().predict_blockwise(h, blocks)

    def spread(self, h: Features, batch: GraphBatch) -> Tensor:
        """Z_K."""
        adj = _normalised(batch)
        initial = as_dense(h)
        z = initial
        for _ in range(self.hops):
            z = torch.lerp(propagate(adj, z), initial, self.alpha)
        return z

    def spread_blockwise(self, h: HostRows, blocks: Blockwise) -> HostRows:
        """Z_K."""
        z = h
        for _ in range(self.hops):
            z = blocks.propagate(z, h, then=lambda new, initial: torch.lerp(new, as_dense(initial), self.alpha))
        return z


@register("GPRGNN")
class GPRGNN(BlockwiseDecoupled):
    """Generalised PageRank with learned weights of the steps, https://arxiv.org/abs/2006.07988.

    Equation::

        H = pre(X),   y = head(sum over k = 0 .. K of gamma_k A^^k drop(H)),   gamma_k = alpha (1 - alpha)^k at first,
        gamma_K = (1 - alpha)^K

    Args:
        frame: see :class:`PreFrame`.
        dropout: dropout of H, before the propagation.
        hops: K.
        alpha: alpha of the first weights.

    Shape:
        batch -> prediction of the head

    Differences from the paper: the head is applied after the propagation, not before; a linear head commutes with it,
    except for its bias, which is not propagated here.
    """

    def __init__(
        self, frame: PreFrame, *, dropout: FromContext[float] = 0.0, hops: int = 10, alpha: float = 0.1
    ) -> None:
        super().__init__(frame)
        check_at_least(0, hops=hops)
        check_within(0, 1, alpha=alpha)
        start = [alpha * (1 - alpha) ** hop for hop in range(hops)] + [(1 - alpha) ** hops]
        self.gamma = nn.Parameter(torch.tensor(start))
        self.dropout = Dropout(dropout)
        self.head = frame.head(frame.width)

    def spread(self, h: Features, batch: GraphBatch) -> Tensor:
        """The weighted sum of all steps."""
        adj = _normalised(batch)
        z = self.dropout(as_dense(h))
        total: Tensor = self.gamma[0] * z
        for weight in self.gamma[1:]:
            z = propagate(adj, z)
            total = total + weight * z
        return total

    def spread_blockwise(self, h: HostRows, blocks: Blockwise) -> HostRows:
        """The weighted sum of all steps."""
        total, z = blocks.rows(lambda rows, batch: self.gamma[0] * as_dense(rows), h), h
        for weight in self.gamma[1:]:
            z = blocks.propagate(z)
            total = blocks.rows(partial(_added, weight=weight), total, z)
        return total


@register("H2GCN")
class H2GCN(Decoupled):
    """Separate ego and neighbour states, neighbours two edges away, all rounds read, https://arxiv.org/abs/2006.11468.

    Equation, A_1 joining nodes at distance one, A_2 at distance two, both normalised symmetrically, without loops::

        R_0 = pre(X),   R_k = [A_1 R_{k-1} | A_2 R_{k-1}],   y = head(drop([R_0 | R_1 | .. | R_K]))

    Args:
        frame: see :class:`PreFrame`; the paper has one linear layer. The head reads (2^(K+1) - 1) ``dim`` columns.
        dropout: ``drop`` above, and of the linear layers.
        rounds: K.
        probabilities: predict softmax(y), to which a cross-entropy applies its own log-softmax once more, so that its
            gradient stays bounded: SGFormer's release (medium/main.py and models.py), for its tables.
        plain_maps: the two maps of the paper, R_0 = ReLU(pre(X) W) and the linear head, are Glorot-uniform and without
            biases; with ``gnn.layers_pre_mp: 0`` there are no others, and dropout is before the head only.
        two_hops: pairs of A_2: ``distance`` as above; ``walks``: :func:`.more_walk_edges`, as SGFormer's release.

    Shape:
        batch -> prediction of the head

    Differences from the paper: without ``plain_maps`` the linear layer has a bias and is dropped out, too. It is about
    undirected graphs: along one-way edges a node without incoming ones is not heard, since its degree is 0.
    """

    capturable: ClassVar[bool | Literal["one batch"]] = "one batch"

    def __init__(
        self,
        frame: PreFrame,
        *,
        dropout: FromContext[float] = 0.0,
        rounds: int = 2,
        probabilities: bool = False,
        plain_maps: bool = False,
        two_hops: Literal["distance", "walks"] = "distance",
    ) -> None:
        super().__init__(frame)
        check_at_least(0, rounds=rounds)
        check_one_of(("distance", "walks"), two_hops=two_hops)
        self.rounds = rounds
        self.probabilities = probabilities
        self.two_hops = two_hops
        self.dropout = Dropout(dropout)
        self.embedding = InputLinear(frame.width, frame.dim, bias=False) if plain_maps else None
        self.head = frame.head((2 ** (rounds + 1) - 1) * (frame.dim if plain_maps else frame.width))
        if self.embedding is not None:
            if not isinstance(self.head, BeginsWithLinear):
                raise ArgumentError("plain_maps", "plain_maps needs a head that begins with a linear map: node")
            self.head.entry.register_parameter("bias", None)
            for linear in (self.embedding, self.head.entry):
                nn.init.xavier_uniform_(linear.weight)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head, or its softmax."""
        prediction = super().forward(batch)
        return prediction.softmax(dim=1) if self.probabilities else prediction

    def spread(self, h: Features, batch: GraphBatch) -> Tensor:
        """(N, (2^(K+1) - 1) width): all rounds, concatenated."""
        one_hop = batch.derived(_without_loops)
        if self.two_hops == "walks":
            two_hops = batch.derived(_more_walks)
        else:
            two_hops = batch.two_hop_adjacency(direct=False, norm="sym")
        rounds = [as_dense(h) if self.embedding is None else self.embedding(h).relu()]
        for _ in range(self.rounds):
            rounds.append(torch.cat([propagate(one_hop, rounds[-1]), propagate(two_hops, rounds[-1])], dim=1))
        return self.dropout(torch.cat(rounds, dim=1))


def _columns(rows: HostRows, columns: slice) -> HostRows:
    """Some columns of dense rows, in the same memory."""
    return HostRows(as_dense(rows.tensor)[:, columns], rows.mapped)


def _added(total: Tensor, z: Tensor, batch: GraphBatch, weight: Tensor) -> Tensor:
    return total + weight * z


def _normalised(batch: GraphBatch) -> Adjacency:
    return batch.adjacency(norm="sym", self_loops=True)


def _propagated_features(batch: GraphBatch, hops: int) -> Readable:
    """(A^)^K X of dense features, which no parameter changes: once per batch."""
    assert batch.x is not None
    return propagated(_normalised(batch), as_dense(batch.x), hops)


def _without_loops(batch: GraphBatch) -> Adjacency:
    source, target = batch.edge_index
    return adjacency(batch.edge_index[:, source != target], batch.num_nodes, norm="sym")


def _more_walks(batch: GraphBatch) -> Adjacency:
    return adjacency(more_walk_edges(batch.edge_index, batch.num_nodes), batch.num_nodes, norm="sym")
