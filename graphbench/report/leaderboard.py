"""Leaderboards: a table per data set, a row per configuration."""

from __future__ import annotations

import math
from html import escape

from graphbench.report import svg
from graphbench.report.gather import Board, Configuration
from graphbench.report.markup import Column, anchor, number, table, text
from graphbench.runs.summary import STATISTICS, format_mean

ORDINALS = {1: "1st", 2: "2nd", 3: "3rd"}


def leaderboards(boards: list[Board], detailed: set[str]) -> str:
    """All of them.

    Args:
        boards: by data set.
        detailed: names of the configurations that have a section of their own further down.
    """
    return "\n".join(_board(each, detailed) for each in boards)


def _board(board: Board, detailed: set[str]) -> str:
    rows = board.rows
    splits, metrics = ({each.protocol[place] for each in rows} for place in (0, 1))
    reported = [name for name in STATISTICS if any(each.result.mean("test", name) for each in rows)]
    low, high = _span(board)
    names = [
        (True, Column("model")),
        (True, Column("test", True)),
        (len(splits) > 1, Column("split")),
        (len(metrics) > 1, Column("metric")),
        (True, Column("runs", True)),
        (any(each.published for each in rows), Column("published", True)),
        (any(each.cell and each.cell.comparison for each in rows), Column("difference", True)),
        (any(each.cell and each.cell.comparison for each in rows), Column("status")),
        (True, Column("validation", True)),
        (True, Column("train to test", True)),
        *((True, Column(STATISTICS[name], True)) for name in reported),
        (True, Column("parameters", True)),
        (True, Column("s/epoch", True)),
        (True, Column("peak memory", True)),
        (True, Column("date")),
    ]
    columns = [column for shown, column in names if shown]
    body = []
    for each in rows:
        cells = _cells(each, board.ranks.get(each.name), each.name in detailed, low, high)
        cells |= {STATISTICS[name]: _share(each, name) for name in reported}
        body.append([cells[column.name] for column in columns])
    common = [next(iter(kind)) for kind in (splits, metrics) if len(kind) == 1]
    # Split and metric of all rows stand in the caption, not in a column of equal cells.
    about = ", ".join(common) + (", lower is better" if _lower(board) else "")
    head = f'<h3 id="{anchor(board.dataset)}">{escape(board.dataset)}</h3>'
    caption = f'<p class="about">{escape(about)}</p>' if about else ""
    return f"<section>{head}{caption}{table(columns, body)}</section>"


def _cells(each: Configuration, rank: int | None, detailed: bool, low: float, high: float) -> dict[str, str]:
    test, val = each.result.mean("test"), each.result.mean("val")
    facts, split_metric = each.facts, each.protocol
    ordinal = f' <span class="rank r{rank or 0}">{ORDINALS.get(rank or 0, "")}</span>'
    return {
        "model": _model(each, detailed),
        "split": text(split_metric[0]),
        "metric": text(split_metric[1]),
        "test": number(test.mean if test else None, f"<b>{format_mean(test)}</b>{ordinal}"),
        "runs": number(len(each.result.runs), _runs(each)),
        **_published(each),
        "validation": number(val.mean if val else None, format_mean(val)),
        "train to test": _gap(each, low, high),
        "parameters": number(facts.params[1] if facts.params else None, facts.cells()["parameters"]),
        "s/epoch": number(facts.seconds, facts.cells()["s/epoch"]),
        "peak memory": number(facts.memory, facts.cells()["peak memory"]),
        "date": text(facts.date),
    }


def _model(each: Configuration, detailed: bool) -> str:
    name = escape(each.name).replace("/", "/<wbr>")
    name = f'<a href="#{anchor(each.name)}">{name}</a>' if detailed else name
    label = f"<b>{escape(each.label)}</b>" if each.label else ""
    return f'<th scope="row" data-v="{escape(each.label or each.name)}">{label}<small>{name}</small></th>'


def _runs(each: Configuration) -> str:
    missing = len(each.result.left_out)
    return f"{len(each.result.runs)} of {len(each.result.runs) + missing}" if missing else str(len(each.result.runs))


def _published(each: Configuration) -> dict[str, str]:
    row, cell = each.published, each.cell
    if row is None or cell is None:
        return dict.fromkeys(("published", "difference"), number(None, "")) | {"status": text("")}
    stale = '<sup title="settings changed since the runs">*</sup>' if cell.stale else ""
    shown = f'<span title="{escape(each.source)}">{escape(row.printed)}</span>'
    printed = number(float(row.mean) / row.scale.factor if row.mean else None, shown)
    if cell.comparison is None:
        return {
            "published": printed,
            "difference": number(None, ""),
            "status": f"<td>{escape(cell.status)}{stale}</td>",
        }
    against = cell.comparison
    deviations = "" if against.deviations is None else f" ({against.deviations:+.1f} sd)"
    status = f'<span class="status {against.status}">{against.status}</span>{stale}'
    return {
        "published": printed,
        "difference": number(
            against.difference / row.scale.factor, f"{against.difference:+.{row.digits}f}{deviations}"
        ),
        "status": f'<td data-v="{against.status}">{status}</td>',
    }


def _gap(each: Configuration, low: float, high: float) -> str:
    train, test = each.result.mean("train"), each.result.mean("test")
    if train is None or test is None or not math.isfinite(train.mean + test.mean):
        return number(None, "")
    worse = train.mean - test.mean if test.maximize else test.mean - train.mean
    return number(worse, f"{svg.gap(train.mean, test.mean, low, high)} {worse:+.3f}")


def _share(each: Configuration, name: str) -> str:
    mean = each.result.mean("test", name)
    return number(mean.mean if mean else None, f"{mean.mean:.1%}" if mean else "")


def _span(board: Board) -> tuple[float, float]:
    means = [each.result.mean(split) for each in board.rows for split in ("train", "test")]
    values = [each.mean for each in means if each and math.isfinite(each.mean)]
    return (min(values), max(values)) if values else (0.0, 1.0)


def _lower(board: Board) -> bool:
    tests = [each.result.mean("test") for each in board.rows]
    return any(each is not None and not each.maximize for each in tests)
