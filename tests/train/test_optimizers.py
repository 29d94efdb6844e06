"""The registered optimizers are PyTorch's, with GraphGPS's names."""

from __future__ import annotations

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


def test_every_optimizer_is_covered() -> None:
    assert set(names("train/optimizers")) == set(THEIRS)


@pytest.mark.parametrize("name", THEIRS)
def test_steps_are_those_of_pytorch(name: str) -> None:
    start = torch.randn(5)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    context = {"params": [ours], "lr": 0.1, "weight_decay": 0.2, "momentum": 0.7}
    pairs = [(construct(lookup("train/optimizers", name), context), ours), (THEIRS[name]([theirs]), theirs)]
    for optimizer, parameter in pairs:
        for _ in range(3):
            optimizer.zero_grad()
            (parameter**3).sum().backward()
            optimizer.step()
    assert torch.equal(ours, theirs)
    assert not torch.equal(ours, start)
