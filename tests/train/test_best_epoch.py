"""Which epoch is the best, and the copy of its model."""

from __future__ import annotations

import math

import pytest
import torch

from graphbench.train.best_epoch import BestEpoch, copy_state_dict, is_better


@pytest.mark.parametrize(
    ("value", "best", "maximize", "expected"),
    [
        (0.5, None, True, True),
        (math.nan, None, True, False),
        (math.nan, 0.5, False, False),
        (0.6, 0.5, True, True),
        (0.6, 0.5, False, False),
        (0.5, 0.5, True, False),
        (0.5, 0.5, False, False),
    ],
)
def test_the_first_of_equals_stays_and_nan_never_wins(
    value: float, best: float | None, maximize: bool, expected: bool
) -> None:
    known = None if best is None else BestEpoch(0, "accuracy", best, {}, {}, {})
    assert is_better(value, known, maximize) is expected


def test_a_state_is_copied_onto_an_older_copy_that_fits() -> None:
    state = {"weight": torch.randn(2, 3), "steps": torch.tensor(4)}
    first = copy_state_dict(state, None)
    state["weight"].add_(1)
    state["steps"].add_(1)
    assert not torch.equal(first["weight"], state["weight"])
    second = copy_state_dict(state, first)
    assert second["weight"] is first["weight"]
    torch.testing.assert_close(second, state, rtol=0, atol=0)
    wider = copy_state_dict({"weight": torch.zeros(3, 3), "steps": state["steps"]}, first)
    assert wider["weight"].shape == (3, 3)
