"""Plots as SVG: nothing lies outside the picture, which cuts it off."""

from __future__ import annotations

import re

import pytest

from graphbench.report import svg


@pytest.mark.parametrize("end", [1.0, 1234.5, 12_500.0, 1e6, 0.001, 2e9])
def test_numbers_at_the_axes_lie_inside(end: float) -> None:
    line = svg.Line([0.0, end], [0.0, end], [0.0, end], [0.0, end], 0, "a")
    points = [svg.Point(x, 1.0, 0.0, 0, "a") for x in (end / 900, end)]
    for plot in (svg.curves([line], "epoch", "loss"), svg.scatter(points, "parameters", "score")):
        numbers = re.findall(r'<text class="tick" x="([\d.]+)" y="[\d.]+" text-anchor="middle">(.*?)</text>', plot)
        assert numbers
        assert all(float(x) + 3 * len(text) <= svg.WIDTH for x, text in numbers), numbers
