"""Figures of the report: score over size and time, training curves, exactly-zero flows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

import numpy as np

from graphbench.errors import UserError
from graphbench.plots.traingap import MAX_MARKED, read_gap
from graphbench.report import svg
from graphbench.report.gather import Board, Configuration
from graphbench.report.markup import Column, anchor, findable, number, plain_list, table, text
from graphbench.runs.aggregate import Mean
from graphbench.runs.history import read_curve
from graphbench.runs.summary import STATISTICS, format_mean

MIN_POINTS = 3
"""Configurations that a scatter plot needs at least."""
MAX_EPOCHS = 200
"""Points of a curve that are drawn at most."""
SPLIT_COLORS = ((0, "train"), (2, "val"), (1, "test"))
"""Colours of the curves; training and test as in the leaderboards."""


def scatters(boards: Sequence[Board]) -> str:
    """Test score over parameters and over seconds per epoch, for every split with enough configurations."""
    alone = 0
    parts: list[str] = []
    count = Counter(row.label or row.name for board in boards for row in board.rows)
    frequent = [label for label, _ in count.most_common(svg.COLORS)]  # a model has one colour in all figures
    for board in boards:
        groups: dict[tuple[str, str], list[tuple[Configuration, Mean]]] = {}
        for row in board.rows:
            test = row.result.mean("test")
            if test is not None and math.isfinite(test.mean):
                groups.setdefault(row.protocol, []).append((row, test))
        for (split, metric), members in groups.items():
            if len(members) < MIN_POINTS:
                alone += len(members)
                continue
            parts.append(_scatter(f"{board.dataset}, {split}", metric, members, frequent))
    note = f"{alone} configurations are alone or in pairs on their split: their numbers are in the tables."
    return "".join(parts) + plain_list([note] if alone else [])


def overlays(boards: Sequence[Board]) -> str:
    """Validation of the configurations of a data set and split in one picture, where two or more have curves."""
    parts = []
    for board in boards:
        groups: dict[tuple[str, str], list[Configuration]] = {}
        for row in board.rows:
            groups.setdefault(row.protocol, []).append(row)
        for (split, metric), members in groups.items():
            labels = [row.label or row.name for row in members]
            colors = _colors(labels, ())
            try:
                lines = [_line(row, metric, "val", colors[label], label) for row, label in zip(members, labels)]
            except (KeyError, TypeError, ValueError):  # a damaged file; the section below names it
                continue
            drawn = [line for line in lines if line is not None]
            if len(drawn) > 1:
                legend = "".join(
                    f'<li class="{"rest" if line.color >= svg.COLORS else f"c{line.color}"}">{escape(line.title)}</li>'
                    for line in drawn
                )
                caption = f"{escape(board.dataset)}<small>{escape(split)}, validation</small>"
                parts.append(
                    f"<figure{_findable(members)}><figcaption>{caption}</figcaption>"
                    f'{svg.curves(drawn, "epoch", metric)}<ul class="legend">{legend}</ul></figure>'
                )
    return f'<div class="grid">{"".join(parts)}</div>' if parts else ""


def curves(configurations: Sequence[Configuration], limit: int) -> str:
    """Metric and loss of all splits over the epochs, where the runs' ``stats.json`` are beside the records."""
    without = 0
    parts: list[str] = []
    broken: list[str] = []
    candidates = [configuration for configuration in configurations if configuration.result.runs]
    for configuration in candidates:
        folders = [configuration.folder / run_id for run_id in configuration.run_ids]
        if not any((folder / "test" / "stats.json").is_file() for folder in folders):
            without += 1
        elif len(parts) < limit:
            try:
                parts.append(_curves(configuration))
            except (UserError, KeyError, TypeError, ValueError) as error:
                broken.append(f"{configuration.name}: {error}")
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
    """Fractions of exactly-zero flows, as the layers reported them on the test graphs."""
    columns = [
        Column("configuration"),
        Column("data set"),
        Column("reported"),
        Column("test", True),
        Column("share", True),
    ]
    rows, attributes = [], []
    without = 0
    for configuration in configurations:
        means = {heading: configuration.result.mean("test", name) for name, heading in STATISTICS.items()}
        without += bool(configuration.result.runs) and not any(means.values())
        for heading, mean in means.items():
            if mean is not None:
                first = f'<th scope="row"><b>{escape(configuration.label or configuration.name)}</b></th>'
                numbers = [number(mean.mean, format_mean(mean)), number(mean.mean, svg.fraction_bar(mean.mean))]
                rows.append([first, text(configuration.dataset), text(heading), *numbers])
                attributes.append(configuration.findable)
    note = f"Not recorded by {without} configurations: their records carry no such share."
    shown = table(columns, rows, "Exactly-zero flows", attributes) if rows else ""
    return shown + plain_list([note] if without else [])


