"""Partial sums of weight gradients (split-K), of a whole backward pass, added up by one kernel at its end.

The gradients of a linear map of many rows are computed in shares of them, which a second kernel adds up. No other part
of the backward pass reads that sum, but on a GPU the next map waits for it; in a step of GPS on ZINC there are sixty.
Within :func:`late_sums` operators leave their shares, and ``grad`` of their parameters is set when it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from graphbench.structures.side_stream import join_all


@dataclass(frozen=True)
class Shares:
    """Summands of the gradients of some parameters.

    Attributes:
        parts: (shares, numbers), the parameters one behind the other in every share.
        parameters: leaves of the graph.
    """

    parts: Tensor
    parameters: Sequence[Tensor]


AddUp = Callable[[Sequence[Shares]], list[list[Tensor]]]
"""Gradients of the parameters of every :class:`Shares`."""


class LateSums:
    """The shares that a backward pass has left, all to be added up by the same function."""

    def __init__(self) -> None:
        self._left: list[Shares] = []
        self._add_up: AddUp | None = None
        self._pass: int | None = None

    def begin(self, *_: object) -> None:
        """Begins a pass at the root of the graph: passes inside of this one, as an operator may do, leave nothing."""
        self._pass = torch._C._current_graph_task_id()

    def leave(self, shares: Shares, add_up: AddUp) -> None:
        """Leaves shares for the end of the backward pass."""
        self._left.append(shares)
        self._add_up = add_up

    def may_wait(self, parts: Tensor, parameters: Sequence[Tensor]) -> bool:
        """Whether nobody reads these gradients before the end, and they are of the type of all that is added up."""
        alike = {parts.dtype, *(each.parts.dtype for each in self._left[:1]), *(each.dtype for each in parameters)}
        return (
            self._pass == torch._C._current_graph_task_id()
            and len(alike) == 1
            and all(
                each.is_leaf
                and each.requires_grad
                and not each._backward_hooks
                and not each._post_accumulate_grad_hooks
                for each in parameters
            )
        )

    @torch.no_grad()
    def finish(self) -> None:
        """Sets the gradients, or adds them to those that are there."""
        if self._add_up is None:
            return
        before: dict[int, Tensor] = {}
        further: list[Tensor] = []
        for shares, gradients in zip(self._left, self._add_up(self._left), strict=True):
            for parameter, gradient in zip(shares.parameters, gradients, strict=True):
                if parameter.grad is None:
                    parameter.grad = gradient
                elif id(parameter) in before:
                    parameter.grad.add_(gradient)
                else:
                    before[id(parameter)] = parameter.grad
                    further.append(gradient)
        if before:
            torch._foreach_add_(list(before.values()), further)


# No ContextVar: the backward pass of a GPU runs in a thread of autograd's, which does not see those of its caller.
_open: LateSums | None = None


@contextmanager
def late_sums(root: Tensor) -> Iterator[None]:
    """Inside, ``root.backward()`` may leave its sums over shares for the end: ``grad`` is complete behind it.

    Not for :func:`torch.autograd.grad`, which would find no gradient. Parameters with hooks are added up at once.
    """
    global _open
    assert root.grad_fn is not None
    before, _open = _open, LateSums()
    hook = root.grad_fn.register_prehook(_open.begin)
    try:
        yield
        join_all()
        _open.finish()
    finally:
        hook.remove()
        _open = before


def defer(parts: Tensor, parameters: Sequence[Tensor], add_up: AddUp) -> bool:
    """Leaves the shares (shares, numbers) of these gradients to ``add_up`` at the end; False where they cannot wait."""
    if _open is None or not parameters or not _open.may_wait(parts, parameters):
        return False
    _open.leave(Shares(parts, parameters), add_up)
    return True
