"""Training and evaluation mode, set as PyTorch sets it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from graphbench.train.mode import set_mode


class Frozen(nn.BatchNorm1d):
    """In evaluation for ever."""

    def train(self, mode: bool = True) -> Frozen:
        return super().train(False)


class Counts(nn.Linear):
    """How often it was sent into evaluation."""

    evaluations = 0

    def eval(self) -> Any:
        self.evaluations += 1
        return super().eval()


def patched() -> nn.Module:
    """A module of which one object has a ``train`` of its own."""
    module = nn.Linear(2, 2)
    module.train = lambda mode=True: nn.Linear.train(module, False)  # type: ignore[method-assign]
    return module


@pytest.mark.parametrize("last", [nn.Dropout, lambda: Frozen(2), lambda: Counts(2, 2), patched])
def test_as_pytorch_does(last: Any) -> None:
    ours, theirs = (nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)), last()) for _ in range(2))
    for training in (False, True, True, False):
        set_mode(ours, training)
        theirs.train() if training else theirs.eval()
        assert [each.training for each in ours.modules()] == [each.training for each in theirs.modules()]
    assert getattr(ours[2], "evaluations", 0) == getattr(theirs[2], "evaluations", 0)


def test_compiled_modules_are_asked() -> None:
    model = nn.Sequential(torch.compile(nn.Linear(2, 2), backend="eager"), nn.Dropout())
    for training in (False, True):
        set_mode(model, training)
        assert all(each.training is training for each in model.modules())
