"""No step launches more kernels, copies more or waits more often than its budget says; tests/launches.py counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.launches import BUDGETS, CONFIGURATIONS, count, counting
from tests.second_device import DEVICE, GPU

pytest.importorskip("triton", reason="the launches of Triton kernels are counted (pip install 'graphbench-gt[test]')")
if GPU:
    pytest.skip("counted on the device in Python, whose place a GPU takes", allow_module_level=True)


LONG = ("lrgb/gps-peptides-func", "lrgb/sfi-peptides-func", "gnnbench/geco-zinc")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in CONFIGURATIONS]
)
def test_within_the_budget(name: str, tmp_path: Path) -> None:
    budget, counted = json.loads(BUDGETS.read_text())[name], count(name, tmp_path).totals()
    assert list(counted) == list(budget)
    over = {phase: (numbers, budget[phase]) for phase, numbers in counted.items() if _exceeds(numbers, budget[phase])}
    assert not over, f"[launches, copies, waits] and budget of {over}; see python -m scripts.launches {name} --kernels"


def _exceeds(numbers: list[int], budget: list[int]) -> bool:
    return any(number > allowed for number, allowed in zip(numbers, budget, strict=True))


def test_what_is_counted() -> None:
    with counting() as ledger:
        with ledger.phase("copy"):
            x = torch.arange(6.0).view(2, 3).to(DEVICE, non_blocking=True)
        with ledger.phase("copy that waits"):
            x.new_empty(6).copy_(torch.arange(6.0))
        with ledger.phase("view"):
            row = x.t()[0]
        with ledger.phase("sum"):
            row = row + row.sum()
        with ledger.phase("wait"):
            row.sum().item()
    assert ledger.totals() == {
        "copy": [0, 1, 0],
        "copy that waits": [0, 1, 1],
        "view": [0, 0, 0],
        "sum": [2, 0, 0],
        "wait": [1, 0, 1],
    }
