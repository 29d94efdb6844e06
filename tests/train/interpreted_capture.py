"""Cases of test_traces.py: captured steps of models with attention, whose kernels Triton interprets.

Triton decides at import whether it interprets, so these run in a process of their own with TRITON_INTERPRET=1. Where
there is a GPU they are CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from graphbench.train.device_rates import DeviceRates
from graphbench.train.gradient_clipping import clipped_gradients
from graphbench.train.optimizers.adam import Adam, AdamW
from tests.ops.patched_once import language_patched_once
from tests.second_device import DEVICE, second_device
from tests.train.capture_case import step_graphs
from tests.train.step_tape import on_second_device
from tests.train.test_captured_step import assert_replays_are_the_steps

__all__ = ["language_patched_once"]  # a fixture

# On tiles of a graph without rows; nothing of them is stored.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero encountered:RuntimeWarning"),
]

SMALL = ("optim.optimizer", "sgd", "gt.n_heads", "2")
WIDTH = "gt.dim_hidden {0} gnn.dim_inner {0}"
REPLAYED = {
    "softmax": ("gnnbench/gps-zinc", f"{WIDTH.format(16)} posenc_RWSE.dim_pe 4"),
    "flow": ("gnnbench/sfi-cluster", WIDTH.format(24)),
    "decay": ("gnnbench/gradformer-zinc", WIDTH.format(32)),
    "convolution": ("gnnbench/geco-zinc", WIDTH.format(32)),
    "relations": ("gnnbench/vanilla-zinc", f"{WIDTH.format(16)} dataset.node_encoder_name TypeDictNode+GraphToken"),
}
CASES = [pytest.param(case, marks=() if case == "softmax" else pytest.mark.exhaustive) for case in REPLAYED]


@pytest.mark.parametrize("case", CASES)
def test_replays_are_the_steps(case: str, tmp_path: Path) -> None:
    name, overrides = REPLAYED[case]
    with on_second_device():
        assert_replays_are_the_steps(name, tmp_path, *SMALL, *overrides.split(), epochs=1)


@pytest.mark.parametrize("optimizer", [Adam, AdamW])
def test_a_recorded_update_is_the_update_bit_for_bit(optimizer: type[Adam | AdamW]) -> None:
    """With clipping, two groups, and a learning rate that changes."""
    with second_device(), on_second_device():
        ours, theirs = (_Updated(optimizer) for _ in range(2))
        theirs.step()
        ours.step()  # its states are there before it is recorded, as those of a warmed-up step
        rates, graph = DeviceRates(ours.optimizer, DEVICE), step_graphs().new()
        with rates.in_use():
            graph.capture(ours.step)
        for mine, original in zip(ours.tensors(), theirs.tensors(), strict=True):
            mine.copy_(original)
        for rate in (0.01, 0.003):
            ours.optimizer.param_groups[0]["lr"] = theirs.optimizer.param_groups[0]["lr"] = rate
            rates.refresh()
            graph.replay()
            theirs.step()
        assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(ours.tensors(), theirs.tensors(), strict=True))
        assert all(state["step"] == 3 for state in ours.optimizer.state.values())


class _Updated:
    """Parameters with gradients, and their optimiser."""

    def __init__(self, optimizer: type[Adam | AdamW]) -> None:
        draw = torch.Generator().manual_seed(0)
        values = [torch.randn(shape, generator=draw) for shape in ((30, 40), (7,), (), (5, 3))]
        self.parameters = [nn.Parameter(value.to(DEVICE)) for value in values]
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.grad = value.square().to(DEVICE)
        groups = [{"params": self.parameters[:2]}, {"params": self.parameters[2:], "lr": 0.1, "weight_decay": 0.0}]
        self.optimizer = optimizer(groups, 0.01, 0.1)

    def step(self) -> None:
        with clipped_gradients(self.optimizer, 1.0):
            self.optimizer.step()

    def tensors(self) -> Iterator[Tensor]:
        """All that a step changes."""
        for parameter in self.parameters:
            assert parameter.grad is not None
            yield from (parameter.detach(), parameter.grad, *self.optimizer.state[parameter].values())
