"""Cases of test_traces.py: captured steps of models with attention, whose kernels Triton interprets.

Triton decides at import whether it interprets, so these run in a process of their own with TRITON_INTERPRET=1. Where
there is a GPU they are CUDA graphs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ops.patched_once import language_patched_once
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
    "softmax": ("gnnbench/gps-zinc", WIDTH.format(32)),
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
        assert_replays_are_the_steps(name, tmp_path, *SMALL, *overrides.split())
