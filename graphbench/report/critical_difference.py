"""The critical-difference diagram of Demšar, JMLR 7 (2006), as SVG: an axis of mean ranks, the best model to the left.

Names hang below their rank, the better half on the left side; bars join models that are not told apart.
"""

from __future__ import annotations

import math
from html import escape

from graphbench.tables.mean_ranks import MeanRanks

AXIS, TOP, ROW, BAR = 260, 46, 20, 9
LETTER, MARGIN = 6.8, 56
"""Width of a letter of a name, and of the space for its rank."""


def draw(result: MeanRanks) -> str:
    """The picture; a screen reader gets models and mean ranks as its label."""
    models, groups = result.models, result.groups
    last = max(2, len(models))
    side = MARGIN + LETTER * max(map(len, models))
    width = round(2 * side + AXIS)

    def x(rank: float) -> float:
        return side + (rank - 1) / (last - 1) * AXIS

    below = TOP + 12 + BAR * len(groups)
    half = math.ceil(len(models) / 2)
    height = below + ROW * half + 8
    parts = [f'<path class="axis" d="M{x(1):.1f} {TOP}H{x(last):.1f}"/>']
    for tick in range(1, last + 1):
        parts.append(f'<path class="axis" d="M{x(tick):.1f} {TOP}v-5"/>')
        parts.append(f'<text class="tick" x="{x(tick):.1f}" y="{TOP - 9}" text-anchor="middle">{tick}</text>')
    parts += _scale(x(1), x(1 + min(result.critical_difference, last - 1)), result.critical_difference)
    for place, (model, rank) in enumerate(zip(models, result.ranks, strict=True)):
        left = place < half
        y = below + ROW * (place if left else len(models) - 1 - place) + ROW / 2
        end, anchor = (side - 12, "end") if left else (side + AXIS + 12, "start")
        parts.append(f'<path class="lead" d="M{x(rank):.1f} {TOP}V{y:.1f}H{end:.1f}"/>')
        name = f'{escape(model)} <tspan class="tick">{rank:.2f}</tspan>'
        begin = end + (-5 if left else 5)
        parts.append(f'<text class="model" x="{begin:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{name}</text>')
    for row, (first, final) in enumerate(groups):
        ends = x(result.ranks[first]) - 3, x(result.ranks[final]) + 3
        parts.append(f'<path class="alike" d="M{ends[0]:.1f} {TOP + 8 + BAR * row}H{ends[1]:.1f}"/>')
    listed = ", ".join(f"{model} {rank:.2f}" for model, rank in zip(models, result.ranks, strict=True))
    label = escape(f"critical-difference diagram: {listed}; critical difference {result.critical_difference:.2f}")
    return (
        f'<svg class="ranks" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{label}">{"".join(parts)}</svg>'
    )


def _scale(begin: float, end: float, difference: float) -> list[str]:
    """The length of the critical difference, above the axis."""
    middle = (begin + end) / 2
    return [
        f'<path class="axis" d="M{begin:.1f} 12v6m0 -3H{end:.1f}m0 -3v6"/>',
        f'<text class="tick" x="{middle:.1f}" y="9" text-anchor="middle">CD = {difference:.2f}</text>',
    ]
