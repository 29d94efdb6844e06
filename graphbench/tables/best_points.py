"""Points of a grid chosen on validation: a row per grid instead of one per point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from graphbench.runs.aggregate import Aggregate
from graphbench.sweeps.cells import CellSpec
from graphbench.tables.sweep_table import Cell, runs_of


def best_points(specs: Sequence[CellSpec]) -> tuple[list[CellSpec], list[str]]:
    """Best point of every grid and column by mean validation score; the first of equals.

    One whose runs have other settings or plug-ins than the sweep is chosen only where all have.

    Args:
        specs: cells of a sweep.

    Returns:
        The cells that are left, labelled without the point, and a sentence about every choice.
    """
    grids: dict[tuple[str, str], list[CellSpec]] = {}
    for spec in specs:
        grids.setdefault((spec.label.removesuffix(spec.point), spec.column), []).append(spec)
    chosen, notes = [], []
    for (label, column), points in grids.items():
        if not points[0].point:
            chosen += points
            continue
        results = [runs_of(spec) for spec in points]
        scores = list(map(_score, points, results))
        best = max(range(len(points)), key=scores.__getitem__)
        chosen.append(replace(points[best], label=label))
        unfinished = sum(bool(spec.shortfall(each.runs)) for spec, each in zip(points, results, strict=True))
        if mean := results[best].mean("val"):
            notes.append(
                f"{label}, {column}: {points[best].point.strip(' ()')}, the best of {len(points)} on validation "
                f"({mean.name} {mean.mean:.4f})" + (f"; {unfinished} of them lack runs." if unfinished else ".")
            )
    return chosen, notes


def _score(spec: CellSpec, result: Aggregate) -> tuple[bool, float]:
    """Whether the runs are those that the sweep asks for, and their mean on validation, the larger the better."""
    mean = result.mean("val")
    if mean is None or math.isnan(mean.mean):
        return False, -math.inf
    current = not Cell(spec, result, measured=None, published=None).stale
    return current, mean.mean if mean.maximize else -mean.mean
