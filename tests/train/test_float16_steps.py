"""Steps of float16 losses whose gradients are not finite, or that are broken off."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphbench.train.optimizers.adam import Adam, AdamW
from graphbench.train.optimizers.sgd import SGD
from graphbench.train.precision import Precision

CPU = torch.device("cpu")
TOO_LARGE = 1e36
"""Times the first scale no number of float32."""


def _step(precision: Precision, optimizer: torch.optim.Optimizer, parameter: nn.Parameter, factor: float) -> None:
    optimizer.zero_grad()
    precision.scaled((parameter * factor).sum()).backward()
    precision.step(optimizer)


@pytest.mark.parametrize("optimizer_class", [SGD, Adam, AdamW])
def test_a_first_step_that_overflows_leaves_nothing(optimizer_class: type[torch.optim.Optimizer]) -> None:
    trained = []
    for factors in ((TOO_LARGE, 1.0, 2.0), (1.0, 2.0)):
        parameter = nn.Parameter(torch.zeros(4096))
        optimizer = optimizer_class([parameter], lr=0.1)  # type: ignore[call-arg]
        precision = Precision("16-mixed", CPU)
        for factor in factors:
            unwritten = [torch.full((4096,), 7.0) for _ in range(50)]
            del unwritten  # what freed activations leave in memory
            _step(precision, optimizer, parameter, factor)
        trained.append(parameter.detach())
    assert bool(trained[0].any())
    torch.testing.assert_close(*trained)


def test_a_state_that_is_put_back_forgets_a_step_that_was_broken_off() -> None:
    parameter = nn.Parameter(torch.zeros(3))
    optimizer, precision = SGD([parameter], lr=1.0, momentum=0.0), Precision("16-mixed", CPU)
    before = precision.state_dict()
    precision.scaled(parameter.sum()).backward()
    precision.unscale(optimizer)
    precision.load_state_dict(before)
    optimizer.zero_grad()
    precision.scaled(parameter.sum()).backward()
    precision.unscale(optimizer)
    precision.step(optimizer)
    torch.testing.assert_close(parameter.detach(), torch.full((3,), -1.0))
