"""Plots as SVG: nothing lies outside the picture, which cuts it off."""

from __future__ import annotations

import re

import pytest

from graphbench.report import svg

NUMBERS = r'<text class="tick" x="([\d.]+)" y="[\d.]+" text-anchor="middle">(.*?)</text>'


@pytest.mark.parametrize("end", [1.0, 1234.5, 12_500.0, 1e6, 0.001, 2e9])
def test_numbers_at_the_axes_lie_inside(end: float) -> None:
    line = svg.Line([0.0, end], [0.0, end], [0.0, end], [0.0, end], 0, "a")
    points = [svg.Point(x, 1.0, 0.0, 0, "a") for x in (end / 900, end)]
    for plot in (svg.curves([line], "epoch", "loss"), svg.scatter(points, "parameters", "score")):
        numbers = re.findall(NUMBERS, plot)
        assert numbers
        assert all(float(x) + 3 * len(text) <= svg.WIDTH for x, text in numbers), numbers


@pytest.mark.parametrize("last", [0, 1, 2, 7, 300])
def test_epochs_are_whole_numbers(last: int) -> None:
    epochs = sorted({0, last})
    line = svg.Line(epochs, epochs, epochs, epochs, 0, "a")
    numbers = [text for _, text in re.findall(NUMBERS, svg.curves([line], "epoch", "loss"))]
    assert "0" in numbers
    assert all(text.isdigit() for text in numbers), numbers
