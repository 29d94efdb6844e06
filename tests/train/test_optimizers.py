"""The registered optimizers are PyTorch's, with GraphGPS's names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from graphbench.registry import construct, lookup, names

THEIRS = {
    "adam": lambda params: torch.optim.Adam(params, lr=0.1, weight_decay=0.2, fused=True),
    "adamW": lambda params: torch.optim.AdamW(params, lr=0.1, weight_decay=0.2, fused=True),
    "adagrad": lambda params: torch.optim.Adagrad(params, lr=0.1, weight_decay=0.2),
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1, weight_decay=0.2, momentum=0.7, fused=True),
}


def optimizer_of(name: str, params: list[nn.Parameter]) -> Any:
    context = {"params": params, "lr": 0.1, "weight_decay": 0.2, "momentum": 0.7}
    return construct(lookup("train/optimizers", name), context)


def test_every_optimizer_is_covered() -> None:
    assert set(names("train/optimizers")) == set(THEIRS)


@pytest.mark.parametrize("name", THEIRS)
def test_steps_are_those_of_pytorch(name: str) -> None:
    start = torch.randn(5)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    pairs = [(optimizer_of(name, [ours]), ours), (THEIRS[name]([theirs]), theirs)]
    for optimizer, parameter in pairs:
        for _ in range(3):
            optimizer.zero_grad()
            (parameter**3).sum().backward()
            optimizer.step()
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, start)


@pytest.mark.parametrize("name", ["adam", "adamW"])
def test_states_are_those_of_pytorch(name: str) -> None:
    """A run goes on from states of PyTorch's optimiser, and that one from ours."""
    parameter = nn.Parameter(torch.randn(5))
    ours, theirs = optimizer_of(name, [parameter]), THEIRS[name]([parameter])
    for optimizer, other in ((ours, theirs), (theirs, ours)):
        (parameter**3).sum().backward()
        optimizer.step()
        other.load_state_dict(optimizer.state_dict())
    (found,), (expected,) = ours.state.values(), theirs.state.values()
    assert list(found) == list(expected) == ["step", "exp_avg", "exp_avg_sq"]
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert ours.state_dict()["param_groups"][0].keys() == theirs.state_dict()["param_groups"][0].keys()


@pytest.mark.parametrize("name", ["adam", "adamW"])
def test_infinite_gradients_of_a_scaler_change_nothing_and_are_no_step(name: str) -> None:
    parameter = nn.Parameter(torch.ones(5))
    optimizer = optimizer_of(name, [parameter])
    parameter.grad = torch.full((5,), torch.inf)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(2.0), torch.tensor(1.0)
    optimizer.step()
    assert torch.equal(parameter, torch.ones(5))
    assert optimizer.state[parameter]["step"] == 0


@pytest.mark.parametrize("key", ["amsgrad", "maximize"])
def test_variants_of_a_loaded_state_are_pytorchs(key: str) -> None:
    start = torch.randn(5)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    pairs = [(optimizer_of("adam", [ours]), ours), (THEIRS["adam"]([theirs]), theirs)]
    for optimizer, parameter in pairs:
        optimizer.param_groups[0][key] = True
        for scale in (1.0, 0.1):
            parameter.grad = scale * torch.ones(5)
            optimizer.step()
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["adam", "adamW"])
def test_a_closure_has_gradients_and_parameters_without_are_left_alone(name: str) -> None:
    moved, still = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimizer = optimizer_of(name, [moved, still])

    def closure() -> float:
        loss = (moved**2).sum()
        loss.backward()
        return float(loss.detach())

    assert optimizer.step(closure) == 2.0
    assert (moved < 1).all()
    assert torch.equal(still, torch.ones(2))
    assert still not in optimizer.state
