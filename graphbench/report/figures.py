"""Figures of the report: score over size and time, training curves, exactly-zero flows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

import numpy as np

from graphbench.errors import UserError
from graphbench.plots.traingap import Gap, read_gap
from graphbench.report import svg
from graphbench.report.gather import Board, Configuration
from graphbench.report.markup import Column, number, plain_list, table
from graphbench.runs.aggregate import Mean
from graphbench.runs.summary import STATISTICS, format_mean

FEW = 3
"""A scatter of fewer configurations says less than their table."""
STEPS = 200
"""Places of a curve that are drawn."""


def scatters(boards: Sequence[Board]) -> str:
    """Test score over parameters and over seconds per epoch, for every split with enough configurations."""
    parts, alone = [], 0
    often = Counter(each.label or each.name for board in boards for each in board.rows)
    usual = [label for label, _ in often.most_common(svg.COLORS)]  # a model has one colour in all figures
    for board in boards:
        groups: dict[tuple[str, str], list[tuple[Configuration, Mean]]] = {}
        for each in board.rows:
            test = each.result.mean("test")
            if test is not None and math.isfinite(test.mean):
                groups.setdefault(each.protocol, []).append((each, test))
        for (split, metric), members in groups.items():
            if len(members) < FEW:
                alone += len(members)
                continue
            parts.append(_scatter(f"{board.dataset}, {split}", metric, members, usual))
    left = [f"{alone} configurations are alone or in pairs on their split: their numbers are in the tables."]
    return "".join(parts) + plain_list(left if alone else [])


def curves(configurations: Sequence[Configuration], limit: int) -> str:
    """Training and test metric and loss over the epochs, where the runs' ``stats.json`` are beside the records."""
    parts, without = [], 0
    broken: list[str] = []
    candidates = [each for each in configurations if each.result.runs]
    for each in candidates:
        folders = [each.folder / run.run_id for run in each.result.runs]
        if not any((folder / "test" / "stats.json").is_file() for folder in folders):
            without += 1
        elif len(parts) < limit:
            try:
                parts.append(_curves(each))
            except (UserError, KeyError, TypeError, ValueError) as error:
                broken.append(f"{each.name}: {error}")
    notes = []
    if without:
        notes.append(
            f"{without} of {len(candidates)} configurations have records only, without the stats.json of their runs: "
            "no curves. Training and test score at the best validation epoch are in the tables above."
        )
    notes += broken
    left = len(candidates) - without - len(broken) - len(parts)
    if left:
        notes.append(f"Curves of {left} more configurations are left out (--limit {limit}).")
    return f'<div class="grid">{"".join(parts)}</div>{plain_list(notes)}'


def sparsity(configurations: Sequence[Configuration]) -> str:
    """Shares of exactly-zero flows, as the layers reported them on the test graphs."""
    columns = [
        Column("configuration"),
        Column("data set"),
        Column("reported"),
        Column("test", True),
        Column("share", True),
    ]
    rows = []
    for each in configurations:
        for name, heading in STATISTICS.items():
            mean = each.result.mean("test", name)
            if mean is not None:
                first = f'<th scope="row"><b>{escape(each.label or each.name)}</b></th>'
                words = [f"<td>{escape(word)}</td>" for word in (each.dataset, heading)]
                shown = [number(mean.mean, format_mean(mean)), number(mean.mean, svg.share(mean.mean))]
                rows.append([first, *words, *shown])
    silent = sum(
        not any(each.result.mean("test", name) for name in STATISTICS) for each in configurations if each.result.runs
    )
    notes = [f"Not recorded by {silent} configurations: their records carry no such share."]
    return (table(columns, rows) if rows else "") + plain_list(notes if silent else [])


def _scatter(title: str, metric: str, members: Sequence[tuple[Configuration, Mean]], usual: Sequence[str]) -> str:
    colors = _colors([each.label or each.name for each, _ in members], usual)
    panels = []
    for heading, of in (
        ("parameters", lambda each: each.facts.params[1] if each.facts.params else None),
        ("seconds per epoch", lambda each: each.facts.seconds),
    ):
        points = [
            svg.Point(
                float(place),
                mean.mean,
                mean.std if mean.std is not None and math.isfinite(mean.std) else 0.0,
                colors[each.label or each.name],
                f"{each.label or each.name}: {format_mean(mean)}, {place:,.4g} {heading}",
            )
            for each, mean in members
            if (place := of(each))  # unknown, or nothing to learn
        ]
        if points:
            panels.append(svg.scatter(points, heading, f"test {metric}"))
    named = {label: color for label, color in colors.items() if color < svg.COLORS}
    legend = "".join(f'<li class="c{color}">{escape(label)}</li>' for label, color in named.items())
    if len(colors) > len(named):
        legend += f'<li class="rest">{len(colors) - len(named)} others</li>'
    return (
        f'<figure class="wide"><figcaption>{escape(title)}</figcaption><div class="pair">{"".join(panels)}</div>'
        f'<ul class="legend">{legend}</ul></figure>'
    )


def _colors(labels: Sequence[str], usual: Sequence[str]) -> dict[str, int]:
    """A number for each label: the usual ones keep theirs, the others take what is free, then grey."""
    colors = {label: usual.index(label) for label in labels if label in usual}
    free = [color for color in range(svg.COLORS) if color not in colors.values()]
    others = [label for label in dict.fromkeys(labels) if label not in colors]
    return colors | {label: free[place] if place < len(free) else svg.COLORS for place, label in enumerate(others)}


def _curves(each: Configuration) -> str:
    metric = read_gap(each.folder)
    panels = [_panel(metric)]
    if metric.metric != "loss":
        panels.append(_panel(read_gap(each.folder, "loss")))
    final = float(np.nanmean(metric.values[:, -1]))
    about = f"{len(metric.train)} run{'s' * (len(metric.train) > 1)}; gap after epoch {metric.epochs[-1]}: {final:+.4f}"
    name = escape(f"{each.label} ({each.name})" if each.label else each.name)
    return (
        f"<figure><figcaption>{name}<small>{escape(each.dataset)}, {escape(about)}</small></figcaption>"
        f'{"".join(panels)}<ul class="legend"><li class="c0">train</li><li class="c1">test</li></ul></figure>'
    )


def _panel(gap: Gap) -> str:
    keep = np.unique(np.linspace(0, len(gap.epochs) - 1, STEPS).round().astype(int))
    lines = []
    for color, (name, values) in enumerate((("train", gap.train), ("test", gap.test))):
        fine = [place for place in keep if np.isfinite(values[:, place]).all()]
        if fine:
            part = values[:, fine]
            lines.append(svg.Line(gap.epochs[fine].tolist(), part.mean(0), part.min(0), part.max(0), color, name))
    return svg.curves(lines, "epoch", gap.metric) if lines else ""
