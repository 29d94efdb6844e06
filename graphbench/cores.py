"""Processor cores of this process."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Cores that this process may use: those of its affinity where the system has one, else all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
