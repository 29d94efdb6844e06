"""Lists records whose numbers need a second look: ``graphbench audit RECORDS...``.

RECORDS are folders at any height above ``record.json`` files, or packed files. Versions before 2026-11-23 did not store
what a run was made of and compared its configuration only. Listed are

    mixed      runs of one configuration on different data, splits, plug-ins or weights, which were averaged together
    resumed    runs taken up again without a comparison of their data: possibly trained on two data sets
    judged     pretrained models applied or fine-tuned without a comparison of splits: possibly on training examples
    base       runs that started from the run of another number, where others of their configuration did from their own:
               on SLURM, versions before 2026-11-26 did so when only one run of the base was there
    two splits configurations whose hash stood for two splits (dataset.split written or not); the sizes tell which
    epochs     means per epoch in agg/*/stats.json over the runs that improved in it, under the number of all runs
    unknown    records without digests of what they were made of; they compare as unknown, the rest of them holds
    unreadable folders of runs whose record.json is missing, cut short, or not the one that was written (its checksum)

and nothing is changed. Exit code 0, whatever is listed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from graphbench import registry
from graphbench.command_line import CommandParser
from graphbench.config.settings import baseline
from graphbench.errors import UserError
from graphbench.exit_codes import exit_codes
from graphbench.runs.aggregate import aggregate
from graphbench.runs.history import read_lines
from graphbench.runs.record import RunRecord
from graphbench.runs.record_index import indexed
from graphbench.runs.records import RecordSource, record_sources
from graphbench.vocabulary import SPLITS


def audit(roots: Sequence[Path]) -> Iterator[tuple[str, str, str]]:
    """Kind, configuration and sentence of everything that is listed.

    Raises:
        UserError: no record below ``roots``.
    """
    sources = [source for root in roots for source in record_sources(root)]
    if not sources:
        raise UserError(f"no record.json below {', '.join(map(str, roots))}.")
    for source in sources:
        found = source.records(source.run_ids())
        records = [record for record in found.values() if record]
        unread = [run_id for run_id, record in found.items() if record is None]
        if unread:
            yield "unreadable", str(source.path), f"record.json missing, damaged or edited: runs {', '.join(unread)}"
        for kind, text in (*_of_runs(source, records), *_of_epochs(source)):
            yield kind, str(source.path), text


def _of_runs(source: RecordSource, records: Sequence[RunRecord]) -> Iterator[tuple[str, str]]:
    for run_id, reason in aggregate(source.path).left_out.items():
        if reason.startswith("other ") and reason != "other configuration":
            yield "mixed", f"run {run_id}: {reason}"
    bases = {each.run_id: Path(each.data.pretrained.run).name for each in records if each.data.pretrained is not None}
    others = [run_id for run_id, base in bases.items() if base != run_id]
    if others and len(set(bases.values())) > 1:  # a single one may serve all
        yield "base", f"started from the run of another number: runs {', '.join(others)}"
    older = [record for record in records if not record.inputs]
    for kind, sentence, members in (
        ("resumed", "taken up again", [record for record in older if record.resumed]),
        ("judged", "from a pretrained model", [record for record in older if "pretrained.dir" in record.settings]),
        ("two splits", "dataset.split written or not", [record for record in older if _is_ambiguous(record)]),
        ("unknown", "split, plug-ins, weights", older),
    ):
        if members:
            sizes = dict.fromkeys("/".join(map(str, record.data.sizes.values())) for record in members)
            yield kind, f"{sentence}: runs {', '.join(record.run_id for record in members)} ({', '.join(sizes)})"


def _is_ambiguous(record: RunRecord) -> bool:
    """Whether the sizes of the split had another default than the one that its hash was made with."""

    def setting(key: str) -> object:
        return record.settings.get(key, baseline(key))

    family = str(setting("dataset.format"))
    if not record.settings or "dataset.split" in record.settings or family not in registry.names(registry.DATASETS):
        return False
    builder = registry.lookup(registry.DATASETS, family)
    sizes = builder.default_sizes(str(setting("dataset.name")), str(setting("dataset.split_mode")))
    return bool(list(sizes) != baseline("dataset.split"))


def _of_epochs(source: RecordSource) -> Iterator[tuple[str, str]]:
    records = source.records(source.run_ids())
    for split in SPLITS:
        runs = [_by_epoch(read_lines(source.path / run_id, split, record)) for run_id, record in records.items()]
        counts = Counter((epoch, name) for run in runs for epoch, values in run.items() for name in values)
        for epoch, mean in _by_epoch(read_lines(source.path / "agg", split, None)).items():
            few = [name for name in mean if counts[epoch, name] and counts[epoch, name] < (mean.get("n") or 0)]
            if few and not any(name.endswith("_n") for name in mean):
                yield "epochs", f"agg/{split}/stats.json: {', '.join(few)} (epoch {epoch} first); train once more"
                break


def _by_epoch(lines: Sequence[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {line.pop("epoch"): line for line in lines}


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for everything that is listed, and a count of each kind."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("records", nargs="+", type=Path, metavar="RECORDS", help="folders, or packed files")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    with indexed(options.records):
        for kind, configuration, text in audit(options.records):
            counts[kind] += 1
            print(f"{kind:10} {configuration}: {text}")
    print("listed: " + (", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing"), file=sys.stderr)
    return 0
