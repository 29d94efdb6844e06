"""Backward passes that fail: what is found where no plug-in is at work (with one: ``tests/test_plug_ins.py``)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench import plug_ins
from graphbench.train.backward_failure import Detached, failure


def spoiled() -> Tensor:
    h = torch.ones(3, requires_grad=True).exp()
    h += 1
    return h.sum()


def refuses() -> Tensor:
    raise ValueError("not again")


@pytest.mark.parametrize(
    ("forward", "error"),
    [
        (spoiled, RuntimeError("one of the variables has been modified by an inplace operation")),
        (lambda: spoiled().detach(), Detached()),
        (spoiled, RuntimeError("anything else")),
        (refuses, Detached()),
    ],
)
def test_nobody_else_is_blamed_for_code_of_ours(forward: Callable[[], Tensor], error: RuntimeError) -> None:
    assert failure(error, forward) is None


def test_the_forward_pass_is_not_done_again_for_what_has_nothing_to_do_with_it() -> None:
    """Memory that is exhausted, say, would be so once more."""
    done: list[int] = []
    assert failure(RuntimeError("out of memory"), lambda: done.append(1)) is None
    assert not done


def test_a_change_before_a_tensor_is_needed_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two changes in place only the one behind the function that keeps the tensor is named."""

    def forward() -> Tensor:
        h = torch.ones(3, requires_grad=True) * 2
        h.add_(1)
        g = h.exp()
        g.mul_(2)
        return g.sum()

    monkeypatch.setattr(plug_ins, "calling_place", lambda: "hers.py:1: in forward")
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        forward().backward()
    assert str(failure(caught.value, forward)).startswith("hers.py:1: in forward: mul_: changes a tensor in place")
