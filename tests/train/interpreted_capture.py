"""Cases of test_traces.py: captured steps of models with attention, whose kernels Triton interprets.

Triton decides at import whether it interprets, so these run in a process of their own with TRITON_INTERPRET=1. Where
there is a GPU they are CUDA graphs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.second_device import GPU, second_device
from tests.train.capture_case import training
from tests.train.step_tape import on_second_device
from tests.train.test_captured_step import assert_replays_are_the_steps, equal_traces

# On tiles of a graph without rows; nothing of them is stored.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

SMALL = ("optim.optimizer", "sgd")
REPLAYED = {
    "softmax": ("quickstart-gps", ()),
    "flow": ("gnnbench/sfi-cluster", ()),
    "decay": ("gnnbench/gradformer-zinc", ()),
    "focal and relations": ("gnnbench/grpe-ffgt-zinc", ()),
    "expander": ("gnnbench/exphormer-cluster", ()),
}


@pytest.mark.parametrize("case", REPLAYED)
def test_replays_are_the_steps(case: str, tmp_path: Path) -> None:
    name, overrides = REPLAYED[case]
    with on_second_device():
        assert_replays_are_the_steps(name, tmp_path, *SMALL, *overrides)


@pytest.mark.skipif(GPU, reason="only the tape has a trace")
@pytest.mark.parametrize("case", REPLAYED)
def test_equal_traces(case: str, tmp_path: Path) -> None:
    name, overrides = REPLAYED[case]
    with second_device(), on_second_device():
        equal_traces(training(name, tmp_path, *SMALL, *overrides, dropout=True))
