"""Layer normalisation of every graph in Triton kernels: one forward, one and a sum backward (README)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import constants_of, has_kernels, span_of, wide_of
from graphbench.ops.gpu_shares import summed
from graphbench.ops.graph_layer_norm import cpu
from graphbench.ops.graph_layer_norm.gpu_kernels import graph_layer_norm_backward, graph_layer_norm_forward
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order

# A graph is one program: larger ones would leave most of a GPU idle, wider rows would not fit into registers.
LARGEST, WIDEST = 4096, 1024
# Entries of a tile.
ENTRIES = 4096


def graph_layer_norm(h: Tensor, weight: Tensor, bias: Tensor, ragged: Ragged, eps: float) -> Tensor:
    """See :func:`graphbench.ops.graph_layer_norm.graph_layer_norm`; large graphs and wide rows take torch code."""
    capable = has_kernels("graph_layer_norm", h)
    if not capable or not h.numel() or ragged.max_size > LARGEST or h.shape[1] > WIDEST:
        return cpu.graph_layer_norm(h, weight, bias, ragged, eps)
    inputs = (x.contiguous() for x in (h, weight, bias))
    return _GraphLayerNorm.apply(*inputs, ragged, eps)  # type: ignore[no-untyped-call]


def constants(width: int, dtype: torch.dtype) -> dict[str, Any]:
    """Constants that are known when a kernel is compiled."""
    return constants_of(width, dtype, max(1, ENTRIES // span_of(width)), warps=8)


class _GraphLayerNorm(torch.autograd.Function):
    """Saves its input and two numbers per graph."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, ragged: Ragged, eps: float) -> Tensor:
        out = torch.empty_like(h)
        statistics = h.new_empty(ragged.num_graphs, 2, dtype=wide_of(h.dtype))
        with torch.cuda.device_of(h):
            graph_layer_norm_forward[(ragged.num_graphs,)](
                h, weight, bias, ragged.ptr, out, statistics, EPS=eps, **constants(h.shape[1], h.dtype)
            )
        ctx.save_for_backward(h, weight, statistics)
        ctx.ragged, ctx.parameters = ragged, (weight, bias)
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, statistics = ctx.saved_tensors
        ragged, grad, dh = ctx.ragged, grad.contiguous(), torch.empty_like(h)
        # Of the weight and of the bias, a part per graph.
        parts = statistics.new_empty(ragged.num_graphs, 2, h.shape[1])
        with torch.cuda.device_of(h):
            graph_layer_norm_backward[(ragged.num_graphs,)](
                h, weight, ragged.ptr, statistics, grad, dh, parts, **constants(h.shape[1], h.dtype)
            )
        return dh, *summed(parts.flatten(1), ctx.parameters), None, None