def _scatter(title: str, metric: str, members: Sequence[tuple[Configuration, Mean]], frequent: Sequence[str]) -> str:
    colors = _colors([row.label or row.name for row, _ in members], frequent)
    panels = []
    for heading, values in (
        ("parameters", [row.facts.params[1] if row.facts.params else None for row, _ in members]),
        ("seconds per epoch", [row.facts.seconds for row, _ in members]),
    ):
        points = []
        for (row, mean), value in zip(members, values, strict=True):
            label = row.label or row.name
            std = mean.std if mean.std is not None and math.isfinite(mean.std) else 0.0
            if value:  # not: unknown, or nothing to learn
                tooltip = f"{label}: {format_mean(mean)}, {value:,.4g} {heading}"
                points.append(svg.Point(float(value), mean.mean, std, colors[label], tooltip))
        if points:
            panels.append(svg.scatter(points, heading, f"test {metric}"))
    named = {label: color for label, color in colors.items() if color < svg.COLORS}
    legend = "".join(f'<li class="c{color}">{escape(label)}</li>' for label, color in named.items())
    if len(colors) > len(named):
        legend += f'<li class="rest">{len(colors) - len(named)} others</li>'
    found = _findable([row for row, _ in members])
    return (
        f'<figure class="wide"{found}><figcaption>{escape(title)}</figcaption><div class="pair">{"".join(panels)}</div>'
        f'<ul class="legend">{legend}</ul></figure>'
    )


def _findable(members: Sequence[Configuration]) -> str:
    """Attributes of a picture of several configurations: the filters show it for each of them."""
    words = [word for row in members for word in (row.name, row.label, row.dataset, *row.protocol)]
    states = [row.cell.status if row.cell else "" for row in members]
    return findable(dict.fromkeys(words), {row.dataset for row in members}, {row.group for row in members}, set(states))


def _colors(labels: Sequence[str], frequent: Sequence[str]) -> dict[str, int]:
    """A colour per label: frequent ones have a fixed colour, the others take what is free, then grey."""
    colors = {label: frequent.index(label) for label in labels if label in frequent}
    free = [color for color in range(svg.COLORS) if color not in colors.values()]
    others = [label for label in dict.fromkeys(labels) if label not in colors]
    return colors | {label: free[index] if index < len(free) else svg.COLORS for index, label in enumerate(others)}


def _curves(configuration: Configuration) -> str:
    metric = str(configuration.result.metric)
    panels = [_panel(configuration, name) for name in dict.fromkeys([metric, "loss"])]
    if not any(panels):
        raise UserError("its stats.json have no epoch that all runs have evaluated.")
    count = len(configuration.run_ids)
    runs = f"{configuration.dataset}, {count} run{'' if count == 1 else 's'}"
    about = "; ".join([runs, *_last_gap(configuration)])
    name = configuration.name
    name = escape(f"{configuration.label} ({name})" if configuration.label else name)
    legend = "".join(f'<li class="c{color}">{split}</li>' for color, split in SPLIT_COLORS)
    return (
        f'<figure data-config="{anchor(configuration.name)}"{configuration.findable}>'
        f"<figcaption>{name}<small>{escape(about)}</small></figcaption>"
        f'{"".join(panels)}<ul class="legend">{legend}</ul></figure>'
    )


def _last_gap(configuration: Configuration) -> list[str]:
    """``gap after epoch 99: +0.0312``, where an epoch has the metric of both training and test."""
    try:
        gap = read_gap(configuration.folder)
    except UserError:
        return []
    return [f"gap after epoch {gap.epochs[-1]}: {float(np.nanmean(gap.values[:, -1])):+.4f}"]


def _panel(configuration: Configuration, metric: str) -> str:
    """A line per split over the epochs in which it was evaluated, with dots where these are few."""
    lines = [_line(configuration, metric, split, color, split) for color, split in SPLIT_COLORS]
    drawn = [line for line in lines if line is not None]
    return svg.curves(drawn, "epoch", metric) if drawn else ""


def _line(configuration: Configuration, metric: str, split: str, color: int, title: str) -> svg.Line | None:
    """Mean and range over the runs in the epochs in which all have evaluated a split; None without such an epoch."""
    runs = configuration.result.runs
    curves = [read_curve(configuration.folder / run.run_id, split, metric, run) for run in runs]
    common = sorted(set.intersection(*map(set, curves))) if curves else []
    epochs = [epoch for epoch in common if all(math.isfinite(curve[epoch]) for curve in curves)]
    if not epochs:
        return None
    keep = np.unique(np.linspace(0, len(epochs) - 1, MAX_EPOCHS).round().astype(int))
    shown = [epochs[index] for index in keep]
    values = np.array([[curve[epoch] for epoch in shown] for curve in curves])
    return svg.Line(shown, values.mean(0), values.min(0), values.max(0), color, title, len(epochs) <= MAX_MARKED)
