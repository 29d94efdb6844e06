"""Draws a figure, mostly from finished runs: ``graphbench plots FIGURE RUN_DIR... [--out FILE]``.

``traingap``: the difference between training and test metric over the epochs, for one or several configurations.
``attention``: the attention pattern of a trained model on one graph, exactly-zero entries in white.
``flows``: attention weights or SFi flows, drawn on the graph itself; molecules by RDKit.
``surrogate``: the matrices that stand for attention in a GECO model, on one graph.
``focal``: a test metric over the focal length of FFGT or GRPE.
``decay``: Gradformer's decay mask over distance, and its start points over the epochs.
``layers``: a test metric over the number of attention layers, with and without self-loop.
``scaling``: time and memory of a training step over the number of nodes; measures what is missing.

The figure is written to ``--out`` (.png, .pdf or .svg), by default below ``results/figures``; the numbers behind it are
printed. Needs matplotlib (``pip install 'graphbench-gt[plots]'``). docs/figures.md says how to read each figure.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from graphbench.command_line import CommandParser, docstring_of
from graphbench.exit_codes import exit_codes
from graphbench.plots import canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FigureModule(Protocol):
    """A module that draws one figure; its docstring is the help of the command."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the options of the figure."""

    def make(self, options: argparse.Namespace) -> tuple[Figure, str]:
        """Prints the numbers behind the figure and returns it with its name."""


FIGURES = ("traingap", "attention", "flows", "surrogate", "decay", "focal", "layers", "scaling")
"""Modules of :mod:`graphbench.plots`; the one that is asked for is imported."""


def figure_module(name: str) -> FigureModule:
    """The module that draws a figure."""
    return importlib.import_module(f"graphbench.plots.{name}")


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Draws one figure."""
    parser = CommandParser(description=__doc__)
    commands = parser.add_subparsers(dest="figure", required=True, metavar="FIGURE")
    given = list(sys.argv[1:] if arguments is None else arguments)
    for name in FIGURES:
        about = docstring_of(Path(__file__).with_name(f"{name}.py"))
        command = commands.add_parser(name, help=about.splitlines()[0], description=about)
        if name in given[:1]:
            figure_module(name).arguments(command)
        command.add_argument("--out", type=Path, metavar="FILE", help="default: results/figures/<name>.png")
    options = parser.parse_args(given)
    if options.out is not None:
        canvas.check_ending(options.out)
    with canvas.style():
        figure, name = figure_module(options.figure).make(options)
        out = options.out or Path("results", "figures", f"{name}.png")
        canvas.save(figure, out)
    print(f"wrote {out}")
    return 0
