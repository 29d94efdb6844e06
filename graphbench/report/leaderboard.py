"""Leaderboards: a table per data set, a row per configuration."""

from __future__ import annotations

import math
from html import escape

from graphbench.report import svg
from graphbench.report.gather import Board, Configuration
from graphbench.report.markup import Column, anchor, number, table, text
from graphbench.runs.summary import STATISTICS, format_mean
from graphbench.tables.text_table import ORDINALS


def leaderboards(boards: list[Board], detailed: set[str]) -> str:
    """All data sets.

    Args:
        boards: boards by data set.
        detailed: names of the configurations with a section below.
    """
    return "\n".join(_board(board, detailed) for board in boards)


def _board(board: Board, detailed: set[str]) -> str:
    rows = board.rows
    splits, metrics = ({row.protocol[index] for row in rows} for index in (0, 1))
    statistics = [name for name in STATISTICS if any(row.result.mean("test", name) for row in rows)]
    low, high = _span(board)
    names = [
        (True, Column("model")),
        (True, Column("test", True)),
        (len(splits) > 1, Column("split")),
        (len(metrics) > 1, Column("metric")),
        (True, Column("runs", True)),
        (any(row.published for row in rows), Column("published", True)),
        (any(row.cell and row.cell.comparison for row in rows), Column("difference", True)),
        (any(row.cell and row.cell.comparison for row in rows), Column("status")),
        (True, Column("validation", True)),
        (True, Column("train to test", True)),
        *((True, Column(STATISTICS[name], True)) for name in statistics),
        (True, Column("parameters", True)),
        (True, Column("s/epoch", True)),
        (True, Column("peak memory", True)),
        (True, Column("date")),
    ]
    columns = [column for shown, column in names if shown]
    body = []
    for row in rows:
        cells = _cells(row, board.ranks.get(row.name), row.name in detailed, low, high)
        cells |= {STATISTICS[name]: _fraction(row, name) for name in statistics}
        body.append([cells[column.name] for column in columns])
    common = [next(iter(values)) for values in (splits, metrics) if len(values) == 1]
    # Split and metric of all rows are in the caption, not in a column of equal cells.
    about = ", ".join(common) + (", lower is better" if _lower(board) else "")
    head = f'<h3 id="{anchor(board.dataset)}">{escape(board.dataset)}</h3>'
    caption = f'<p class="about">{escape(about)}</p>' if about else ""
    name = ", ".join([board.dataset, *common])
    return f"<section>{head}{caption}{table(columns, body, name, [row.findable for row in rows])}</section>"


def _cells(row: Configuration, rank: int | None, detailed: bool, low: float, high: float) -> dict[str, str]:
    test, val = row.result.mean("test"), row.result.mean("val")
    facts, split_metric = row.facts, row.protocol
    ordinal = f' <span class="rank r{rank or 0}">{ORDINALS.get(rank or 0, "")}</span>'
    return {
        "model": _model(row, detailed),
        "split": text(split_metric[0]),
        "metric": text(split_metric[1]),
        "test": number(test.mean if test else None, f"<b>{format_mean(test)}</b>{ordinal}"),
        "runs": number(len(row.result.runs), _runs(row)),
        **_published(row),
        "validation": number(val.mean if val else None, format_mean(val)),
        "train to test": _gap(row, low, high),
        "parameters": number(facts.params[1] if facts.params else None, facts.cells()["parameters"]),
        "s/epoch": number(facts.seconds, facts.cells()["s/epoch"]),
        "peak memory": number(facts.memory, facts.cells()["peak memory"]),
        "date": text(facts.date),
    }


def _model(row: Configuration, detailed: bool) -> str:
    name = escape(row.name).replace("/", "/<wbr>")
    name = f'<a href="#{anchor(row.name)}">{name}</a>' if detailed else name
    label = f"<b>{escape(row.label)}</b>" if row.label else ""
    start = f'<th scope="row" data-v="{escape(row.label or row.name)}" data-config="{anchor(row.name)}">'
    return f"{start}{label}<small>{name}</small></th>"


def _runs(row: Configuration) -> str:
    finished, left_out = len(row.result.runs), len(row.result.left_out)
    if row.cell:
        return row.cell.spec.shortfall(row.result.runs) or str(finished)
    return f"{finished} of {finished + left_out}" if left_out else str(finished)


def _published(row: Configuration) -> dict[str, str]:
    published, cell = row.published, row.cell
    if published is None or cell is None:
        return dict.fromkeys(("published", "difference"), number(None, "")) | {"status": text("")}
    factor = published.scale.factor
    digits = published.digits + round(math.log10(factor))
    about = f"{published.printed} in {row.source}"
    if published.mean and factor != 1:
        std = f" ± {float(published.std) / factor:.{digits}f}" if published.std else ""
        shown = f"{float(published.mean) / factor:.{digits}f}{std}"
    else:
        shown = published.printed
    shown = f'<span title="{escape(about)}">{escape(shown)}</span>'
    printed = number(float(published.mean) / factor if published.mean else None, shown)
    if cell.comparison is None:
        return {
            "published": printed,
            "difference": number(None, ""),
            "status": f'<td title="{escape(cell.differing)}">{escape(cell.status)}</td>',
        }
    comparison = cell.comparison
    deviations = "" if comparison.deviations is None else f" ({comparison.deviations:+.1f} sd)"
    if cell.measured and cell.measured.name != row.result.metric:  # beside a test score of another metric
        deviations += f" from {cell.measured.mean / factor:.{digits}f}, {escape(cell.measured.name)}"
    status = f'<span class="status {cell.status}">{cell.status}</span>'
    return {
        "published": printed,
        "difference": number(
            comparison.difference / factor, f"{comparison.difference / factor:+.{digits}f}{deviations}"
        ),
        "status": f'<td data-v="{cell.status}">{status}</td>',
    }


def _gap(row: Configuration, low: float, high: float) -> str:
    train, test = row.result.mean("train"), row.result.mean("test")
    if train is None or test is None or not math.isfinite(train.mean + test.mean):
        return number(None, "")
    worse = train.mean - test.mean if test.maximize else test.mean - train.mean
    return number(worse, f"{svg.gap(train.mean, test.mean, low, high)} {worse:+.3f}")


def _fraction(row: Configuration, name: str) -> str:
    mean = row.result.mean("test", name)
    return number(mean.mean if mean else None, f"{mean.mean:.1%}" if mean else "")


def _span(board: Board) -> tuple[float, float]:
    means = [row.result.mean(split) for row in board.rows for split in ("train", "test")]
    values = [mean.mean for mean in means if mean and math.isfinite(mean.mean)]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _lower(board: Board) -> bool:
    tests = [row.result.mean("test") for row in board.rows]
    return any(test is not None and not test.maximize for test in tests)
