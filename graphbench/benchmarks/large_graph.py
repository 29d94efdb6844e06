"""Seconds and peak memory of an epoch against the size of a graph, of several models (docs/large-graphs.md).

``graphbench bench large_graph`` measures graphs of 1 and 10 million nodes, and one of 100 million whose files
are larger than the limit, each model in a fresh process (:mod:`graphbench.benchmarks.large_graph_epoch`). Resident
memory is held against the limit; at 100 million nodes it is the memory that the system cannot take back (anonymous
pages): mapped files stay resident only while there is room. ``--memory-limit 6`` leaves no more room than that
(:mod:`graphbench.benchmarks.memory_limit`), whatever the machine has. In steps, of which a training cannot be broken
off, the same command until it exits with 0; one graph at a time (at most 10 GiB) stays in FOLDER while models wait for
it::

    python -m graphbench.benchmarks.large_graph --keep FOLDER [--only MODEL-NODES ...] [--memory-limit GIB]
"""

from __future__ import annotations

import datetime
import json
import math
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from graphbench import atomic
from graphbench.benchmarks import memory_limit
from graphbench.benchmarks.case import Case
from graphbench.benchmarks.large_graph_epoch import MODELS
from graphbench.benchmarks.measuring import ROOT
from graphbench.benchmarks.page import hardware
from graphbench.command_line import CommandParser
from graphbench.errors import RunFailed
from graphbench.exit_codes import exit_codes

SIZES = ((1_000_000, 10_000_000), (10_000_000, 100_000_000))
"""Nodes and edges of the graphs of all models."""
LARGEST = (100_000_000, 400_000_000)
"""Nodes and edges of the largest graph, of GraphSAGE alone."""
LIMIT = 6 * 1024.0
"""MiB, of all graphs."""
NUMBERS = ROOT / "results" / "measured" / "benchmarks" / "large-graph.json"
PAGE = ROOT / "docs" / "large-graphs.md"
HEADING, NEXT = "## Epochs on generated graphs\n", "## Measured\n"

Row = Mapping[str, Any]
"""Result of one measurement, with its model, nodes, edges, date, hardware and limit (GiB; None: there was none)."""


def run(keep: Path | None = None, only: Collection[str] = (), limit: float | None = None) -> list[Case]:
    """Measures what is not measured yet, writes the page after each, and holds peaks and exponents against limits.

    Args:
        keep: folder for the graph and what was measured, with which a second call goes on; None: nothing is kept.
        only: ``MODEL-NODES`` of the measurements to make; none: all of them.
        limit: GiB that the system leaves each measurement, pages of files included; None: all there are.
    """
    with tempfile.TemporaryDirectory() if keep is None else nullcontext(keep) as folder:
        found = Path(folder) / "measured.json"
        rows: list[Row] = json.loads(found.read_text()) if found.exists() else []
        for size in (*SIZES, LARGEST):
            known = {row["model"] for row in rows if (row["nodes"], row.get("limit_gib")) == (size[0], limit)}
            for model in MODELS if size != LARGEST else ("GraphSAGE",):
                if model not in known and (not only or f"{model}-{size[0]}" in only):
                    rows.append(_measure(model, *size, Path(folder), limit))
                    atomic.write_text(found, json.dumps(rows))
                    write(rows)
            for graph in Path(folder).glob(f"graph-{size[0]}-*"):
                shutil.rmtree(graph)
    return cases(rows)


