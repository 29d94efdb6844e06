"""JSON that every reader accepts."""

from __future__ import annotations

import json
import math

import pytest

from graphbench.runs.json_text import dumps


def no_constant(name: str) -> None:
    pytest.fail(f"{name} is not JSON")


@pytest.mark.parametrize("indent", [None, 2])
def test_what_is_not_finite_is_null(indent: int | None) -> None:
    value = {"a": math.nan, "b": [1.5, (math.inf, -math.inf, 0)], 3: {"c": "NaN"}, "d": 2**70}
    text = dumps(value, indent)
    assert json.loads(text, parse_constant=no_constant) == {
        "a": None,
        "b": [1.5, [None, None, 0]],
        "3": {"c": "NaN"},
        "d": 2**70,
    }
