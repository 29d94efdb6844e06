"""Page of CPU benchmark results, with a plot per group, hardware and date: docs/performance.md.

``graphbench bench page`` measures one group after the other, keeps the numbers in
``results/measured/benchmarks/performance.json``, and writes everything behind the heading :data:`HEADING` anew after
each; what stands above is written by hand. A group that was measured today, on this hardware and from this source, is
kept: the command goes on where it was interrupted.
"""

from __future__ import annotations

import datetime
import json
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from graphbench import atomic
from graphbench.benchmarks.measuring import ROOT
from graphbench.errors import unknown
from graphbench.plots import canvas
from graphbench.runs.environment import environment

GROUPS = {
    "start_up": "Start-up, CPU time",
    "loop": "The loop beside one written by hand, evaluation beside its forward passes",
    "sparse_flow": "Sparse flow beside softmax attention written in PyTorch",
    "peers": "Training beside the peers' own programs",
}
"""Benchmarks of the page, in its order, and their headings."""
HEADING = "## Measured\n"
PAGE, PLOTS = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance"
NUMBERS = ROOT / "results" / "measured" / "benchmarks" / "performance.json"

Group = Mapping[str, Any]
"""Facts of a measurement and its cases, as the JSON line of a benchmark has them."""


def measure(benchmark: Callable[[str], Sequence[Mapping[str, Any]]], groups: Sequence[str] = ()) -> None:
    """Measures and writes the page.

    Args:
        benchmark: the cases of a group.
        groups: measured in any case; none: all that are not measured yet.

    Raises:
        UserError: an unknown group.
    """
    for group in groups:
        if group not in GROUPS:
            raise unknown("group of the page (--groups)", group, GROUPS)
    facts, measured = _facts(), _measured()
    for number, group in enumerate(GROUPS, 1):
        known = {name: value for name, value in measured.get(group, {}).items() if name in facts}
        if group not in (groups or GROUPS) or (not groups and known == facts):
            _say(f"{number} of {len(GROUPS)}: {group} is kept")
            continue
        _say(f"{number} of {len(GROUPS)}: {group} is measured")
        start = time.perf_counter()
        measured[group] = {**facts, "cases": list(benchmark(group))}
        write(measured)
        _say(f"{number} of {len(GROUPS)}: {group} took {time.perf_counter() - start:.0f} s")


def write(measured: Mapping[str, Group]) -> None:
    """Writes numbers, plots and page."""
    atomic.write_text(NUMBERS, json.dumps(measured, indent=1) + "\n")
    PLOTS.mkdir(exist_ok=True)
    for name, group in measured.items():
        draw(group["cases"], PLOTS / f"{name}.svg")
    above = PAGE.read_text(encoding="utf-8").partition(HEADING)[0].rstrip()
    atomic.write_text(PAGE, f"{above}\n\n{HEADING}\n{section(measured)}")


def section(measured: Mapping[str, Group]) -> str:
    """The part of the page that is generated."""
    lines = [
        "Medians of measurements in turns, by `python scripts/bench.py page`. The ratio is peer / ours: above 1 ours",
        "takes less. A stored figure of a peer says so in its name.",
    ]
    for name, heading in GROUPS.items():
        if name not in measured:
            continue
        group = measured[name]
        lines += ["", f"### {heading}", "", f"![{heading}](performance/{name}.svg)", ""]
        lines += [
            f"`python scripts/bench.py {name}` on {group['date']}, {group['hardware']}, torch {group['torch']}:",
            "",
        ]
        lines += ["| case | ours | peer | beside | ratio | target | |", "|---|---|---|---|---|---|---|"]
        for case in group["cases"]:
            ours, peer = (_shown(case[side], case["unit"]) for side in ("ours", "peer"))
            met = "met" if case["met"] else "missed"
            ratio, target = f"{case['ratio']:.2f}", f"{case['target']:.2f}"
            lines.append(f"| {case['case']} | {ours} | {peer} | {case['peer_name']} | {ratio} | {target} | {met} |")
    return "\n".join(lines) + "\n"


def draw(cases: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Ratios of the cases as bars, on a logarithmic axis, with their targets."""
    with canvas.style():
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

        figure = Figure(figsize=(2 * canvas.COLUMN, 0.8 + 0.22 * len(cases)), layout="constrained")
        axes = figure.add_subplot()
        places = range(len(cases), 0, -1)
        ratios, targets = ([case[name] for case in cases] for name in ("ratio", "target"))
        colors = [canvas.COLORS[0 if case["met"] else 5] for case in cases]
        axes.barh(places, [ratio - 1 for ratio in ratios], left=1, color=colors, height=0.6)
        for place, ratio in zip(places, ratios, strict=True):
            axes.text(1.01, place, f"{ratio:.2f}", transform=axes.get_yaxis_transform(), va="center", fontsize=6)
        (target,) = axes.plot(targets, places, "|", color=canvas.COLORS[1], markersize=9, markeredgewidth=2)
        axes.set_yticks(places, [case["case"] for case in cases])
        axes.set_ylim(0.4, len(cases) + 0.6)
        axes.set_xscale("log")
        axes.set_xlim(0.8 * min(*ratios, *targets, 1), 1.25 * max(*ratios, *targets, 1))
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.axvline(1, color="black", linewidth=0.6)
        axes.set_xlabel("peer / ours")
        axes.legend([target], ["target (lighter bar: missed)"], loc="lower center", bbox_to_anchor=(0.5, 1.0))
        figure.savefig(path, metadata={"Date": None})


def hardware() -> str:
    """Processor and number of cores that torch uses."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"


def _facts() -> dict[str, str | None]:
    """Date, hardware and versions that a measurement belongs to."""
    today = datetime.date.today().isoformat()
    source = environment()["source"]
    return {"date": today, "hardware": hardware(), "torch": torch.__version__, "source": source}


def _measured() -> dict[str, Any]:
    return json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.is_file() else {}


def _say(line: str) -> None:
    print(f"page: {line}", file=sys.stderr, flush=True)


def _shown(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:,.0f} {unit}"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms"
