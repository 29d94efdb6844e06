"""Training beside the peers' own programs: ``scripts/bench.py peers --graphgps PATH --sgformer PATH``.

A path is a checked-out copy of https://github.com/rampasek/GraphGPS or https://github.com/qitianwu/SGFormer; nothing of
them is part of this package. Their models are built by their code, get the batch that ours gets, and are trained by the
step of their program; what their code imports must be importable (``PYTHONPATH`` is handed on). Without a path the
peer's side are figures that were read once (:data:`STORED`), and say so.

Both sides are the same model: GraphGPS reads its own configuration file, SGFormer's classes are built with the depth,
width, dropout, norms and residuals of our configuration, whose depth is that of the release's ``medium/run.sh``. The
names of cases have the number of parameters that a step moves on either side.

Every side is measured in a process of its own, which prints a line of JSON:
``python -m graphbench.benchmarks.peers ours|graphgps|sgformer CASE [PATH]``.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import CPU, ROOT, device_name, peak
from graphbench.benchmarks.models import Prepared, Side
from graphbench.benchmarks.peer_programs import graphgps_step, sgformer_epoch
from graphbench.errors import UserError

STORED = (
    "stored figure, two cores of another machine, measured by hand with the peer's program; its day and processor were "
    "not recorded"
)
SECONDS = 12.0
"""Steps are repeated for so long, at least two of them; the first one is not counted."""


@dataclass(frozen=True)
class Beside:
    """One comparison.

    Attributes:
        program: whose: ``graphgps`` (a training step) or ``sgformer`` (an epoch with evaluation).
        config: of ours, below ``configs``, and overrides.
        theirs: their configuration file; None: the model of ours.
        target: smallest acceptable ratio of seconds.
        seconds: stored figure of the peer.
        mib: stored peak of the peer, None where none was read.
    """

    program: str
    config: tuple[str, ...]
    theirs: str | None
    target: float
    seconds: float
    mib: float | None = None


CASES = {
    "ZINC": Beside("graphgps", ("gnnbench/gps-zinc.yaml",), "configs/GPS/zinc-GPS+RWSE.yaml", 3.0, 0.064),
    "Cora": Beside("sgformer", ("nodes/sgformer-cora-4layers.yaml",), None, 4.0, 0.048),
    "Actor": Beside("sgformer", ("nodes/sgformer-actor.yaml", "gt.TwoBranch.local_layers", "8"), None, 2.0, 0.125),
    "Squirrel": Beside(
        "sgformer", ("nodes/sgformer-squirrel.yaml", "gt.TwoBranch.local_layers", "8"), None, 2.0, 0.154
    ),
    "Deezer": Beside("sgformer", ("nodes/sgformer-deezer.yaml",), None, 15.0, 7.83, 10.3 * 953.7),
}
"""Comparisons by name."""


def run(paths: dict[str, Path | None]) -> list[Case]:
    """Real data from dataset.dir or $GRAPHBENCH_DATA.

    Args:
        paths: checked-out copies by program.
    """
    cases = []
    theirs: dict[str, Any]
    for name, beside in CASES.items():
        what = "training step" if beside.program == "graphgps" else "epoch with evaluation"
        print(f"peers: {name}", file=sys.stderr, flush=True)
        ours = _measured("ours", name)
        path, theirs = paths.get(beside.program), {"seconds": [beside.seconds], "mib": beside.mib}
        title = f"{name}, {what}, {device_name(CPU)}"
        if path is None:
            peer = f"{beside.program} ({STORED})"
        else:
            theirs, peer = _measured(beside.program, name, str(path.resolve())), beside.program
            title += f", {ours['parameters']:,} and {theirs['parameters']:,} parameters"
        pair = ([statistics.median(side["seconds"])] for side in (ours, theirs))
        cases.append(Case(title, peer, *pair, target=beside.target))
        if theirs["mib"] is not None:
            cases.append(Case(f"{name}, peak memory", peer, [ours["mib"]], [theirs["mib"]], target=2.0, unit="MiB"))
    return cases


def _measured(side: str, *arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "graphbench.benchmarks.peers", side, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{side} {arguments[0]}: {' '.join(done.stderr.split()[-60:])}")
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def measure(side: str, name: str, path: str | None = None) -> dict[str, Any]:
    """Seconds of every repetition, the peak in MiB above what was held before the first, and parameters trained."""
    beside = CASES[name]
    prepared = Prepared(Side(name, beside.config), CPU)
    once: Callable[[], None]
    model: nn.Module = prepared.model
    if side == "ours":
        once = prepared.train if beside.program == "graphgps" else prepared.train_and_infer
    else:
        assert path is not None
        batch, rows = prepared.first
        if side == "graphgps":
            once, model = graphgps_step(Path(path), beside.theirs, batch, rows)
        else:
            flags = prepared.config.component_args("gt", "TwoBranch")
            flags["width"] = prepared.config.tree.gt.dim_hidden
            once, model = sgformer_epoch(Path(path), flags, batch, rows)
    mib = peak(once, CPU)
    parameters = sum(each.numel() for each in model.parameters() if each.grad is not None)
    seconds: list[float] = []
    first = time.perf_counter()
    while len(seconds) < 2 or time.perf_counter() - first < SECONDS:
        start = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "mib": mib, "parameters": parameters}


if __name__ == "__main__":
    torch.manual_seed(0)
    print(json.dumps(measure(*sys.argv[1:])))
