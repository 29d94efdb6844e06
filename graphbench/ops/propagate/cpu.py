"""The operators of this folder on ``bag_sum``; gradients read the transposed lists built with the adjacency."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.segment import bag_sum
from graphbench.structures.adjacency import Adjacency, Csr
from graphbench.structures.first_order import first_order

# Numbers of a block: 1 MB of fp32, for the caches of two cores.
_BLOCK = 1 << 18


def propagate(adj: Adjacency, h: Tensor) -> Tensor:
    """See :func:`graphbench.ops.propagate.propagate`."""
    return _Propagate.apply(adj, h)  # type: ignore[no-untyped-call]


def gather(adj: Adjacency, h: Tensor, end: str) -> Tensor:
    """See :func:`graphbench.ops.propagate.gather`."""
    index, lists = (adj.source, adj.by_source) if end == "source" else (adj.target, adj.by_target)
    return _Gather.apply(h, index, lists)  # type: ignore[no-untyped-call]


def sum_at_target(adj: Adjacency, messages: Tensor) -> Tensor:
    """See :func:`graphbench.ops.propagate.sum_at_target`."""
    return _SumAtTarget.apply(adj, messages)  # type: ignore[no-untyped-call]


def max_at_target(adj: Adjacency, messages: Tensor) -> Tensor:
    """See :func:`graphbench.ops.propagate.max_at_target`."""
    return _MaxAtTarget.apply(adj, messages)  # type: ignore[no-untyped-call]


def edge_softmax(adj: Adjacency, logits: Tensor) -> Tensor:
    """See :func:`graphbench.ops.propagate.edge_softmax`."""
    return _EdgeSoftmax.apply(adj, logits)  # type: ignore[no-untyped-call]


def relu_sum(adj: Adjacency, h: Tensor, e: Tensor, eps: Tensor | None) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.propagate.relu_sum`."""
    result: Tensor = _ReluSum.apply(adj, h, e)  # type: ignore[no-untyped-call]
    return (result if eps is None else torch.addcmul(result, h, 1 + eps)), e


