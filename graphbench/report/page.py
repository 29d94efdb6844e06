"""The page: one file that loads nothing, with its style sheet and its few lines of script inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import get_args

from graphbench.report.details import details, left_out
from graphbench.report.figures import curves, overlays, scatters, sparsity
from graphbench.report.gather import Board, Configuration, boards
from graphbench.report.leaderboard import leaderboards
from graphbench.report.markup import anchor, plain_list
from graphbench.report.ranking import rankings
from graphbench.tables.provenance import plug_in_notes
from graphbench.tables.significance import Verdict

HERE = Path(__file__).resolve().parent
SCRIPTS = ("sort.js", "filter.js", "copy.js", "compare.js")
HOW_TO_READ = (
    "Test and validation at the best validation epoch: mean ± sample standard deviation over the runs. 1st, 2nd, 3rd: "
    "best means of the same data set, split and metric; equals share a mark, the last never gets one.",
    "Status: reproduced where measured and published differ by at most one published standard deviation plus 1 point; "
    "below, above: worse, better than that. Published numbers have the scale of this page (0.845 for 84.5 %). "
    "Other configuration: its runs have other settings than the sweep that names the published number; not judged.",
    "Train to test: open dot training, full dot test, at the same epoch; the number is the gap, larger is more "
    "over-fitting. Training scores are those of the training passes, with dropout.",
    "Seconds per epoch and memory compare only where runs had the same machine to themselves: records do not know "
    "what ran beside them.",
)


COMPARISON = (
    '<aside id="picked" role="status" hidden><output></output> <a href="#compare">compare</a> '
    '<button type="button">clear</button></aside>\n'
    '<section id="compare" hidden><h2>Comparison</h2><div class="content"></div></section>'
)


def page(configurations: Sequence[Configuration], *, title: str, limit: int) -> str:
    """The report.

    Args:
        configurations: configurations from :func:`~graphbench.report.gather.gather`.
        title: heading.
        limit: configurations that get curves and details; what is left out is said.
    """
    found = boards(configurations)
    ordered = [row for board in found for row in board.rows]
    shown = ordered[:limit]
    missing = left_out(configurations)
    ranks = rankings(ordered)
    code = plug_in_notes((row.name, row.result.runs) for row in ordered)
    sections = [
        ("leaderboards", "Leaderboards", leaderboards(found, {row.name for row in shown}) + plain_list(code)),
        *([("ranks", "Models over data sets", ranks)] if ranks else []),
        ("size", "Score, size and time", scatters(found)),
        ("curves", "Training curves", overlays(found) + curves(ordered, limit)),
        ("sparsity", "Attention sparsity", sparsity(ordered)),
        ("missing", "Not included", _missing(missing, limit)),
        ("runs", "Runs", _limited(ordered, limit) + details(shown)),
    ]
    body = "\n".join(f'<section id="{id}"><h2>{name}</h2>{inside}</section>' for id, name, inside in sections)
    links = "".join(f'<a href="#{id}">{name}</a>' for id, name, _ in sections)
    sets = "".join(f'<a href="#{anchor(board.dataset)}">{escape(board.dataset)}</a>' for board in found)
    style = (HERE / "report.css").read_text(encoding="utf-8")
    script = "\n".join((HERE / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>{_summary(ordered, found, missing)}"
        f'<nav aria-label="sections">{links}</nav><nav class="sets" aria-label="data sets">{sets}</nav>'
        f"</header>\n{_filters(ordered)}\n<main>\n{COMPARISON}\n{body}\n"
        f"<footer><h2>How to read this</h2>{plain_list(HOW_TO_READ)}</footer></main>\n"
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _filters(ordered: Sequence[Configuration]) -> str:
    """Filters of rows, figures and runs; without the script of the page everything is shown."""
    lists: dict[str, tuple[str, Sequence[str]]] = {
        "set": ("Data set", [row.dataset for row in ordered]),
        "group": ("Folder", [row.group for row in ordered]),
        "status": ("Status", [row.cell.status for row in ordered if row.cell]),
    }
    fields = [
        '<label>Words <input type="search" name="words" placeholder="a model, data set or split"></label>',
        *(_select(name, title, values) for name, (title, values) in lists.items() if len(set(values)) > 1),
    ]
    reset = '<button type="reset">show all</button><output></output>'
    return f'<form class="filter" role="search" hidden>{"".join(fields)}{reset}</form>'


def _select(name: str, title: str, values: Sequence[str]) -> str:
    chosen = sorted({value for value in values if value}, key=str.casefold)
    options = "".join(f'<option value="{escape(value)}">{escape(value)}</option>' for value in chosen)
    return f'<label>{title} <select name="{name}"><option value="">all</option>{options}</select></label>'


def _summary(ordered: Sequence[Configuration], found: Sequence[Board], missing: Sequence[str]) -> str:
    runs = sum(len(row.result.runs) for row in ordered)
    judged = get_args(Verdict)
    states = Counter(row.cell.status for row in ordered if row.cell and row.cell.status in judged)
    numbers = [
        (f"{runs:,}", "finished run" + "s" * (runs != 1)),
        (f"{len(ordered):,}", "configuration" + "s" * (len(ordered) != 1)),
        (str(len(found)), "data set" + "s" * (len(found) != 1)),
        *((f"{states[name]} of {states.total()}", name) for name in judged if states),
        *([(f"{len(missing):,}", "not included")] if missing else []),
    ]
    tiles = "".join(f"<div><dt>{what}</dt><dd>{count}</dd></div>" for count, what in numbers)
    dates = [row.facts.date for row in ordered if row.facts.date]
    span = f'<p class="about">{" to ".join(sorted({min(dates), max(dates)}))}</p>' if dates else ""
    return f'<dl class="tiles">{tiles}</dl>{span}'


def _missing(sentences: Sequence[str], limit: int) -> str:
    if not sentences:
        return "<p>Every record that was found is in the tables.</p>"
    more = [f"... and {len(sentences) - limit:,} more (--limit {limit})."] if len(sentences) > limit else []
    return plain_list([*sentences[:limit], *more])


def _limited(ordered: Sequence[Configuration], limit: int) -> str:
    left = len(ordered) - limit
    return f"<p>{left:,} more configurations are in the tables only (--limit {limit}).</p>" if left > 0 else ""
