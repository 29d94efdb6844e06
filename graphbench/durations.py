"""Durations as text."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """``0:07``, ``12:30`` or ``1:05:00``."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