def gated_mean(
    adj: Adjacency,
    target: Tensor,
    source: Tensor,
    edge: Tensor,
    value: Tensor,
    own: Tensor | None,
    gate: Tensor | None,
    eps: float,
    packed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.propagate.gated_mean`; ``packed`` is not read."""
    wide = compute_dtype(target)
    if target.dtype != wide:  # 1 / eps is infinite in fp16, and a closed gate nothing beside 1 in either
        nodes = target.to(wide), source.to(wide), edge.to(wide), value.to(wide)
        own, gate = (None if x is None else x.to(wide) for x in (own, gate))
        out, logit = gated_mean(adj, *nodes, own, gate, eps)
        return out.to(value.dtype), logit.to(edge.dtype)
    mean, logit = _GatedMean.apply(adj, target, source, edge, value, gate, eps)  # type: ignore[no-untyped-call]
    return (mean if own is None else own + mean), logit


def _bag(rows: Tensor, index: Tensor, lists: Csr, weight: Tensor | None = None) -> Tensor:
    """:func:`bag_sum` for rows of any shape."""
    shape = (lists.ptr.numel() - 1, *rows.shape[1:])
    if rows.numel() == 0 or index.numel() == 0:
        return rows.new_zeros(shape)
    flat, pieces = rows.reshape(rows.shape[0], -1), lists.pieces
    if pieces is None:
        return bag_sum(flat, index, lists.ptr, weight).view(shape)
    return bag_sum(bag_sum(flat, index, pieces.ptr, weight), pieces.number, pieces.of_node).view(shape)


def _arriving(adj: Adjacency, messages: Tensor) -> Tensor:
    return _bag(messages, adj.by_target.entry, adj.by_target)


def _leaving(adj: Adjacency, messages: Tensor) -> Tensor:
    return _bag(messages, adj.by_source.entry, adj.by_source)


def logit_gradients(adj: Adjacency, grad_logit: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients of the arguments of :func:`gated_mean` without gate that come from its logits."""
    if grad_logit is None:
        return (None,) * 6
    return None, _arriving(adj, grad_logit), _leaving(adj, grad_logit), grad_logit, None, None


def _blocks(of_edges: Tensor) -> Iterator[slice]:
    """Pieces of the edges whose numbers stay in the cache from one operation to the next.

    Elsewhere than on a CPU they are one piece, and for a compiler, whose program is for any number of edges.
    """
    if of_edges.device.type != "cpu" or torch.compiler.is_compiling():
        yield slice(None)
        return
    step = max(1, _BLOCK // max(1, of_edges[:1].numel()))
    yield from (slice(start, start + step) for start in range(0, len(of_edges), step))


class _Propagate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: Adjacency, h: Tensor) -> Tensor:
        ctx.adj = adj
        return _bag(h, adj.by_target.other, adj.by_target, adj.sorted_weights(h.dtype)[0])

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        lists = ctx.adj.by_source
        return None, _bag(grad, lists.other, lists, ctx.adj.sorted_weights(grad.dtype)[1])


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, index: Tensor, lists: Csr) -> Tensor:
        ctx.lists = lists
        return h.index_select(0, index)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _bag(grad, ctx.lists.entry, ctx.lists), None, None


class _SumAtTarget(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: Adjacency, messages: Tensor) -> Tensor:
        ctx.adj = adj
        return _arriving(adj, messages)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, grad.index_select(0, ctx.adj.target)


class _MaxAtTarget(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: Adjacency, messages: Tensor) -> Tensor:
        index = adj.target.view(-1, *(1 for _ in messages.shape[1:])).expand_as(messages)
        top = messages.new_zeros(adj.num_nodes, *messages.shape[1:])
        top.scatter_reduce_(0, index, messages, "amax", include_self=False)
        ctx.adj = adj
        ctx.save_for_backward(messages, top)
        return top

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        messages, top = ctx.saved_tensors
        attains = (messages == top.index_select(0, ctx.adj.target)).to(grad.dtype)
        grad_per_tie = grad / _arriving(ctx.adj, attains).clamp_(min=1)
        return None, attains.mul_(grad_per_tie.index_select(0, ctx.adj.target))


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: Adjacency, logits: Tensor) -> Tensor:
        index = adj.target.view(-1, *(1 for _ in logits.shape[1:])).expand_as(logits)
        top = logits.new_full((adj.num_nodes, *logits.shape[1:]), -torch.inf)
        top.scatter_reduce_(0, index, logits, "amax")
        exp = (logits - top.index_select(0, adj.target)).exp_()
        probabilities = exp.div_(_arriving(adj, exp).index_select(0, adj.target))
        ctx.adj = adj
        ctx.save_for_backward(probabilities)
        return probabilities

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (probabilities,) = ctx.saved_tensors
        weighted = grad * probabilities
        total = _arriving(ctx.adj, weighted).index_select(0, ctx.adj.target)
        return None, weighted.addcmul_(probabilities, total, value=-1)


class _ReluSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: Adjacency, h: Tensor, e: Tensor) -> Tensor:
        ctx.adj = adj
        ctx.save_for_backward(h, e)
        return _arriving(adj, h.index_select(0, adj.source).add_(e).relu_())

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, e = ctx.saved_tensors
        active = h.index_select(0, ctx.adj.source).add_(e)
        grad_e = torch.gt(active, 0, out=active).mul_(grad.index_select(0, ctx.adj.target))
        return None, _leaving(ctx.adj, grad_e), grad_e


class _GatedMean(torch.autograd.Function):
    """``out = T / (W + eps)``, ``T = sum w v``, ``W = sum w``: ``d out / d w = (v - out) / (W + eps)`` (README)."""

    @staticmethod
    def forward(
        ctx: Any,
        adj: Adjacency,
        target: Tensor,
        source: Tensor,
        edge: Tensor,
        value: Tensor,
        gate: Tensor | None,
        eps: float,
    ) -> tuple[Tensor, Tensor]:
        logit = target.new_empty(adj.num_edges, *target.shape[1:])
        weight, message = torch.empty_like(logit), torch.empty_like(logit)
        for block in _blocks(logit):
            sources = adj.source[block]
            of_block = torch.index_select(target, 0, adj.target[block], out=logit[block])
            of_block.add_(source.index_select(0, sources)).add_(edge[block])
            weights = torch.sigmoid(of_block, out=weight[block])
            if gate is not None:
                weights.mul_(gate[block])
            torch.mul(weights, value.index_select(0, sources), out=message[block])
        norm = _arriving(adj, weight).add_(eps)
        out = _arriving(adj, message).div_(norm)
        ctx.adj = adj
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(logit, value, gate, out, norm)
        return out, logit

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor | None, grad_logit: Tensor | None) -> tuple[Tensor | None, ...]:
        logit, value, gate, out, norm = ctx.saved_tensors
        adj: Adjacency = ctx.adj
        grad_value = grad_gate = None
        if grad is not None:
            weighted, change = torch.empty_like(logit), torch.empty_like(logit)
            grad_gate = None if gate is None else torch.empty_like(gate)
            arriving = grad / norm
            for block in _blocks(logit):
                targets, sigmoid = adj.target[block], torch.sigmoid(logit[block])
                of_weight = arriving.index_select(0, targets)
                torch.mul(of_weight, sigmoid, out=weighted[block])
                # d/d weight = arriving * (value - out)
                of_block = torch.index_select(value, 0, adj.source[block], out=change[block])
                of_weight = of_block.sub_(out.index_select(0, targets)).mul_(of_weight)
                if gate is not None and grad_gate is not None:
                    grad_gate[block] = (of_weight * sigmoid).sum(1, keepdim=True)
                    weighted[block].mul_(gate[block])
                    of_weight.mul_(gate[block])
                torch.ops.aten.sigmoid_backward(of_weight, sigmoid, grad_input=of_weight)
                if grad_logit is not None:
                    of_weight.add_(grad_logit[block])
            grad_value, grad_logit = _leaving(adj, weighted), change
        return *logit_gradients(adj, grad_logit)[:4], grad_value, grad_gate, None