def _measure(model: str, nodes: int, edges: int, folder: Path, gib: float | None) -> Row:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "graphbench.benchmarks.large_graph_epoch"]
    command += [model, str(nodes), str(edges), str(folder.resolve())]
    limit = nullcontext(list[str]()) if gib is None else memory_limit.limited(round(gib * 2**30))
    with limit as prefix:
        if gib is not None:
            memory_limit.forget_cached(folder)
        done = subprocess.run([*prefix, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if gib is not None and done.returncode == -signal.SIGKILL:
        raise RunFailed(f"{model} with {nodes:,} nodes was killed under a limit of {gib:g} GiB.")
    done.check_returncode()
    facts = {"date": datetime.date.today().isoformat(), "hardware": hardware(), "limit_gib": gib}
    return {"model": model, "nodes": nodes, "edges": edges, **facts, **json.loads(done.stdout.splitlines()[-1])}


def cases(rows: Sequence[Row]) -> list[Case]:
    """Peaks beside the limit, and the exponents of models that were measured on two sizes."""
    found = []
    for row in rows:
        name = (
            f"{row['model']}, {row['nodes']:,} nodes, {row['edges']:,} edges: peak memory of one epoch and evaluation"
        )
        name += _under(row.get("limit_gib"))
        found.append(Case(name, "limit", [_peak(row)], [LIMIT], target=1.0, unit="MiB"))
    for model, gib in dict.fromkeys((row["model"], row.get("limit_gib")) for row in rows):
        exponent = _exponent(rows, model, gib)
        if exponent is not None:
            name = f"{model}: exponent of the seconds in the number of nodes{_under(gib)}"
            found.append(Case(name, "linear", [exponent], [1.0], target=0.8, unit="exponent"))
    return found


def _under(gib: float | None) -> str:
    return "" if gib is None else f", under a limit of {gib:g} GiB"


def _peak(row: Row) -> float:
    """MiB: resident, or anonymous where the files alone are larger than the limit."""
    return float(row["peak_mib" if row["nodes"] < LARGEST[0] else "anonymous_mib"])


def _exponent(rows: Sequence[Row], model: str, gib: float | None) -> float | None:
    """Exponent b of seconds ~ nodes^b between the two sizes under the same limit; None: they are not both measured."""
    alike = [row for row in rows if (row["model"], row.get("limit_gib")) == (model, gib)]
    seconds = {row["nodes"]: row["train_and_evaluate_cpu_s"] for row in alike}
    few, many = (nodes for nodes, _ in SIZES)
    return math.log(seconds[many] / seconds[few]) / math.log(many / few) if {few, many} <= seconds.keys() else None


def write(rows: Sequence[Row]) -> None:
    """Writes numbers and page; what was measured earlier stays, unless it was measured again."""
    earlier = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else []
    by_key = {(row["nodes"], row["model"], row.get("limit_gib") or 0): row for row in (*earlier, *rows)}
    kept = [by_key[key] for key in sorted(by_key)]
    atomic.write_text(NUMBERS, json.dumps(kept, indent=1) + "\n")
    above, _, below = PAGE.read_text(encoding="utf-8").partition(NEXT)
    above = above.partition(HEADING)[0].rstrip()
    atomic.write_text(PAGE, f"{above}\n\n{HEADING}\n{section(kept)}\n{NEXT}{below}")


def section(rows: Sequence[Row]) -> str:
    """The part of the page that is generated."""
    lines = [
        "`python scripts/bench.py large_graph`: power-law graphs, one epoch and the evaluation of validation and test",
        "part (SGFormer and GECO: parts of 200,000 nodes, exact evaluation in blocks; GraphSAGE: (15, 10, 5) sampled",
        "neighbours of 100,000 training nodes and of as many others). Seconds of the processor and on the clock, which",
        f"other programs and the disk slow down. {LIMIT / 1024:.0f} GiB are asked for; under a limit",
        "(`python -m graphbench.benchmarks.large_graph --memory-limit 6`) the system leaves no more than it, pages of",
        "files included, except those of libraries that other programs use, too. Resident memory without a limit is",
        "what there was room for.",
        "",
        "| model | nodes | edges | limit | seconds | clock | exponent | resident | anonymous | accuracy | measured |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        gib, clock = row.get("limit_gib"), row.get("train_and_evaluate_s")
        exponent = _exponent(rows, row["model"], gib) if row["nodes"] == SIZES[-1][0] else None
        lines.append(
            f"| {row['model']} | {row['nodes']:,} | {row['edges']:,} | {f'{gib:g} GiB' if gib else ''} | "
            f"{row['train_and_evaluate_cpu_s']:.0f} | {'' if clock is None else f'{clock:.0f}'} | "
            f"{'' if exponent is None else f'{exponent:.2f}'} | {row['peak_mib']:,.0f} MiB | "
            f"{row['anonymous_mib']:,.0f} MiB | {row['test_accuracy']:.3f} | {row['date']}, {row['hardware']} |"
        )
    return "\n".join(lines) + "\n"


@exit_codes
def main() -> int:
    """The command line."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--only", nargs="+", default=(), metavar="MODEL-NODES")
    parser.add_argument("--memory-limit", dest="limit", type=float, metavar="GIB")
    run(**vars(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
