"""What stands behind each number: runs, scores, settings, commit, environment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from graphbench.errors import UserError
from graphbench.report.gather import Configuration
from graphbench.report.markup import Column, anchor, number, plain_list, table, text
from graphbench.runs.history import SPLITS
from graphbench.runs.record import RunRecord
from graphbench.runs.records import record_source
from graphbench.runs.summary import format_mean
from graphbench.tables.provenance import commit_of


def left_out(configurations: Sequence[Configuration]) -> list[str]:
    """A sentence for every run that is in no mean."""
    return [f"{each.name}, run {run}: {why}" for each in configurations for run, why in each.result.left_out.items()]


def details(configurations: Iterable[Configuration]) -> str:
    """A section per configuration, closed until it is asked for."""
    return "\n".join(_section(each) for each in configurations)


def _section(each: Configuration) -> str:
    result = each.result
    facts = each.facts.cells()
    head = f"{escape(each.name)} <small>{escape(each.dataset)}, {format_mean(result.mean('test'))}</small>"
    pairs = {
        "configuration": f"{result.config}, hash {result.runs[0].config_hash}",
        "data": _data([run.data for run in result.runs]),
        "commit": facts["commit"],
        "hardware": facts["hardware"],
        "published": f"{each.published.printed} ({each.source}, {each.published.model})" if each.published else "",
        "folder": str(each.folder),
    }
    listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in pairs.items() if value)
    parts = [f"<dl>{listed}</dl>", _runs(result.runs), _scores(each)]
    if result.left_out:
        parts.append(
            "<h4>Not included</h4>" + plain_list([f"run {run}: {why}" for run, why in result.left_out.items()])
        )
    parts.append(_environments(result.runs))
    try:
        settings = record_source(each.folder).settings()
    except UserError as error:
        parts.append(f'<p class="about">Full configuration: {escape(str(error))}</p>')
    else:
        shown = escape("\n".join(f"{key}: {json.dumps(value)}" for key, value in settings.items()))
        parts.append(f"<details><summary>Full configuration</summary><pre>{shown}</pre></details>")
    inside = "".join(parts)
    return f'<details class="run"><summary>{head}</summary><div id="{anchor(each.name)}">{inside}</div></details>'


def _runs(runs: Sequence[RunRecord]) -> str:
    columns = [Column(name, name not in ("ended by", "started", "commit")) for name in (
        "run", "seed", "train", "val", "test", "best epoch", "epochs", "ended by", "s/epoch", "total s", "resumed",
        "started", "commit",
    )]  # fmt: skip
    rows = []
    for run in runs:
        scores = [(value := run.score(split), "-" if value is None else f"{value:.4f}") for split in SPLITS]
        times = [run.time_per_epoch, run.total_time]
        rows.append([
            number(int(run.run_id) if run.run_id.isdigit() else None, escape(run.run_id)),
            number(run.seed, str(run.seed)),
            *(number(*each) for each in scores),
            number(run.best_epoch, str(run.best_epoch)),
            number(run.epochs, str(run.epochs)),
            text(run.reason or ""),
            *(number(value, "-" if value is None else f"{value:.3f}") for value in times),
            number(run.resumed, str(run.resumed)),
            text((run.started or "").replace("T", " ")[:16]),
            text(commit_of(run)),
        ])  # fmt: skip
    return table(columns, rows)


def _scores(each: Configuration) -> str:
    names = list(dict.fromkeys(mean.name for mean in each.result.means))
    columns = [Column("metric"), *(Column(split, True) for split in SPLITS)]
    rows = []
    for name in names:
        means = [each.result.mean(split, name) for split in SPLITS]
        rows.append([text(name), *(number(mean.mean if mean else None, format_mean(mean)) for mean in means)])
    return f"<details><summary>All metrics</summary>{table(columns, rows)}</details>"


def _environments(runs: Sequence[RunRecord]) -> str:
    kinds: dict[str, list[str]] = {}
    for run in runs:
        facts = {key: value for key, value in run.environment.items() if not key.startswith("git_")}
        kinds.setdefault(json.dumps(facts, indent=1, sort_keys=True, default=str), []).append(run.run_id)
    parts = []
    for shown, ids in kinds.items():
        which = f" of run{'s' * (len(ids) > 1)} {', '.join(ids)}" if len(kinds) > 1 else ""
        parts.append(f"<details><summary>Environment{escape(which)}</summary><pre>{escape(shown)}</pre></details>")
    return "".join(parts)


def _data(facts: Sequence[Mapping[str, Any]]) -> str:
    found = {f"{each.get('name')}, fingerprint {str(each.get('fingerprint'))[:12]}" for each in facts}
    return "; ".join(sorted(found))
