"""The recurrence of all graphs at once, by doubling; see the README."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from graphbench.ops.backend import compute_dtype
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order

# Numbers (rows times channels times states) that are handled at a time.
_BLOCK = 1 << 22


def selective_scan(x: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.selective_scan.selective_scan`."""
    if x.numel() == 0:
        return x * d
    wide = compute_dtype(x)
    with torch.autocast(x.device.type, enabled=False):
        x_, delta_, a_, b_, c_, d_ = (tensor.to(wide) for tensor in (x, delta, a, b, c, d))
        places = ragged.derived(_places)
        step = max(1, _BLOCK // max(1, x.shape[0] * a.shape[1]))

        def block(x_Nk: Tensor, delta_Nk: Tensor, a_kS: Tensor) -> Tensor:
            decay = torch.exp(delta_Nk.unsqueeze(2) * a_kS)
            start = (delta_Nk * x_Nk).unsqueeze(2) * b_.unsqueeze(1)
            state: Tensor = _Recurrence.apply(decay, start, *places, ragged.max_size)  # type: ignore[no-untyped-call]
            return (state * c_.unsqueeze(1)).sum(2)

        arguments = list(zip(x_.split(step, 1), delta_.split(step, 1), a_.split(step), strict=True))
        if len(arguments) == 1:
            blocks = [block(*arguments[0])]
        else:
            blocks = [checkpoint(block, *each, use_reentrant=False, preserve_rng_state=False) for each in arguments]
        return (torch.cat(blocks, dim=1) + d_ * x_).to(x.dtype)


class _Recurrence(torch.autograd.Function):
    """h_t = decay_t h_{t-1} + start_t in every graph, h = 0 before its first row."""

    @staticmethod
    def forward(ctx: Any, decay: Tensor, start: Tensor, before: Tensor, after: Tensor, longest: int) -> Tensor:
        state = _scan(decay, start, before, longest)
        ctx.save_for_backward(decay, state, before, after)
        ctx.longest = longest
        return state

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        decay, state, before, after = ctx.saved_tensors
        # g_t = grad_t + decay_{t+1} g_{t+1}: the same recurrence from the last row of a graph to its first.
        following = decay.roll(-1, 0)
        g = _scan(following.flip(0), grad.flip(0), after.flip(0), ctx.longest).flip(0)
        grad_decay = torch.where(before > 0, g * state.roll(1, 0), 0.0)
        return grad_decay, g, None, None, None


def _scan(decay: Tensor, start: Tensor, before: Tensor, longest: int) -> Tensor:
    """After round r, row t holds its sum over the last 2^r rows of its graph, and the product of their decays.

    Args:
        decay: (N, k, S).
        start: (N, k, S).
        before: (N, 1, 1) rows of the same graph before a row; nothing is read beyond them.
        longest: rows of the longest graph.
    """
    state, product, shift = start, decay, 1
    while shift < longest:
        reached = torch.addcmul(state[shift:], product[shift:], state[:-shift])
        state = torch.cat([state[:shift], torch.where(before[shift:] >= shift, reached, state[shift:])])
        product = torch.cat([product[:shift], product[shift:] * product[:-shift]])
        shift *= 2
    return state


def _places(ragged: Ragged) -> tuple[Tensor, Tensor]:
    """(N, 1, 1) rows of the same graph before and after every row."""
    before = torch.arange(ragged.num_rows, device=ragged.device) - ragged.ptr.index_select(0, ragged.graph_id)
    after = ragged.size_tensor.index_select(0, ragged.graph_id) - 1 - before
    return before.view(-1, 1, 1), after.view(-1, 1, 1)
