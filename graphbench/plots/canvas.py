"""Style of all figures, new figures, and their files.

Matplotlib is an extra (``plots``) and imported when a figure is asked for. Figures are drawn without ``pyplot``: no
display is needed and no state outlives a figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphbench import atomic
from graphbench.errors import UserError, unknown

if TYPE_CHECKING:
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLUMN = 3.4
"""Width in inches of one column of a two-column page."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito, https://jfly.uni-koeln.de/color: told apart with every kind of colour vision."""

DASHES = ("-", "--", ":", "-.")
"""Line styles next to the colours, for print without colour."""

STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.3,
    "pdf.fonttype": 42,  # letters stay letters: Type 3 fonts are refused by many publishers
    "svg.fonttype": "none",
    "savefig.dpi": 300,
}

_METRIC_NAMES = {
    "mae": "MAE",
    "mse": "MSE",
    "rmse": "RMSE",
    "r2": "R²",
    "ap": "average precision",
    "auc": "ROC AUC",
    "f1": "F1 score",
    "mrr": "MRR",
    "accuracy-SBM": "weighted accuracy",
    "spearmanr": "Spearman correlation",
}


def style() -> Any:
    """Context in which figures have our fonts and lines; to be left after :func:`save`.

    Raises:
        UserError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise UserError(
            f"figures need matplotlib ({error}); install it with: pip install 'graphbench-gt[plots]'"
        ) from error
    return matplotlib.rc_context(STYLE)  # type: ignore[arg-type]  # its stubs list every key


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches."""
    from matplotlib import figure

    return figure.Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Writes a figure in the format of the file's ending."""
    with atomic.output(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())


def line_style(number: int) -> dict[str, Any]:
    """Colour and dashes of the line with this number."""
    return {"color": COLORS[number % len(COLORS)], "linestyle": DASHES[number % len(DASHES)]}


def whole_numbers(*axes: Axis) -> None:
    """Numbers of nodes and epochs: none between two of them stands at these axes."""
    from matplotlib.ticker import MaxNLocator

    for axis in axes:
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))


def check_ending(path: Path) -> None:
    """Refuses a file name before anything is computed for it.

    Raises:
        UserError: its ending is none of the formats.
    """
    formats = (".pdf", ".png", ".svg")
    if path.suffix.lower() not in formats:
        raise unknown("ending of --out", path.suffix or path.name, formats)


def markdown(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The numbers behind a figure as a table in Markdown."""
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (names, *rows)]
    return "\n".join([lines[0], "|---" * len(names) + "|", *lines[1:]])


def metric_name(metric: str) -> str:
    """Name of a metric on an axis."""
    return _METRIC_NAMES.get(metric, metric)
