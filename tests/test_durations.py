"""Durations as text."""

from __future__ import annotations

import pytest

from graphbench.durations import clock


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00"), (59.6, "1:00"), (750, "12:30"), (3900, "1:05:00")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
