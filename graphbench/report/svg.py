"""Plots as SVG text, a few kB each. Colours are classes of the style sheet, so that they follow light and dark.

Matplotlib's SVG has fixed colours, no tooltips, ten times the size, and is an optional dependency.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 36
_TICK_CHARACTER = 6.5
"""Width of a digit at the size that report.css gives numbers at the axes."""
COLORS = 8
"""Colours of the style sheet."""


@dataclass(frozen=True)
class Point:
    """A mark.

    Attributes:
        x: coordinate.
        y: coordinate.
        spread: length of the error bar to either side; 0: none.
        color: index; from :data:`COLORS` on: grey.
        title: tooltip.
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
        x: coordinates.
        y: coordinates.
        low: lower end of the band.
        high: upper end of the band.
        color: index.
        title: tooltip.
        dots: whether every coordinate is marked, to tell what was measured from the line between.
    """

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    color: int
    title: str
    dots: bool = False


def scatter(points: Sequence[Point], x_label: str, y_label: str) -> str:
    """Marks over a logarithmic axis; ``x`` must be positive, ``y`` finite."""
    ends = [point.y + side * point.spread for point in points for side in (-1, 1)]
    frame = _Frame([point.x for point in points], ends, log=True)
    parts = [frame.axes(x_label, y_label)]
    for point in points:
        x, y = frame.x(point.x), frame.y(point.y)
        parts.append(f'<g class="{_color(point.color)}"><title>{html.escape(point.title)}</title>')
        if point.spread:
            top, end = frame.y(point.y + point.spread), frame.y(point.y - point.spread)
            parts.append(f'<path class="bar" d="M{x:.1f} {top:.1f}V{end:.1f}"/>')
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="5"/></g>')
    return _svg(parts, f"{y_label} over {x_label}, {len(points)} configurations")


def curves(lines: Sequence[Line], x_label: str, y_label: str) -> str:
    """Curves over a linear axis."""
    frame = _Frame([x for line in lines for x in line.x], [y for line in lines for y in (*line.low, *line.high)])
    parts = [frame.axes(x_label, y_label)]
    for line in lines:
        middle = frame.path(line.x, line.y)
        parts.append(f'<g class="{_color(line.color)}"><title>{html.escape(line.title)}</title>')
        if list(line.low) != list(line.high):
            outline = f"{frame.path(line.x, line.high)} {frame.path(line.x[::-1], line.low[::-1])}"
            parts.append(f'<polygon class="band" points="{outline}"/>')
        if len(line.x) > 1:
            parts.append(f'<polyline class="line" points="{middle}"/>')
        if line.dots or len(line.x) == 1:
            radius = 3 if len(line.x) == 1 else 2
            marks = (pair.split(",") for pair in middle.split())
            parts += [f'<circle class="dot" cx="{x}" cy="{y}" r="{radius}"/>' for x, y in marks]
        parts.append("</g>")
    return _svg(parts, f"{y_label} over {x_label}: {', '.join(line.title for line in lines)}")


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


def fraction_bar(value: float) -> str:
    """A bar filled to a fraction between 0 and 1."""
    filled = max(0.0, min(1.0, value)) * 160
    return (
        f'<svg class="share" viewBox="0 0 160 10" width="160" height="10" role="img" aria-label="{value:.1%}">'
        f'<rect class="rail" width="160" height="10" rx="3"/><rect class="part" width="{filled:.1f}" height="10" '
        'rx="3"/></svg>'
    )


class _Frame:
    """Axes: from values to coordinates."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float], *, log: bool = False) -> None:
        self._scaled: Callable[[float], float] = math.log10 if log else float
        self.log = log
        self._x = _range([self._scaled(x) for x in xs], 0.06 if log else 0.0)
        self._y = _range(ys, 0.08)

    def x(self, value: float) -> float:
        low, high = self._x
        return LEFT + (self._scaled(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def path(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """Coordinates as the ``points`` of a line."""
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, ys, strict=True))

    def axes(self, x_label: str, y_label: str) -> str:
        """Grid, numbers and names."""
        parts = []
        y_ticks = _ticks(*self._y, 5)
        digits = max((len(_short(value).partition(".")[2]) for value in y_ticks), default=0)
        for value in y_ticks:
            y = self.y(value)
            shown = _short(value) if abs(value) >= 1000 else f"{value:.{digits}f}"
            parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{shown}</text>')
        for value in _log_ticks(*self._x) if self.log else _ticks(*self._x, 5, whole=True):
            x = self.x(value)
            parts.append(f'<path class="mark" d="M{x:.1f} {HEIGHT - BOTTOM}v4"/>')
            shown = _short(value)
            inside = min(x, WIDTH - len(shown) * _TICK_CHARACTER / 2)  # what sticks out of the picture is cut off
            parts.append(
                f'<text class="tick" x="{inside:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{shown}</text>'
            )
        parts.append(f'<path class="axis" d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text class="name" x="{middle}" y="{HEIGHT - 5}" text-anchor="middle">{html.escape(x_label)}</text>'
        )
        center = (HEIGHT - BOTTOM + TOP) / 2
        parts.append(
            f'<text class="name" transform="translate(11 {center}) rotate(-90)" text-anchor="middle">'
            f"{html.escape(y_label)}</text>"
        )
        return "".join(parts)


def _svg(parts: Sequence[str], label: str) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(label)}">'
        + "".join(parts)
        + "</svg>"
    )


def _color(index: int) -> str:
    return f"c{index}" if index < COLORS else "rest"


def _range(values: Sequence[float], margin: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    if high == low:
        half = (abs(high) * 0.1 or 1.0) / 2
        return low - half, high + half
    return low - margin * (high - low), high + margin * (high - low)


def _ticks(low: float, high: float, count: int, whole: bool = False) -> list[float]:
    """About ``count`` round numbers between two, whole ones for epochs."""
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough * 0.999)
    step = max(step, 1.0) if whole else step
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(low), math.ceil(high) + 1)
    for digits in ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), tuple(range(1, 10))):
        candidates = [digit * 10.0**power for power in powers for digit in digits]
        ticks = [value for value in candidates if low <= math.log10(value) <= high]
        if len(ticks) >= 2:
            return ticks[:: math.ceil(len(ticks) / 6)]
    return [round(10**exponent, 3 - math.ceil(exponent)) for exponent in (low, high)]


def _short(value: float) -> str:
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:.4g}" if abs(value) > 1e-9 else "0"
