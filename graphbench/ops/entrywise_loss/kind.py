"""Losses of one entry."""

from __future__ import annotations

from typing import Literal

Kind = Literal["mse", "l1", "smoothl1", "bce"]
KINDS: tuple[Kind, ...] = ("mse", "l1", "smoothl1", "bce")
