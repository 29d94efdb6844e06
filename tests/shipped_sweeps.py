"""The sweeps of the repository, read once for all tests."""

from __future__ import annotations

import functools

from graphbench.sweeps import read_sweep
from graphbench.sweeps.sweep import Sweep
from tests.paths import ROOT

SWEEPS = sorted((ROOT / "configs/sweeps").glob("*.yaml"))


@functools.cache
def shipped_sweep(name: str) -> Sweep:
    """By the stem of its file."""
    return read_sweep(ROOT / f"configs/sweeps/{name}.yaml")
