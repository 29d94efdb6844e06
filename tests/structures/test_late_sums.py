"""Gradients that a backward pass leaves in shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.structures.late_sums import Shares, defer, late_sums


def _add_up(shares: Sequence[Shares]) -> list[list[Tensor]]:
    return [[each.parts.sum(0).view_as(each.parameters[0])] for each in shares]


class _Times(torch.autograd.Function):
    """x * w, the gradient of w in one share per row of x."""

    was_left: list[bool]

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.weight = weight
        return x * weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        _Times.was_left.append(defer(grad * x, [ctx.weight], _add_up))
        return grad * weight, None if _Times.was_left[-1] else (grad * x).sum(0).to(weight.dtype)


@pytest.fixture(autouse=True)
def _nothing_was_left() -> None:
    _Times.was_left = []


def _loss(x: Tensor, *weights: Tensor) -> Tensor:
    for weight in weights:
        x = _Times.apply(x, weight)
    return x.sum()


def _fail_behind(loss: Tensor) -> None:
    with late_sums(loss):
        loss.backward()
        raise KeyError


def _ones() -> Tensor:
    return torch.ones(2, requires_grad=True)


X = torch.tensor([[1.0, 2.0], [3.0, 5.0]])


def test_gradients_are_complete_behind_it_and_added_to_those_of_before() -> None:
    first, second = _ones(), _ones()
    for times in (1, 2):
        loss = _loss(X, first, second)
        with late_sums(loss):
            loss.backward()
        assert _Times.was_left == [True] * 2 * times
        for weight in (first, second):
            assert weight.grad is not None
            assert weight.grad.tolist() == [4.0 * times, 7.0 * times]


def test_what_is_used_twice() -> None:
    weight = _ones()
    for times in (1, 2):
        loss = _loss(X, weight, weight, weight)
        with late_sums(loss):
            loss.backward()
        assert _Times.was_left == [True] * 3 * times
        assert weight.grad is not None
        assert weight.grad.tolist() == [12.0 * times, 21.0 * times]


def test_what_somebody_reads_before_is_added_up_at_once() -> None:
    watched, computed = _ones(), 1.0 * _ones()
    seen: list[list[float]] = []
    watched.register_post_accumulate_grad_hook(lambda x: seen.append(x.grad.tolist()))  # type: ignore[union-attr]
    loss = _loss(X, computed, watched)
    with late_sums(loss):
        loss.backward()
    assert _Times.was_left == [False, False]
    assert seen == [[4.0, 7.0]]


def test_another_type_than_that_of_the_shares_is_added_up_at_once() -> None:
    """Sums of half precision are taken in float32, and ``grad`` has the type of its parameter."""
    half, wide, single = (
        _ones().detach().bfloat16().requires_grad_(),
        _ones().detach().double().requires_grad_(),
        _ones(),
    )
    loss = _loss(X, single) + _loss(X, half) + _loss(X.double(), wide)
    with late_sums(loss):
        loss.backward()
    assert sorted(_Times.was_left) == [False, False, True]
    for weight in (half, wide, single):
        assert weight.grad is not None
        assert weight.grad.dtype == weight.dtype
        assert weight.grad.tolist() == [4.0, 7.0]


def test_nothing_is_left_outside_nor_after_an_error() -> None:
    weight = _ones()
    _loss(X, weight).backward()
    assert _Times.was_left == [False]
    with pytest.raises(KeyError):
        _fail_behind(_loss(X, weight))
    assert weight.grad is not None
    assert weight.grad.tolist() == [4.0, 7.0]
    _loss(X, weight).backward()
    assert _Times.was_left == [False, True, False]
