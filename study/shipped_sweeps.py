"""The sweeps of the repository, each read once: pages are written from them, and tests read them."""

from __future__ import annotations

import functools

from graphbench import shipped
from graphbench.sweeps import read_sweep
from graphbench.sweeps.sweep import Sweep

SWEEPS = shipped.sweeps()


@functools.cache
def shipped_sweep(name: str) -> Sweep:
    """By the stem of its file."""
    return read_sweep(shipped.root() / "configs" / "sweeps" / f"{name}.yaml")
