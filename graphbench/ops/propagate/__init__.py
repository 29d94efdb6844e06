"""Products with a (normalised) adjacency, and sums of messages over the edges of a graph."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.library import library_op
from graphbench.ops.propagate import cpu, reference
from graphbench.structures.adjacency import Adjacency

__all__ = [
    "edge_softmax",
    "gated_mean",
    "gather",
    "max_at_target",
    "mean_at_target",
    "propagate",
    "relu_sum",
    "sum_at_target",
]


_PROPAGATE = Backends(reference.propagate, cpu.propagate, gpu=True)
_GATHER = Backends(reference.gather, cpu.gather)
_SUM = Backends(reference.sum_at_target, cpu.sum_at_target)
_MAX = Backends(reference.max_at_target, cpu.max_at_target)
_SOFTMAX = Backends(reference.edge_softmax, cpu.edge_softmax)
_RELU = Backends(reference.relu_sum, cpu.relu_sum, gpu=True)
_GATED = Backends(reference.gated_mean, cpu.gated_mean, gpu=True)


def _per_node(adj: Adjacency, messages: Tensor, **_: object) -> Tensor:
    return messages.new_empty((adj.num_nodes, *messages.shape[1:]))


@library_op(lambda adj, h, **_: h.new_empty(h.shape))
def propagate(adj: Adjacency, h: Tensor, *, backend: str = "auto") -> Tensor:
    """``out[t] = sum over edges s -> t of weight(s, t) * h[s]``.

    Args:
        adj: see :class:`~graphbench.structures.Adjacency`.
        h: (N, ...) floating.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (N, ...); 0 for a node without incoming edges.
    """
    return _PROPAGATE.choose(backend, h)(adj, h)


@library_op(lambda adj, h, *_, **__: h.new_empty((adj.num_edges, *h.shape[1:])))
def gather(adj: Adjacency, h: Tensor, end: Literal["source", "target"], *, backend: str = "auto") -> Tensor:
    """(E, ...) rows of ``h`` at one end of every edge (edges in the order they were given)."""
    return _GATHER.choose(backend, h)(adj, h, end)


@library_op(_per_node)
def sum_at_target(adj: Adjacency, messages: Tensor, *, backend: str = "auto") -> Tensor:
    """(N, ...) sum of the messages (E, ...) that arrive at every node; weights of ``adj`` are not applied."""
    return _SUM.choose(backend, messages)(adj, messages)


def mean_at_target(adj: Adjacency, messages: Tensor, *, backend: str = "auto") -> Tensor:
    """(N, ...) mean of the messages (E, ...) that arrive at every node, 0 where none does."""
    arriving = (adj.by_target.ptr[1:] - adj.by_target.ptr[:-1]).clamp_(min=1).to(messages.dtype)
    return sum_at_target(adj, messages, backend=backend) / arriving.view(-1, *(1 for _ in messages.shape[1:]))


@library_op(_per_node)
def max_at_target(adj: Adjacency, messages: Tensor, *, backend: str = "auto") -> Tensor:
    """(N, ...) largest of the messages (E, ...) that arrive at every node, per channel; 0 where none does.

    The gradient is shared equally among messages that attain the maximum, as in :func:`torch.amax`.
    """
    return _MAX.choose(backend, messages)(adj, messages)


@library_op(lambda adj, logits, **_: logits.new_empty(logits.shape))
def edge_softmax(adj: Adjacency, logits: Tensor, *, backend: str = "auto") -> Tensor:
    """Softmax over the edges that share a target, per channel.

    Args:
        adj: see :class:`~graphbench.structures.Adjacency`.
        logits: (E, ...) floating; minus infinity removes an edge, as long as its target keeps another.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"``.

    Returns:
        (E, ...), for every node with edges a distribution over them.
    """
    return _SOFTMAX.choose(backend, logits)(adj, logits)


@library_op(lambda adj, h, e, **_: (h.new_empty(h.shape), 2))
def relu_sum(
    adj: Adjacency, h: Tensor, e: Tensor, *, eps: Tensor | None = None, backend: str = "auto"
) -> tuple[Tensor, Tensor]:
    """``out[t] = (1 + eps) h[t] + sum over edges s -> t of relu(h[s] + e[s, t])``: the message passing of GINE.

    Args:
        adj: see :class:`~graphbench.structures.Adjacency`, without added self loops.
        h: (N, d).
        e: (E, d).
        eps: (1,) weight of the node itself, minus one; None leaves the node itself out.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (N, d), and ``e`` for the layer that reads it next, whose gradient the backward pass adds to its own: nobody may
        write onto it. No tensor of the size of the edges is kept for the backward pass besides ``e``.
    """
    return _RELU.choose(backend, h)(adj, h, e, eps)


@library_op(
    lambda adj, target, source, edge, value, *_, **__: (value.new_empty(value.shape), edge.new_empty(edge.shape))
)
def gated_mean(
    adj: Adjacency,
    target: Tensor,
    source: Tensor,
    edge: Tensor,
    value: Tensor,
    own: Tensor | None = None,
    *,
    gate: Tensor | None = None,
    packed: Tensor | None = None,
    eps: float = 1e-6,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Mean of the neighbours' values under sigmoid gates: the message passing of GatedGCN.

    With ``logit(s, t) = target[t] + source[s] + edge[s, t]`` and ``w(s, t) = sigmoid(logit(s, t)) gate(s, t)``::

        out[t] = own[t] + sum_s w(s, t) * value[s] / (sum_s w(s, t) + eps)

    Args:
        adj: see :class:`~graphbench.structures.Adjacency`, without added self loops.
        target: (N, d) part of the logit that the receiving node contributes.
        source: (N, d) part that the sending node contributes.
        edge: (E, d) part that the edge contributes.
        value: (N, d) what the sending node sends.
        own: (N, d) what the receiving node adds itself, or None for 0.
        gate: (E, 1) further factor of the weight, or None for 1.
        packed: (N, 3, d), or (N, 4, d) with ``own``: target, source, value and own are views of it in this order; or
            None. Kernels then write its gradient in one piece.
        eps: keeps the mean finite where no edge arrives.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        ``out`` (N, d) and ``logit`` (E, d).
    """
    return _GATED.choose(backend, target)(adj, target, source, edge, value, own, gate, eps, packed)
