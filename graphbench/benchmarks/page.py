"""docs/performance.md: what the benchmarks of the CPU found, with a plot per group, hardware and date.

``scripts/bench.py page`` runs them, keeps the numbers in ``results/measured/performance.json``, and replaces everything
behind the heading :data:`HEADING`; what stands above is written by hand.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from graphbench.benchmarks.measuring import ROOT
from graphbench.plots import canvas
from graphbench.runs import atomic

GROUPS = {
    "sparse_flow": "Sparse flow beside softmax attention written in PyTorch",
    "start_up": "Start-up, CPU time",
    "loop": "The loop beside one written by hand, evaluation beside its forward passes",
    "peers": "Training beside the peers' own programs",
}
"""Benchmarks of the page, in its order, and their headings."""
HEADING = "## Measured\n"
PAGE, PLOTS = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance"
NUMBERS = ROOT / "results" / "measured" / "performance.json"


def write(measured: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Writes numbers, plots and page.

    Args:
        measured: per group the cases as the JSON line of a benchmark has them.
    """
    facts = {"date": datetime.date.today().isoformat(), "hardware": hardware(), "torch": torch.__version__}
    atomic.write_text(NUMBERS, json.dumps({**facts, "groups": measured}, indent=1) + "\n")
    PLOTS.mkdir(exist_ok=True)
    for group, cases in measured.items():
        draw(cases, PLOTS / f"{group}.svg")
    above = PAGE.read_text(encoding="utf-8").partition(HEADING)[0].rstrip()
    atomic.write_text(PAGE, f"{above}\n\n{HEADING}\n{section(facts, measured)}")


def section(facts: Mapping[str, str], measured: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The part of the page that is generated."""
    lines = [
        f"`python scripts/bench.py page` on {facts['date']}: {facts['hardware']}, torch {facts['torch']}. Medians; the",
        "ratio is peer / ours: above 1 ours is faster, or smaller. A stored figure of a peer says so in its name.",
    ]
    for group, cases in measured.items():
        lines += ["", f"### {GROUPS[group]}", "", f"![{GROUPS[group]}](performance/{group}.svg)", ""]
        lines += ["| case | ours | peer | beside | ratio | target | |", "|---|---|---|---|---|---|---|"]
        for case in cases:
            ours, peer = (_shown(case[side], case["unit"]) for side in ("ours", "peer"))
            met = "met" if case["met"] else "missed"
            ratio, target = f"{case['ratio']:.2f}", f"{case['target']:.2f}"
            lines.append(f"| {case['case']} | {ours} | {peer} | {case['peer_name']} | {ratio} | {target} | {met} |")
    return "\n".join(lines) + "\n"


def draw(cases: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Ratios of the cases as bars, on a logarithmic axis, with their targets."""
    with canvas.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2 * canvas.COLUMN, 0.6 + 0.22 * len(cases)), layout="constrained")
        axes = figure.add_subplot()
        places = range(len(cases), 0, -1)
        axes.barh(places, [case["ratio"] for case in cases], color=canvas.COLORS[0], height=0.6, label="measured")
        targets = [case["target"] for case in cases]
        axes.plot(targets, places, "|", color=canvas.COLORS[1], markersize=9, markeredgewidth=2, label="target")
        axes.set_yticks(places, [case["case"] for case in cases])
        axes.set_xscale("log")
        axes.axvline(1, color="black", linewidth=0.6)
        axes.set_xlabel("peer / ours")
        axes.legend(loc="lower right")
        figure.savefig(path, metadata={"Date": None})


def hardware() -> str:
    """Processor and number of cores that torch uses."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"


def _shown(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:,.0f} {unit}"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms"
