"""Optimisers without PyTorch's compiler: what they import, and that their hooks and states are PyTorch's."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from graphbench.registry import construct, lookup, names
from graphbench.train.eager_optimizer import eager
from tests.paths import ROOT

PROGRAM = """
import gc
gc.disable()
import sys, torch
from graphbench.registry import construct, lookup, names
for name in names("train/optimizers"):
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = construct(lookup("train/optimizers", name), {"params": [weight], "lr": 0.1, "momentum": 0.9})
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(2))]})
    weight.square().sum().backward()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
assert "torch._dynamo" not in sys.modules
"""


def test_no_method_imports_the_compiler() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, check=True)


@pytest.mark.parametrize("name", names("train/optimizers"))
def test_hooks_are_called_and_no_gradient_is_recorded(name: str) -> None:
    weight, calls = nn.Parameter(torch.ones(3)), []
    context = {"params": [weight], "lr": 0.1, "momentum": 0.9}
    optimizer = construct(lookup("train/optimizers", name), context)
    optimizer.register_step_post_hook(lambda *_: calls.append("step"))
    weight.square().sum().backward()
    optimizer.step()
    assert calls == ["step"]
    assert weight.is_leaf
    assert all(not value.requires_grad for value in optimizer.state[weight].values() if isinstance(value, torch.Tensor))


def test_a_class_whose_methods_are_not_wrapped_stays() -> None:
    class Plain(torch.optim.SGD):
        def zero_grad(self, set_to_none: bool = True) -> None:
            self.forgotten = True

    before = Plain.zero_grad
    assert eager(Plain).zero_grad is before
