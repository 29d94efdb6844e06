"""Draws a figure, mostly from finished runs: ``python scripts/plots.py FIGURE RUN_DIR... [--out FILE]``.

``traingap``: the difference between training and test metric over the epochs, for one or several configurations.
``attention``: the attention pattern of a trained model on one graph, exactly-zero entries in white.
``surrogate``: the matrices that stand for attention in a GECO model, on one graph.
``focal``: a test metric over the focal length of FFGT or GRPE.
``decay``: Gradformer's decay mask over distance, and its start points over the epochs.
``layers``: a test metric over the number of attention layers, with and without self-loop.
``scaling``: time and memory of a training step over the number of nodes; measures what is missing.

The figure is written to ``--out`` (.png, .pdf or .svg), by default below ``results/figures``; the numbers behind it are
printed. Needs matplotlib (``pip install -e '.[plots]'``). docs/figures.md says how to read each figure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from graphbench.errors import UserError
from graphbench.exit_codes import exit_codes
from graphbench.plots import attention, canvas, decay, focal, layers, scaling, surrogate, traingap

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FigureModule(Protocol):
    """A module that draws one figure; its docstring is the help of the command."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the options of the figure."""

    def make(self, options: argparse.Namespace) -> tuple[Figure, str]:
        """Prints the numbers behind the figure and returns it with its name."""


FIGURES: dict[str, FigureModule] = {
    "traingap": traingap,
    "attention": attention,
    "surrogate": surrogate,
    "decay": decay,
    "focal": focal,
    "layers": layers,
    "scaling": scaling,
}


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Draws one figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="figure", required=True, metavar="FIGURE")
    for name, module in FIGURES.items():
        about = (module.__doc__ or "").strip()
        command = commands.add_parser(
            name, help=about.splitlines()[0], description=about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.arguments(command)
        command.add_argument("--out", type=Path, metavar="FILE", help="default: results/figures/<name>.png")
    options = parser.parse_args(arguments)
    try:
        if options.out is not None:
            canvas.check_ending(options.out)
        with canvas.style():
            figure, name = FIGURES[options.figure].make(options)
            out = options.out or Path("results", "figures", f"{name}.png")
            canvas.save(figure, out)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return UserError.exit_code
    print(f"wrote {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
