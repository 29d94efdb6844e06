"""Message passing of GINE and GatedGCN in Triton kernels: one forward, one or two backward, no atomics (README)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import constants_of, has_kernels, loadable, unit_stride, wide_of
from graphbench.ops.propagate import cpu, gpu_kernels
from graphbench.structures.adjacency import Adjacency, Csr, LoopedAdjacency
from graphbench.structures.first_order import first_order

# Nodes and channels of a tile.
ROWS, COLUMNS = 16, 64


def propagate(adj: Adjacency, h: Tensor) -> Tensor:
    """See :func:`graphbench.ops.propagate.propagate`; adjacencies that have their lists go through torch code."""
    if not isinstance(adj, LoopedAdjacency) or not h.numel() or not _reaches("propagate", adj.plain, h.flatten(1)):
        return cpu.propagate(adj, h)
    plain = adj.plain
    roots = adj.inverse_root_degrees(_inverse_roots, wide_of(h.dtype))
    out: Tensor = _WithLoops.apply(plain, unit_stride(h.flatten(1)), roots)  # type: ignore[no-untyped-call]
    return out.view(h.shape)


def relu_sum(adj: Adjacency, h: Tensor, e: Tensor, eps: Tensor | None) -> tuple[Tensor, Tensor]:
    """See :func:`graphbench.ops.propagate.relu_sum`; lists of edges cut into pieces go through torch code.

    An ``eps`` that is learned is applied behind the kernel, which does not differentiate it.
    """
    if not _reaches("relu_sum", adj, h, e):
        return cpu.relu_sum(adj, h, e, eps)
    fixed = None if eps is None or eps.requires_grad else eps
    out, e = _ReluSum.apply(adj, unit_stride(h), unit_stride(e), fixed)  # type: ignore[no-untyped-call]
    return (out if fixed is eps or eps is None else torch.addcmul(out, h, 1 + eps)), e


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
    """See :func:`graphbench.ops.propagate.gated_mean`; further gates and lists cut into pieces take torch code."""
    nodes = [target, source, value, *([] if own is None else [own])]
    if gate is not None or not _reaches("gated_mean", adj, edge, *nodes):
        return cpu.gated_mean(adj, target, source, edge, value, own, gate, eps)
    parts = [unit_stride(x) for x in (nodes if packed is None else [packed])]
    return _GatedMean.apply(adj, eps, unit_stride(edge), *parts)  # type: ignore[no-untyped-call]


def _reaches(operator: str, adj: Adjacency, *inputs: Tensor) -> bool:
    alike = len({(x.dtype, x.shape[1:]) for x in inputs}) == 1 and inputs[0].dim() == 2
    whole = adj.by_target.pieces is None and adj.by_source.pieces is None
    return has_kernels(operator, inputs[0]) and alike and whole and inputs[0].numel() > 0


def constants(width: int, dtype: torch.dtype) -> dict[str, Any]:
    """Constants that are known when a kernel is compiled."""
    return constants_of(width, dtype, ROWS, COLUMNS)


def _launch(kernel: Any, adj: Adjacency, width: int, like: Tensor, *arguments: Any, **flags: Any) -> None:
    known = constants(width, like.dtype) | flags
    grid = (-(-adj.num_nodes // ROWS), -(-width // known["SPAN"]))
    with torch.cuda.device_of(like):
        kernel[grid](*arguments, **known)


def _lists(lists: Csr) -> tuple[Tensor, Tensor, Tensor]:
    return lists.ptr, lists.entry, lists.other


def _inverse_roots(plain: Adjacency, dtype: torch.dtype) -> Tensor:
    """(N,) 1 / sqrt(1 + edges from other nodes)."""
    roots = torch.empty(plain.num_nodes, dtype=dtype, device=plain.by_target.ptr.device)
    _launch(gpu_kernels.inverse_roots, plain, 1, roots, *_lists(plain.by_target), roots, plain.num_nodes)
    return roots


class _WithLoops(torch.autograd.Function):
    """The transposed matrix has the same form."""

    @staticmethod
    def forward(ctx: Any, plain: Adjacency, h: Tensor, roots: Tensor) -> Tensor:
        ctx.plain, ctx.roots = plain, roots
        return _with_loops(plain, plain.by_target, h, roots)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, _with_loops(ctx.plain, ctx.plain.by_source, unit_stride(grad), ctx.roots), None


def _with_loops(plain: Adjacency, lists: Csr, h: Tensor, roots: Tensor) -> Tensor:
    out, wide = h.new_empty(h.shape), loadable(h, wide_of(h.dtype))
    numbers = (plain.num_nodes, wide.stride(0))
    _launch(gpu_kernels.sum_with_loops, plain, h.shape[1], wide, wide, roots, *_lists(lists), out, *numbers)
    return out


class _ReluSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, adj: Adjacency, h: Tensor, e: Tensor, eps: Tensor | None) -> tuple[Tensor, Tensor]:
        out, own, numbers = h.new_empty(h.shape), h if eps is None else eps, (adj.num_nodes, h.stride(0), e.stride(0))
        _launch(
            gpu_kernels.relu_sum, adj, h.shape[1], h, h, e, own, *_lists(adj.by_target), out, *numbers,
            OWN=eps is not None,
        )  # fmt: skip
        ctx.adj = adj
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(h, e, eps)
        return out, e.view_as(e)

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor | None, of_edges: Tensor | None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, of_edges, None
        h, e, eps = ctx.saved_tensors
        adj, grad, dh, de = ctx.adj, unit_stride(grad), h.new_empty(h.shape), e.new_empty(e.shape)
        plus = e if of_edges is None else unit_stride(of_edges)
        _launch(
            gpu_kernels.relu_sum_backward, adj, h.shape[1], h, h, e, h if eps is None else eps, grad, plus,
            *_lists(adj.by_source), dh, de, adj.num_nodes, h.stride(0), e.stride(0), grad.stride(0), plus.stride(0),
            OWN=eps is not None, EDGES=of_edges is not None,
        )  # fmt: skip
        return None, dh, de, None


class _GatedMean(torch.autograd.Function):
    """Saves values and logits, the means and the sums of gates. What nodes contribute is several tensors or one."""

    @staticmethod
    def forward(ctx: Any, adj: Adjacency, eps: float, edge: Tensor, *parts: Tensor) -> tuple[Tensor, Tensor]:
        packed = len(parts) == 1
        target, source, value, *owns = parts[0].unbind(1) if packed else parts
        wide, logit = wide_of(target.dtype), edge.new_empty(edge.shape)
        mean, norm = (target.new_empty(target.shape, dtype=wide) for _ in range(2))
        # Half precision rounds the output, not what gradients are differences from.
        apart = bool(owns) or target.dtype != wide
        out, own = target.new_empty(target.shape) if apart else mean, owns[0] if owns else target
        inputs = (target, source, edge, value, own)
        _launch(
            gpu_kernels.gated_mean, adj, target.shape[1], target, *inputs, *_lists(adj.by_target), out, mean, logit,
            norm, adj.num_nodes, *(x.stride(0) for x in inputs), OWN=bool(owns), APART=apart, EPS=eps,
        )  # fmt: skip
        ctx.adj, ctx.packed, ctx.number = adj, packed, 3 + len(owns)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(value, mean, logit, norm)
        return out, logit

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor | None, grad_logit: Tensor | None) -> tuple[Tensor | None, ...]:
        value, mean, logit, norm = ctx.saved_tensors
        adj, width = ctx.adj, mean.shape[1]
        if grad is None:
            return _without_means(ctx, grad_logit)
        grad, has_own = unit_stride(grad), grad_logit is not None
        own = logit if grad_logit is None else unit_stride(grad_logit)
        dnodes = value.new_empty(len(mean), ctx.number, width) if ctx.packed else None
        dtarget, dsource, dvalue, *downs = (
            [value.new_empty(mean.shape) for _ in range(3)] if dnodes is None else dnodes.unbind(1)
        )
        dedge, s_parts = logit.new_empty(logit.shape), dtarget.stride(0)
        _launch(
            gpu_kernels.gated_mean_at_target, adj, width, mean, value, mean, logit, norm, grad, own,
            *_lists(adj.by_target), dtarget, *(downs or [dtarget]), dedge, adj.num_nodes, value.stride(0),
            grad.stride(0), own.stride(0), s_parts, OWN=bool(downs), EDGES=has_own,
        )  # fmt: skip
        _launch(
            gpu_kernels.gated_mean_at_source, adj, width, mean, logit, norm, grad, dedge, *_lists(adj.by_source),
            dsource, dvalue, adj.num_nodes, grad.stride(0), s_parts,
        )  # fmt: skip
        of_nodes = (dtarget, dsource, dvalue, grad)[: ctx.number] if dnodes is None else (dnodes,)
        return None, None, dedge, *of_nodes


def _without_means(ctx: Any, grad_logit: Tensor | None) -> tuple[Tensor | None, ...]:
    """Gradients of :class:`_GatedMean` where logits alone have one."""
    _, dtarget, dsource, dedge, *_ = cpu.logit_gradients(ctx.adj, grad_logit)
    if not ctx.packed:
        return None, None, dedge, dtarget, dsource, *[None] * (ctx.number - 2)
    if dtarget is None or dsource is None:
        return (None,) * 4
    nothing = torch.zeros_like(dtarget)
    return None, None, dedge, torch.stack([dtarget, dsource, *[nothing] * (ctx.number - 2)], dim=1)
