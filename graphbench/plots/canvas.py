"""What all figures share: type and colours, how a figure begins, and how it becomes a file.

Matplotlib is an extra (``plots``) and imported when a figure is asked for. Figures are drawn without ``pyplot``: no
display is needed and no state outlives a figure.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphbench.errors import UserError, unknown
from graphbench.runs import atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN = 3.4
"""Width in inches of one column of a two-column page."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito, https://jfly.uni-koeln.de/color: told apart with every kind of colour vision."""

DASHES = ("-", "--", ":", "-.")
"""Line styles beside the colours, for print without colour."""

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

_NAMES = {
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
    """Inside this context figures have the house's type and lines; to be left after :func:`save`.

    Raises:
        UserError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise UserError(f"figures need matplotlib ({error}); install it with: pip install -e '.[plots]'") from error
    return matplotlib.rc_context(STYLE)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, sizes in inches."""
    from matplotlib import figure

    return figure.Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Writes a figure; the ending of the name says in which format.

    Raises:
        UserError: an ending that stands for none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower())


def check_ending(path: Path) -> None:
    """Refuses a file name before anything is computed for it.

    Raises:
        UserError: its ending stands for none of the formats.
    """
    formats = (".pdf", ".png", ".svg")
    if path.suffix.lower() not in formats:
        raise unknown("ending of --out", path.suffix or path.name, formats)


def in_words(metric: str) -> str:
    """A metric as axes name it."""
    return _NAMES.get(metric, metric)
