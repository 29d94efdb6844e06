"""Models over several data sets: mean ranks with Nemenyi's critical difference, one picture per sweep."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

from graphbench.report import critical_difference
from graphbench.report.gather import Configuration
from graphbench.report.markup import findable, plain_list
from graphbench.tables.mean_ranks import MeanRanks, mean_ranks


def rankings(configurations: Sequence[Configuration]) -> str:
    """A diagram for every folder of configurations with enough models on enough data sets; empty without any."""
    groups: dict[str, list[Configuration]] = {}
    for configuration in configurations:
        groups.setdefault(configuration.group, []).append(configuration)
    return "".join(_figure(name, members) for name, members in groups.items())


def _figure(group: str, members: Sequence[Configuration]) -> str:
    scores, maximize = _scores(members)
    result = mean_ranks(scores, maximize)
    if result is None:
        return ""
    datasets = f"{len(result.datasets)} data sets ({', '.join(result.datasets)})"
    about = f"{datasets}; Friedman's test: p = {result.p_value:.2g}"
    notes = plain_list([f"Left out: {'; '.join(result.left_out)}."] if result.left_out else [])
    attributes = findable([group, *result.models, *result.datasets], result.datasets, [group], [])
    caption = f"{escape(group or 'all')}<small>{escape(about)}</small>"
    return (
        f'<figure class="wide"{attributes}><figcaption>{caption}</figcaption>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="diagram">{critical_difference.draw(result)}</div>'
        f"{_told_apart(result)}{notes}</figure>"
    )


def _scores(members: Sequence[Configuration]) -> tuple[dict[str, dict[str, float]], dict[str, bool]]:
    """Mean test score by model and data set, and the direction of each; of a data set the split with most models."""
    protocols = {row.dataset: Counter[tuple[str, str]]() for row in members}
    for row in members:
        protocols[row.dataset][row.protocol] += 1
    scores: dict[str, dict[str, float]] = {}
    maximize: dict[str, bool] = {}
    for row in members:
        test = row.result.mean("test")
        if test is None or row.protocol != protocols[row.dataset].most_common(1)[0][0]:
            continue
        if math.isfinite(test.mean) and not (row.cell and row.cell.stale):
            scores.setdefault(row.model, {}).setdefault(row.dataset, test.mean)
            maximize[row.dataset] = test.maximize
    return scores, maximize


def _told_apart(result: MeanRanks) -> str:
    text = (
        f"Mean rank over the data sets, 1 is best. Models under one bar are not told apart: their mean ranks differ by "
        f"less than the critical difference {result.critical_difference:.2f} (Nemenyi, 5 %)."
    )
    return f'<p class="about">{escape(text)}</p>'
