"""The sweeps of the repository, each read once: several pages are written from them, and one takes a second."""

from __future__ import annotations

import functools
from pathlib import Path

from graphbench.sweeps import read_sweep
from graphbench.sweeps.sweep import Sweep

SWEEPS = Path(__file__).resolve().parent.parent / "configs" / "sweeps"


@functools.cache
def shipped_sweep(name: str) -> Sweep:
    """By the stem of its file."""
    return read_sweep(SWEEPS / f"{name}.yaml")
