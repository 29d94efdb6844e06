"""Decay mask over distance, and start points of the heads over the epochs: Figure 4 of Gradformer.

Left: the factor M that a pair of nodes gets from its distance, one line per head, with the start points of the last
epoch. Right: these start points over the epochs, from val/stats.json; the grey line is their initial value.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.ops.decay_attention import Decay
from graphbench.plots import canvas
from graphbench.runs.history import read_lines
from graphbench.runs.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAYER = "Gradformer"
_NUM_POINTS = 400  # of a line over distance
_NAMES = {"spd": "hops", "ricci": "length of the Ricci path", "cosine": "1 - cosine similarity"}


@dataclass(frozen=True)
class Starts:
    """Start points of one run.

    Attributes:
        config: name of the configuration.
        args: arguments of the layer.
        epochs: (E,).
        values: (E, heads) start points at their end, a mean over layers where these do not share them.
    """

    config: str
    args: dict[str, Any]
    epochs: np.ndarray
    values: np.ndarray

    def factors(self, psi: np.ndarray) -> np.ndarray:
        """(heads, distances) M after the last epoch."""
        args = {name: self.args[name] for name in ("decay", "slope", "kind", "end", "unreachable")}
        start = torch.as_tensor(self.values[-1])
        return Decay(**args).factors(torch.as_tensor(psi, dtype=torch.float64), start).numpy().T


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    parser.add_argument("run", type=Path, metavar="RUN_DIR", help="results/<config>/<seed> of a Gradformer model")
    parser.add_argument(
        "--distance", type=float, default=15.0, metavar="D", help="largest distance of the left panel (default: 15)"
    )


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints the start points.

    Raises:
        UserError: no such run, or not one of a Gradformer model.
    """
    if options.distance <= 0:
        raise UserError(f"--distance must be larger than 0, received {options.distance}.")
    starts = read_starts(options.run)
    print(table(starts))
    return draw(starts, options.distance), f"decay-{starts.config}"


def read_starts(path: Path) -> Starts:
    """Start points over the epochs of a run.

    Raises:
        UserError: no such run, or it has none.
    """
    run = path if (path / "val").is_dir() else path / "0"
    if not (run / "config.yaml").is_file():
        raise UserError(f"{path} is no run directory: there is no {run / 'config.yaml'}.")
    args = load_config(run / "config.yaml").component_args("gt", LAYER)
    lines = read_lines(run, "val", RunRecord.read(run / "record.json"))
    heads = sorted((name for name in (lines[0] if lines else {}) if re.fullmatch(r"start_\d+", name)), key=_number)
    if not args or not heads:
        raise UserError(f"{run}: its model has no {LAYER} attention (gt.layer_type), or no epoch was evaluated.")
    values = np.array([[line[name] for name in heads] for line in lines], dtype=np.float64)
    return Starts(run.parent.name, args, np.array([line["epoch"] for line in lines]), values)


def draw(starts: Starts, distance: float) -> Figure:
    """Both panels."""
    figure = canvas.new_figure(2 * canvas.COLUMN, 2.3)
    left, right = figure.subplots(1, 2)
    psi = np.linspace(0.0, distance, _NUM_POINTS)
    for head, factors in enumerate(starts.factors(psi)):
        style = canvas.line_style(head)
        left.plot(psi, factors, label=f"head {head}", **style)
        right.plot(starts.epochs, starts.values[:, head], marker="o" if len(starts.epochs) <= 30 else "", **style)
        right.lines[-1].set_markersize(2.5)
    left.set_xlabel(f"distance ({_NAMES[starts.args['index']]})")
    left.set_ylabel("factor of the score" if starts.args["mask_on"] == "scores" else "factor of the weight")
    left.set_ylim(bottom=0.0)
    left.legend(frameon=False, handlelength=3.2)
    right.axhline(starts.args["start"], color="0.6", linewidth=0.6, zorder=1)
    right.set_xlabel("epoch")
    right.set_ylabel("start point")
    canvas.whole_numbers(right.xaxis)
    return figure


def table(starts: Starts) -> str:
    """Start points of every head, as Markdown."""
    began = starts.args["start"]
    rows = [
        [head, *(f"{value:.4f}" for value in (began, values[0], values[-1]))]
        for head, values in enumerate(starts.values.T)
    ]
    return canvas.markdown(["head", "began", "after the first epoch", "after the last"], rows)


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])
