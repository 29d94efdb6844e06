"""The points of the scaling figure: measured one by one, each in a process of its own, and kept in a JSON file."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch

from graphbench import atomic, registry, shipped
from graphbench.errors import UserError, unknown
from graphbench.plots.training_step import OUT_OF_MEMORY
from graphbench.runs.environment import environment
from graphbench.runs.record import commit_text

ROOT = shipped.root()
CONFIG = "configs/synthetic/sgformer-erdos-renyi.yaml"
QUANTITIES = ("seconds", "peak_mib")
_SPARE = 0.85
"""Fraction of the free memory that a point may be expected to take."""

_MACHINE_KEYS = ("cpu", "cores", "threads", "gpu", "torch")
"""Facts about a machine on which times depend."""

_ENDED = "the process was ended by signal"
_NO_MEMORY = "out of memory"
_ENOUGH = 20.0
"""Seconds after which no further step of a point is begun, once one counts."""


class _Model(NamedTuple):
    attention: str
    label: str
    options: tuple[str, ...] = ()


MODELS = {
    "sgformer": _Model("SGFormer", "SGFormer"),
    "softmax": _Model("Transformer", "softmax attention"),
    "dense": _Model("Transformer", "dense softmax attention", ("--whole_matrix",)),
}
"""Models by name on the command line; any other name is that of an attention."""


@dataclass(frozen=True)
class Point:
    """One measurement.

    Attributes:
        model: name of the model on the command line.
        nodes: nodes of the graph.
        edges: directed.
        seconds: median of a training step.
        peak_mib: see :mod:`graphbench.plots.training_step`.
        steps: number behind the median.
    """

    model: str
    nodes: int
    edges: int
    seconds: float
    peak_mib: float
    steps: int

    def value(self, quantity: str) -> float:
        """One of :data:`QUANTITIES`."""
        return {"seconds": self.seconds, "peak_mib": self.peak_mib}[quantity]


@dataclass
class Measurements:
    """Content of the JSON file next to the figure.

    Attributes:
        settings: mean degree, width, and the limit of the GPU's memory (GiB) where there was one.
        environment: machine and versions.
        date: date of the first point.
        all_points: points in the order they were measured in.
        stopped: model -> why no larger graph was measured.
        budget: budget of the last run that measured.
        out_of_memory: model -> smallest number of nodes that did not fit; infinite where the largest asked for did.
    """

    settings: dict[str, Any]
    environment: dict[str, Any]
    date: str
    all_points: list[Point] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)
    budget: float = 0.0
    out_of_memory: dict[str, float] = field(default_factory=dict)

    def points(self, model: str, sizes: Sequence[int]) -> list[Point]:
        """Points of one model at some of the sizes, smallest first."""
        points = [point for point in self.all_points if point.model == model and point.nodes in set(sizes)]
        return sorted(points, key=lambda point: point.nodes)

    def write(self, path: Path) -> None:
        """Completely or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_text(path, json.dumps(dataclasses.asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Measurements:
        """Inverse of :meth:`write`.

        Raises:
            UserError: the file holds something else.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            content["all_points"] = [Point(**point) for point in content["all_points"]]
            return cls(**content)
        except (ValueError, TypeError, KeyError):
            raise UserError(f"{path}: no measurements of this figure; move it away or give another --out.") from None


def measure_missing(
    path: Path,
    models: Sequence[str],
    sizes: Sequence[int],
    *,
    degree: float,
    width: int,
    budget: float,
    steps: int,
    memory_limit: float | None = None,
) -> Measurements:
    """The measurements in a file, after those that are missing were added to it.

    Args:
        path: the file; new if it is not there.
        models: names, see :data:`MODELS`.
        sizes: numbers of nodes, ascending.
        degree: mean degree of the graphs.
        width: width of the models.
        budget: seconds that a step may take.
        steps: steps per point.
        memory_limit: GiB that PyTorch may take on the GPU; None: all.

    Raises:
        UserError: unknown model, impossible numbers, or the file is of other settings or of another machine.
    """
    _check(models, sizes, degree, width, budget, steps)
    settings: dict[str, Any] = {"mean degree": degree, "width": width}
    if memory_limit is not None:
        settings["memory limit in GiB"] = memory_limit
    measured = Measurements.read(path) if path.is_file() else Measurements(settings, _machine(), _today())
    if measured.settings != settings:
        raise UserError(
            f"{path} was measured with {measured.settings}, asked for is {settings}: give another --out, or delete it."
        )
    for model in models:
        fits = measured.out_of_memory.get(model, math.inf) == math.inf
        if (budget > measured.budget and fits) or measured.stopped.get(model, "").startswith(_ENDED):
            measured.stopped.pop(model, None)  # a process may have been ended for what other processes took
        for size in sizes:
            known = measured.points(model, sizes)
            if model in measured.stopped or any(point.nodes == size for point in known):
                continue
            _check_machine(measured, f"{path} was measured elsewhere, and {model} at {size:,} nodes is missing in it")
            _check_limit(memory_limit)
            # On a GPU memory that does not suffice is a message: there it is tried, and not foretold.
            free = math.inf if measured.environment.get("gpu") else psutil.virtual_memory().available / 2**20
            reason = _too_large([point for point in known if point.nodes < size], size, budget, free)
            point = None
            if reason is None:
                print(f"measuring {model} at {size:,} nodes", file=sys.stderr, flush=True)
                point, reason = _measure(model, size, degree, width, budget, steps, memory_limit)
            if point is not None:
                measured.all_points.append(point)
            if reason is not None:
                measured.stopped[model] = reason
            if reason is not None and reason.startswith(_NO_MEMORY):
                measured.out_of_memory[model] = size
            elif point is not None and size == sizes[-1]:
                measured.out_of_memory[model] = math.inf
            measured.write(path)
    measured.budget = max(measured.budget, budget)
    measured.write(path)
    return measured


def _measure(
    model: str, nodes: int, degree: float, width: int, budget: float, steps: int, memory_limit: float | None
) -> tuple[Point | None, str | None]:
    """The point, and why there should be no larger one."""
    attention, _, options = MODELS.get(model, _Model(model, model))
    options += () if memory_limit is None else ("--memory_limit", str(memory_limit))
    changes = {
        "dataset.ErdosRenyi.nodes": nodes,
        "dataset.ErdosRenyi.degree": degree,
        "gt.layer_type": f"GCN+{attention}",
        "gt.dim_hidden": width,
        "gnn.dim_inner": width,
    }
    command = [sys.executable, "-m", "graphbench.plots.training_step", *options]
    command += map(str, (steps, min(budget, _ENOUGH), CONFIG, *itertools.chain(*changes.items())))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == OUT_OF_MEMORY:
        limit = "" if memory_limit is None else f", with a limit of {memory_limit:g} GiB"
        return None, f"{_NO_MEMORY} at {nodes:,} nodes{limit}"
    if done.returncode:
        # Killed from outside (the system's answer to exhausted memory), or an error that the last line names.
        lines = done.stderr.strip().splitlines()
        return None, lines[-1] if lines and done.returncode > 0 else f"{_ENDED} {-done.returncode}"
    point = Point(model, **json.loads(done.stdout.splitlines()[-1]))
    return point, f"a step took {point.seconds:.3g} s, --budget is {budget:g} s" if point.seconds > budget else None


def _too_large(smaller: Sequence[Point], nodes: int, budget: float, free: float) -> str | None:
    """Why a size is not measured, judged by the smaller ones and the free MiB; None: nothing speaks against it."""
    if not smaller:
        return None
    last, slopes = smaller[-1], dict.fromkeys(QUANTITIES, 2.0)
    if len(smaller) > 1:
        before = smaller[-2]
        for quantity in QUANTITIES:
            ratio = max(last.value(quantity), 1e-9) / max(before.value(quantity), 1e-9)
            slopes[quantity] = math.log(ratio) / math.log(last.nodes / before.nodes)
    seconds, peak = (last.value(quantity) * (nodes / last.nodes) ** slopes[quantity] for quantity in QUANTITIES)
    if seconds > budget:
        return f"a step at {nodes:,} nodes would take about {seconds:.0f} s, --budget is {budget:g} s"
    if peak > _SPARE * free:
        return f"a step at {nodes:,} nodes would take about {peak:,.0f} MiB, free are {free:,.0f} MiB"
    return None


def _check(models: Sequence[str], sizes: Sequence[int], degree: float, width: int, budget: float, steps: int) -> None:
    known = [*MODELS, *registry.names(registry.ATTENTIONS)]
    for model in models:
        if model not in known:
            raise unknown("name in --models", model, known)
    if sizes[0] < 16 or not 0 < degree < sizes[0]:
        raise UserError(f"--sizes must be 16 or more and above --degree, received {sizes[0]} and {degree:g}.")
    for name, value in (("--width", width), ("--budget", budget), ("--steps", steps)):
        if value <= 0:
            raise UserError(f"{name} must be above 0, received {value:g}.")


def _check_limit(memory_limit: float | None) -> None:
    if memory_limit is None:
        return
    if not torch.cuda.is_available():
        raise UserError("--memory_limit is for a GPU, and PyTorch sees none here: leave it out.")
    total = torch.cuda.get_device_properties(0).total_memory / 2**30
    if not 0 < memory_limit <= total:
        raise UserError(f"--memory_limit must be above 0 and at most {total:.1f} (GiB), received {memory_limit:g}.")


def _machine() -> dict[str, Any]:
    facts = environment(ROOT / "graphbench")
    return {
        **{name: facts[name] for name in _MACHINE_KEYS if name != "torch"},
        "torch": facts["packages"].get("torch"),
        "commit": commit_text(facts),
    }


def _check_machine(measured: Measurements, what: str) -> None:
    here, there = _machine(), measured.environment
    differences = [
        f"{name} {there.get(name)} there, {here[name]} here" for name in _MACHINE_KEYS if there.get(name) != here[name]
    ]
    if differences:
        raise UserError(
            f"{what}: points of two machines do not belong in one figure ({'; '.join(differences)}). Give another "
            "--out, or delete the file."
        )


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()
