"""Cost of ogbn-papers100M and PCQM4Mv2, estimated from generated fractions of them (docs/large-graphs.md).

``graphbench bench out_of_core`` measures 1:1000, 1:300 and 1:100 (:mod:`graphbench.benchmarks.scaled_data`),
fits t = a + b * size with a, b >= 0 to every stage, keeps the numbers in
``results/measured/benchmarks/out-of-core.json``, and writes page and plot. Times are those of the processor. Other
fractions, in steps (1:10 takes 20 GiB of FOLDER and of $TMPDIR), the same command until it exits with 0::

    timeout 590 python -m graphbench.benchmarks.out_of_core 1000 300 100 10 --keep FOLDER
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from graphbench import atomic
from graphbench.benchmarks.case import Case
from graphbench.benchmarks.large_graph_epoch import BATCH, FAN_OUT
from graphbench.benchmarks.measuring import ROOT, in_own_process
from graphbench.benchmarks.page import hardware
from graphbench.benchmarks.scaled_data import BATCHES, DATA, DIM, EDGES, MOLECULES, NODES
from graphbench.command_line import CommandParser
from graphbench.plots import canvas

SCALES = (1000.0, 300.0, 100.0)
NUMBERS = ROOT / "results" / "measured" / "benchmarks" / "out-of-core.json"
PAGE, PLOT = ROOT / "docs" / "large-graphs.md", ROOT / "docs" / "large-graphs.svg"
HEADING = "## Measured\n"
TRAIN, TEST = 1_207_179, 214_338
"""Papers of the training and of the test part."""
PER_NODE = 16
"""Bytes of memory that sorting takes per node: its first edge (8), its edges (4) and its self loops (4)."""
STAGES = {
    "papers": {
        "convert": ("listed_edges", EDGES, "conversion of the archive (once)"),
        "sort": ("edges", 2 * EDGES, "edges sorted by target (every start)"),
    },
    "pcqm4m": {
        "read": ("molecules", MOLECULES, "reading with RDKit (once)"),
        "encode": ("molecules", MOLECULES, "RWSE of 16 steps (once)"),
        "batches": ("molecules", MOLECULES, "batches of an epoch, without a model"),
    },
}
"""Data -> stage -> what its cost grows with, how much of it the whole has, and in words."""
Measured = Mapping[str, Sequence[Mapping[str, float]]]


def run(scales: Sequence[float] = SCALES, keep: Path | None = None) -> list[Case]:
    """Measures, writes the page, and says how well the largest fraction is foretold by the smaller ones.

    Args:
        scales: 1 / fraction, from the smallest fraction to the largest.
        keep: folder for data and results of every stage, with which a second call goes on; None: nothing is kept.
    """
    measured: dict[str, list[Mapping[str, float]]] = {data: [] for data in DATA}
    for scale in scales:
        for data, found in measured.items():
            folder = () if keep is None else (keep.resolve() / f"{data}-{scale:g}",)
            found.append(in_own_process("scaled_data", data, scale, *folder))
    write(measured)
    return foretold(measured)


def foretold(measured: Measured) -> list[Case]:
    """The largest fraction beside the model of the others: seconds, and memory of papers."""
    cases = []
    for data, stages in STAGES.items():
        *smaller, largest = measured[data]
        for stage, (size, _, words) in stages.items():
            a, b = fit([each[size] for each in smaller], [each[f"{stage}_cpu_s"] for each in smaller])
            name = f"{data} 1:{largest['scale']:g}, {words}: foretold by smaller fractions"
            cases.append(Case(name, "measured", [a + b * largest[size]], [largest[f"{stage}_cpu_s"]], target=0.67))
    *few, most = measured["papers"]
    for stage, mib in memory(few, most["nodes"], most["sampled_edges"]).items():
        name = f"papers 1:{most['scale']:g}, memory of {stage}"
        cases.append(Case(name, "model of smaller fractions", [most[f"{stage}_mib"]], [mib], target=0.8, unit="MiB"))
    return cases


def memory(papers: Sequence[Mapping[str, float]], nodes: float, sampled_edges: float) -> dict[str, float]:
    """MiB of every stage by the model: what grows with the nodes or a batch, and the largest rest of a fraction.

    Args:
        papers: measured needs of fractions.
        nodes: nodes of the graph it is wanted for.
        sampled_edges: edges of a batch there.
    """
    found = {}
    for stage in ("convert", "sort"):
        rest = max(each[f"{stage}_mib"] - PER_NODE * each["nodes"] / 2**20 for each in papers)
        found[stage] = rest + PER_NODE * nodes / 2**20
    for stage in ("train", "predict"):  # what holds the edges is there while batches are sampled
        per_edge = max((each[f"{stage}_mib"] - each["sort_mib"]) / each["sampled_edges"] for each in papers)
        found[stage] = found["sort"] + per_edge * sampled_edges
    return found


def fit(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """a, b >= 0 of value = a + b * size, with the least sum of squared relative errors."""
    size, value = np.asarray(sizes, dtype=float), np.maximum(np.asarray(values, dtype=float), 1e-9)
    design = np.stack([np.ones_like(size), size / size.max()], axis=1) / value[:, None]
    (a, b), _ = nnls(design, np.ones_like(value))
    return float(a), float(b / size.max())


def write(measured: Measured) -> None:
    """Writes numbers, plot and page."""
    facts = {"date": datetime.date.today().isoformat(), "hardware": hardware()}
    atomic.write_text(NUMBERS, json.dumps({**facts, "measured": measured}, indent=1) + "\n")
    draw(measured, PLOT)
    above = PAGE.read_text(encoding="utf-8").partition(HEADING)[0].rstrip()
    atomic.write_text(PAGE, f"{above}\n\n{HEADING}\n{section(facts, measured)}")


def section(facts: Mapping[str, str], measured: Measured) -> str:
    """The part of the page that is generated."""
    scales = ", ".join(f"1:{each['scale']:g}" for each in measured["papers"])
    lines = [
        f"`python scripts/bench.py out_of_core` on {facts['date']}, {facts['hardware']}: fractions {scales}. Times are",
        "those of the processor, over all threads; 1:1 is not measured: it is the model's, or the largest fraction in",
        "proportion where that is more. Error: the largest of the model on what was measured.",
        "",
        "| stage | " + scales.replace(", ", " | ") + " | error | 1:1, one node | eight nodes |",
        "|---|" + "---|" * (len(measured["papers"]) + 3),
    ]
    for data, stages in STAGES.items():
        for stage, (size, whole, words) in stages.items():
            seconds = [max(each[f"{stage}_cpu_s"], 1e-3) for each in measured[data]]
            sizes = [each[size] for each in measured[data]]
            a, b = fit(sizes, seconds)
            error = max(abs(a + b * n - t) / t for n, t in zip(sizes, seconds, strict=True))
            foreseen = max(a + b * whole, seconds[-1] * whole / sizes[-1])
            shared = data == "pcqm4m"
            lines.append(
                f"| {data}: {words} | {' | '.join(f'{t:.2f} s' for t in seconds)} | {error:.0%} | "
                f"{_minutes(foreseen)} | {_minutes(foreseen / (8 if shared else 1))} |"
            )
    lines += _sampled(measured["papers"])
    return "\n".join([*lines, "", f"![{scales}](large-graphs.svg)", "", *_space(measured)]) + "\n"


def _sampled(papers: Sequence[Mapping[str, float]]) -> list[str]:
    """Time per sampled edge, which does not depend on the size of the graph, times the most that can be sampled."""
    lines = []
    for stage, nodes, words in (
        ("train", TRAIN, "epoch of training"),
        ("predict", TEST, "prediction of the test part"),
    ):
        per_batch = [each[f"{stage}_cpu_s"] / BATCHES for each in papers]
        per_edge = [t / each["sampled_edges"] for t, each in zip(per_batch, papers, strict=True)]
        whole = max(per_edge) * _most_edges() * nodes / BATCH
        lines.append(
            f"| papers: {words}, GraphSAGE of width {DIM}, at most | "
            f"{' | '.join(f'{t:.2f} s per batch' for t in per_batch)} | | {_minutes(whole)} | {_minutes(whole / 8)} |"
        )
    return lines


def _most_edges() -> float:
    """Most edges of a batch of sampled neighbourhoods."""
    return BATCH * sum(math.prod(FAN_OUT[: hop + 1]) for hop in range(len(FAN_OUT)))


def _space(measured: Measured) -> list[str]:
    """Disk and memory, per node and edge, and for the whole."""
    papers, molecules = measured["papers"], measured["pcqm4m"]
    disk = 512 * NODES + 2 * NODES + 8 * 2 * EDGES

    whole = memory(papers, NODES, _most_edges())
    tested = memory(papers[:-1], papers[-1]["nodes"], papers[-1]["sampled_edges"])
    scales = " | ".join(f"1:{each['scale']:g}" for each in papers)
    lines = [
        "Memory that the system cannot take back. Edges are read and sorted in pieces of 4 million, which fractions",
        f"from 1:300 on fill; {PER_NODE} bytes per node are what the code keeps. The model has these and the largest",
        "rest of a fraction; training and prediction add what a batch needs, of 1:1 the largest there can be. It is an",
        f"estimate, no bound; the column before the last tests it: 1:{papers[-1]['scale']:g} by the model of the",
        "fractions before. In a larger graph fewer of the sampled nodes are the same ones, so that a sampled edge",
        "needs more memory: training and prediction grow beyond the model.",
        "",
        f"| papers | {scales} | 1:{papers[-1]['scale']:g} by the model | 1:1 by the model |",
        "|---|" + "---|" * (len(papers) + 2),
    ]
    for stage, mib in whole.items():
        cells = " | ".join(f"{each[f'{stage}_mib']:,.0f} MiB" for each in papers)
        lines.append(f"| {stage} | {cells} | {tested[stage]:,.0f} MiB | {mib / 1024:.1f} GiB |")
    per_molecule = max(each["converted_bytes"] / each["molecules"] for each in molecules)
    return [
        *lines,
        "",
        f"Disk: papers at most {disk / 1e9:.0f} GB of mapped files (512 bytes of features per node, 8 per direction of",
        f"an edge), while they are converted {(8 * EDGES + 32 * EDGES) / 1e9:.0f} GB more; PCQM4Mv2",
        f"{per_molecule * MOLECULES / 1e9:.1f} GB with its encodings.",
    ]


def draw(measured: Measured, path: Path) -> None:
    """Seconds of every stage against the fraction, with the model up to the whole, on logarithmic axes."""
    with canvas.style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2 * canvas.COLUMN, canvas.COLUMN), layout="constrained")
        axes = figure.add_subplot()
        number = 0
        for data, stages in STAGES.items():
            for stage, (size, whole, words) in stages.items():
                sizes = [each[size] for each in measured[data]]
                seconds = [max(each[f"{stage}_cpu_s"], 1e-3) for each in measured[data]]
                a, b = fit(sizes, seconds)
                line = np.geomspace(min(sizes), whole, 50)
                color = canvas.COLORS[number % len(canvas.COLORS)]
                axes.plot(line / whole, a + b * line, canvas.DASHES[number % 4], color=color, label=f"{data}: {words}")
                axes.plot([n / whole for n in sizes], seconds, "o", color=color)
                number += 1
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("fraction of the whole")
        axes.set_ylabel("processor seconds")
        axes.legend()
        figure.savefig(path, metadata={"Date": None})


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


if __name__ == "__main__":
    parser = CommandParser(description=__doc__)
    parser.add_argument("scales", nargs="*", type=float, default=SCALES)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    run(**vars(parser.parse_args()))
