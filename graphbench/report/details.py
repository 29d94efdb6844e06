"""Details of a configuration: runs, scores, settings, commit, environment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

from graphbench.errors import UserError
from graphbench.report.gather import Configuration
from graphbench.report.markup import Column, anchor, number, plain_list, table, text
from graphbench.runs.data_facts import DataFacts
from graphbench.runs.record import RunRecord
from graphbench.runs.records import record_source
from graphbench.runs.summary import format_mean
from graphbench.tables.doubts import approximation_text
from graphbench.tables.provenance import commits_of
from graphbench.vocabulary import SPLITS


def left_out(configurations: Sequence[Configuration]) -> list[str]:
    """A sentence for every run that is in no mean."""
    return [
        f"{configuration.name}, run {run_id}: {reason}"
        for configuration in configurations
        for run_id, reason in configuration.result.left_out.items()
    ]


def details(configurations: Iterable[Configuration]) -> str:
    """A section per configuration, closed at first."""
    return "\n".join(map(_section, configurations))


def _section(configuration: Configuration) -> str:
    result, published = configuration.result, configuration.published
    facts = configuration.facts.cells()
    about = f"{escape(configuration.dataset)}, {format_mean(result.mean('test'))}"
    head = f"{escape(configuration.name)} <small>{about}</small>"
    pairs = {
        "configuration": f"{result.config}, hash {result.runs[0].config_hash}",
        "data": _data([run.data for run in result.runs]),
        "evaluation": "; ".join(
            [
                *sorted({run.approximation for run in result.runs if run.approximation}),
                *filter(None, [approximation_text(result.runs, result.metric or "")]),
            ]
        ),
        "commit": facts["commit"],
        "hardware": facts["hardware"],
        "published": f"{published.printed} ({configuration.source}, {published.model})" if published else "",
        "folder": str(configuration.folder),
    }
    listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in pairs.items() if value)
    parts = [f"<dl>{listed}</dl>", _runs(configuration.name, result.runs), _scores(configuration)]
    if result.left_out:
        parts.append(
            "<h4>Not included</h4>" + plain_list([f"run {run}: {reason}" for run, reason in result.left_out.items()])
        )
    parts.append(_environments(result.runs))
    try:
        settings = record_source(configuration.folder).settings()
    except UserError as error:
        parts.append(f'<p class="about">Full configuration: {escape(str(error))}</p>')
    else:
        shown = escape("\n".join(f"{key}: {json.dumps(value)}" for key, value in settings.items()))
        shown = f'<pre class="settings">{shown}</pre>'
        parts.append(f"<details><summary>Full configuration</summary>{shown}</details>")
    body = f'<div id="{anchor(configuration.name)}">{"".join(parts)}</div>'
    return f'<details class="run"{configuration.findable}><summary>{head}</summary>{body}</details>'


def _runs(name: str, runs: Sequence[RunRecord]) -> str:
    names = ["run", "seed", *SPLITS, "best epoch", "epochs", "ended by", "s/epoch", "total s", "resumed", "started"]
    columns = [Column(name, name not in ("ended by", "started", "commit")) for name in [*names, "commit"]]
    rows = []
    for run in runs:
        scores = [run.score(split) for split in SPLITS]
        times = [run.time_per_epoch, run.total_time]
        rows.append([
            number(int(run.run_id) if run.run_id.isdigit() else None, escape(run.run_id)),
            number(run.seed, str(run.seed)),
            *(number(value, "-" if value is None else f"{value:.4f}") for value in scores),
            number(run.best_epoch, str(run.best_epoch)),
            number(run.epochs, str(run.epochs)),
            text(run.reason or ""),
            *(number(value, "-" if value is None else f"{value:.3f}") for value in times),
            number(run.resumed, str(run.resumed)),
            text((run.started or "").replace("T", " ")[:16]),
            text(" ".join(commits_of(run))),
        ])  # fmt: skip
    return table(columns, rows, f"runs of {name}")


def _scores(configuration: Configuration) -> str:
    names = list(dict.fromkeys(mean.name for mean in configuration.result.means))
    columns = [Column("metric"), *(Column(split, True) for split in SPLITS)]
    rows = []
    for name in names:
        means = [configuration.result.mean(split, name) for split in SPLITS]
        rows.append([text(name), *(number(mean.mean if mean else None, format_mean(mean)) for mean in means)])
    shown = table(columns, rows, f"metrics of {configuration.name}")
    return f"<details><summary>All metrics</summary>{shown}</details>"


def _environments(runs: Sequence[RunRecord]) -> str:
    run_ids: dict[str, list[str]] = {}
    for run in runs:
        facts = {key: value for key, value in run.environment.items() if not key.startswith("git_")}
        run_ids.setdefault(json.dumps(facts, indent=1, sort_keys=True, default=str), []).append(run.run_id)
    parts = []
    for shown, ids in run_ids.items():
        which = f" of {'run' if len(ids) == 1 else 'runs'} {', '.join(ids)}" if len(run_ids) > 1 else ""
        parts.append(f"<details><summary>Environment{escape(which)}</summary><pre>{escape(shown)}</pre></details>")
    return "".join(parts)


def _data(facts: Sequence[DataFacts]) -> str:
    texts = {f"{data.name}, fingerprint {str(data.fingerprint)[:12]}" for data in facts}
    return "; ".join(sorted(texts))
