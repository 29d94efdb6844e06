"""Small drawings as SVG text. Colours are classes of the page's style sheet, so that they follow light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 36
COLORS = 8
"""Kinds of marks that are told apart; the style sheet has a colour for each."""


@dataclass(frozen=True)
class Point:
    """A mark.

    Attributes:
        x: place.
        y: height.
        spread: length of the error bar to either side; 0: none.
        color: number of its kind; from :data:`COLORS` on: grey.
        title: what a pointer resting on it shows.
    """

    x: float
    y: float
    spread: float
    color: int
    title: str


@dataclass(frozen=True)
class Line:
    """A curve with a band.

    Attributes:
        x: places.
        y: heights.
        low: lower end of the band.
        high: its upper end.
        color: number of its kind.
        title: what a pointer resting on it shows.
    """

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    color: int
    title: str


def scatter(points: Sequence[Point], x_label: str, y_label: str) -> str:
    """Marks over a logarithmic axis. Places must be positive, heights finite."""
    heights = [each.y + side * each.spread for each in points for side in (-1, 1)]
    frame = _Frame([each.x for each in points], heights, log=True)
    parts = [frame.axes(x_label, y_label)]
    for each in points:
        x, y = frame.x(each.x), frame.y(each.y)
        color = _color(each.color)
        parts.append(f'<g class="{color}"><title>{html.escape(each.title)}</title>')
        if each.spread:
            top, end = frame.y(each.y + each.spread), frame.y(each.y - each.spread)
            parts.append(f'<path class="bar" d="M{x:.1f} {top:.1f}V{end:.1f}"/>')
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5"/></g>')
    return _svg(parts, f"{y_label} over {x_label}, {len(points)} configurations")


def curves(lines: Sequence[Line], x_label: str, y_label: str) -> str:
    """Curves over a linear axis."""
    frame = _Frame([x for each in lines for x in each.x], [y for each in lines for y in (*each.low, *each.high)])
    parts = [frame.axes(x_label, y_label)]
    for each in lines:
        up = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in zip(each.x, each.high))
        down = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in zip(each.x[::-1], each.low[::-1]))
        middle = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in zip(each.x, each.y))
        band = f'<polygon class="band" points="{up} {down}"/>' if list(each.low) != list(each.high) else ""
        alone = f'<circle class="dot" cx="{middle.split(",")[0]}" cy="{middle.split(",")[1]}" r="3"/>'
        line = f'<polyline class="line" points="{middle}"/>' if len(each.x) > 1 else alone
        parts.append(f'<g class="{_color(each.color)}"><title>{html.escape(each.title)}</title>{band}{line}</g>')
    return _svg(parts, f"{y_label} over {x_label}: {', '.join(each.title for each in lines)}")


def gap(train: float, test: float, low: float, high: float) -> str:
    """Two dots on a line from ``low`` to ``high``: open is training, full is test."""
    width, inset = 120, 6
    span = (high - low) or 1.0
    a, b = (inset + (value - low) / span * (width - 2 * inset) for value in (train, test))
    return (
        f'<svg class="gap" viewBox="0 0 {width} 14" width="{width}" height="14" role="img" '
        f'aria-label="train {train:.4f}, test {test:.4f}">'
        f'<path class="rail" d="M{inset} 7H{width - inset}"/><path class="span" d="M{a:.1f} 7H{b:.1f}"/>'
        f'<circle class="open" cx="{a:.1f}" cy="7" r="3.6"/><circle class="full" cx="{b:.1f}" cy="7" r="4"/></svg>'
    )


def share(value: float) -> str:
    """A bar of a share between 0 and 1."""
    inside = max(0.0, min(1.0, value)) * 160
    return (
        f'<svg class="share" viewBox="0 0 160 10" width="160" height="10" role="img" aria-label="{value:.1%}">'
        f'<rect class="rail" width="160" height="10" rx="3"/><rect class="part" width="{inside:.1f}" height="10" '
        'rx="3"/></svg>'
    )


class _Frame:
    """Places of numbers in a drawing."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float], *, log: bool = False) -> None:
        self._along: Callable[[float], float] = math.log10 if log else float
        self.log = log
        self._x = _range([self._along(x) for x in xs], 0.06 if log else 0.0)
        self._y = _range(ys, 0.08)

    def x(self, value: float) -> float:
        low, high = self._x
        return LEFT + (self._along(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def axes(self, x_label: str, y_label: str) -> str:
        """Grid, numbers and names."""
        parts = []
        heights = _ticks(*self._y, 5)
        digits = max((len(_short(value).partition(".")[2]) for value in heights), default=0)
        for value in heights:
            y = self.y(value)
            shown = _short(value) if abs(value) >= 1000 else f"{value:.{digits}f}"
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{shown}</text>')
        for value in _log_ticks(*self._x) if self.log else _ticks(*self._x, 5):
            x = self.x(value)
            parts.append(f'<path class="mark" d="M{x:.1f} {HEIGHT - BOTTOM}v4"/>')
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{_short(value)}</text>'
            )
        parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text class="name" x="{middle}" y="{HEIGHT - 5}" text-anchor="middle">{html.escape(x_label)}</text>'
        )
        place = (HEIGHT - BOTTOM + TOP) / 2
        parts.append(
            f'<text class="name" transform="translate(11 {place}) rotate(-90)" text-anchor="middle">'
            f"{html.escape(y_label)}</text>"
        )
        return "".join(parts)


def _svg(parts: Sequence[str], label: str) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


def _color(number: int) -> str:
    return f"c{number}" if number < COLORS else "rest"


def _range(values: Sequence[float], margin: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    wide = (high - low) or abs(high) * 0.1 or 1.0
    if high == low:
        return low - wide / 2, high + wide / 2
    return low - margin * wide, high + margin * wide


def _ticks(low: float, high: float, about: int) -> list[float]:
    """Round numbers between two, some ``about`` of them."""
    rough = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * each for each in (1, 2, 5, 10) if unit * each >= rough * 0.999)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(low), math.ceil(high) + 1)
    for of in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), tuple(range(1, 10))):
        found = [each * 10.0**power for power in powers for each in of]
        inside = [each for each in found if low <= math.log10(each) <= high]
        if len(inside) >= 2:
            return inside[:: math.ceil(len(inside) / 6)]
    return [round(10**each, 3 - math.ceil(each)) for each in (low, high)]


def _short(value: float) -> str:
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:.4g}" if abs(value) > 1e-9 else "0"
