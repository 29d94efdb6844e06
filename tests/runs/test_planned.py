"""Runs that a configuration stands for."""

from __future__ import annotations

import pytest

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.runs.planned import MOST_RUNS, Run, planned_runs


def test_one_run_per_seed():
    config = load_config({"seed": 7, "dataset": {"split_index": 2}}, name="x")
    assert planned_runs(config, 2) == [Run(7, 7, 2), Run(8, 8, 2)]


def test_one_run_per_split():
    config = load_config({"seed": 7, "run_multiple_splits": [0, 3]}, name="x")
    assert planned_runs(config, 1) == [Run(0, 7, 0), Run(3, 7, 3)]
    with pytest.raises(UserError, match="run_multiple_splits and --repeat 2 exclude each other"):
        planned_runs(config, 2)


@pytest.mark.parametrize("repeat", [0, MOST_RUNS + 1])
def test_refuses_too_few_and_too_many(repeat):
    with pytest.raises(UserError, match=f"at least 1 and at most 10,000, received {repeat:,}"):
        planned_runs(load_config({"seed": 1}, name="x"), repeat)
