"""Abilities of modules that whoever runs them asks for."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.contract import HasAuxiliaryLoss, take_auxiliary_loss


class Penalised(nn.Linear, HasAuxiliaryLoss):
    def forward(self, x: Tensor) -> Tensor:
        self.auxiliary_loss = self.weight.square().sum() if self.training else None
        return super().forward(x)


def test_auxiliary_losses_are_added_and_taken_once() -> None:
    model = nn.Sequential(Penalised(3, 2), nn.ReLU(), Penalised(2, 1))
    assert take_auxiliary_loss(model.modules()) is None
    model(torch.ones(3))
    loss = take_auxiliary_loss(model.modules())
    expected = model[0].weight.square().sum() + model[2].weight.square().sum()
    torch.testing.assert_close(loss, expected)
    loss.backward()
    torch.testing.assert_close(model[2].weight.grad, 2 * model[2].weight.detach())
    assert take_auxiliary_loss(model.modules()) is None, "a module keeps no graph beyond its step"
    assert not any("auxiliary_loss" in name for name in model.state_dict())


def test_evaluation_leaves_none() -> None:
    model = Penalised(3, 2)
    model(torch.ones(3))
    model.eval()(torch.ones(3))
    assert take_auxiliary_loss(model.modules()) is None
