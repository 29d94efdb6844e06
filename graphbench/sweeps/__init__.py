"""Sweeps: many configurations, their runs over seeds and splits, and what starts them."""

from graphbench.sweeps.sweep import Entry, Sweep, read_sweep

__all__ = ["Entry", "Sweep", "read_sweep"]
