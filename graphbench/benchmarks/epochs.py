"""Whole epochs (steps, evaluation, metrics, records) by the framework's own loop: six configurations, two also in tf32.

On a GPU beside the same steps without CUDA graphs and the seconds that are aimed at; GPS and SGFormer beside PyG, too,
plain and compiled, whose epochs have the same batches, widths and depths and predict all splits, but write nothing.
Names of the cases say which share of the time the GPU computed, and how many kernels a step launches by the profiler;
what it should launch is in tests/launch_budgets.json.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import ROOT, device_name, seconds_of
from graphbench.benchmarks.pyg_gps import gps_epochs
from graphbench.benchmarks.sgformer import by_hand
from graphbench.benchmarks.step_kernels import StepKernels
from graphbench.benchmarks.training import Training
from graphbench.errors import UserError
from graphbench.train.reporter import EpochReport, Reporter

EPOCHS = 5
WARM_UP = 1
"""Epochs before those that count. Kernels are compiled and captured before that, PyG's models compile in it."""
STEPS, PYG, COMPILED = "steps", "pyg", "compiled"
AGAINST = (STEPS, PYG, COMPILED)
"""Peers that an epoch may be measured beside: steps without CUDA graphs, PyG, PyG's model compiled."""

Peer = Callable[[Training, bool], Callable[[], object]]
"""Makes, of a training and whether to compile, what does as many epochs with PyG."""


@dataclass(frozen=True)
class Measured:
    """A configuration to measure.

    Attributes:
        label: label for the names of the cases.
        command: file below ``configs``, or anywhere, and overrides.
        goal: seconds of an epoch on an H200.
        peer: peer of PyG; None: PyG has no such model.
        together: epochs that are timed together, where one alone is short.
    """

    label: str
    command: tuple[str, ...]
    goal: float
    peer: Peer | None = None
    together: int = 1


LARGE_BATCHES = ("val.node_budget", "40000")
"""Overrides for larger batches of evaluation, which reads no batch-mates."""
TF32 = ("precision", "tf32")
"""Overrides for products from ten bits, what PyTorch calls high precision."""
MEASURED = (
    Measured("GPS Peptides-func", ("lrgb/gps-peptides-func.yaml", *LARGE_BATCHES), 0.3, gps_epochs),
    Measured("SFi Peptides-func", ("lrgb/sfi-peptides-func.yaml", *LARGE_BATCHES), 1.5),
    Measured("GPS ZINC", ("gnnbench/gps-zinc.yaml", *LARGE_BATCHES), 0.35, gps_epochs),
    Measured("GECO ZINC", ("gnnbench/geco-zinc.yaml", *LARGE_BATCHES), 0.5),
    Measured("Gradformer ZINC", ("gnnbench/gradformer-zinc.yaml", *LARGE_BATCHES), 0.3),
    Measured("GPS Peptides-func, tf32", ("lrgb/gps-peptides-func.yaml", *LARGE_BATCHES, *TF32), 0.3),
    Measured("SFi Peptides-func, tf32", ("lrgb/sfi-peptides-func.yaml", *LARGE_BATCHES, *TF32), 1.5),
    Measured("SGFormer Cora", ("nodes/sgformer-cora-4layers.yaml",), 0.0006, by_hand, 50),
)


def chosen(label: str) -> list[Measured]:
    """The configuration of that label, as a list of one.

    Raises:
        UserError: there is none.
    """
    found = [each for each in MEASURED if each.label == label]
    if not found:
        raise UserError(f"--only must be one of {', '.join(each.label for each in MEASURED)}; received {label!r}")
    return found


class EpochSeconds(Reporter):
    """Seconds of the epochs behind the first :data:`WARM_UP`."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def epoch(self, report: EpochReport) -> None:
        """Metrics have been read, so that the device has done all of it."""
        if report.epoch >= WARM_UP:
            self.seconds.append(report.seconds)


def run(
    device: torch.device,
    measured: Sequence[Measured] = MEASURED,
    epochs: int = EPOCHS,
    against: Sequence[str] = AGAINST,
) -> list[Case]:
    """Real data, from dataset.dir or $GRAPHBENCH_DATA.

    Args:
        device: without a GPU nothing is captured, and PyG's model is not compiled.
        measured: configurations.
        epochs: number of epochs that count.
        against: some of :data:`AGAINST`.

    Raises:
        UserError: ``against`` names something else, or no epoch would count.
    """
    unknown = [each for each in against if each not in AGAINST]
    if unknown:
        raise UserError(f"--against must be some of {', '.join(AGAINST)}; received {', '.join(unknown)}")
    if epochs < 1:
        raise UserError(f"--epochs must be at least 1; received {epochs}")
    if device.type != "cuda":
        against = [each for each in against if each == PYG]
    cases: list[Case] = []
    for each in measured:
        with tempfile.TemporaryDirectory() as name:
            cases += _of_one(each, Path(name), device, epochs, against)
    return cases


def _of_one(each: Measured, folder: Path, device: torch.device, epochs: int, against: Sequence[str]) -> list[Case]:
    ours, kernels = timed(each.command, folder, device, epochs, each.together)
    name = f"{each.label}, epoch, {device_name(device)}{kernels}"
    cases = []
    if device.type == "cuda":
        cases.append(Case(name, "the goal", ours, [each.goal] * epochs, target=1.0))
    if STEPS in against:
        plain, of_plain = timed((*each.command, "train.capture", "never"), folder, device, epochs, each.together)
        cases.append(Case(name, f"step by step{of_plain}", ours, plain, target=1.0))
    if each.peer is not None:
        for compiled in (kind == COMPILED for kind in (PYG, COMPILED) if kind in against):
            several = each.peer(Training(folder, _command(each.command), each.together, device), compiled)
            for _ in range(WARM_UP):
                several()
            peer = [seconds_of(several, device) / each.together for _ in range(epochs)]
            cases.append(Case(name, "PyG, compiled" if compiled else "PyG", ours, peer, target=1.0))
    return cases


def per_step(command: Sequence[str], folder: Path, device: torch.device) -> float:
    """Kernels of a training step by the profiler."""
    kernels = StepKernels(WARM_UP, device)
    Training(folder, _command(command), WARM_UP + 1, device).run(reporters=[kernels])
    return kernels.per_step


def timed(
    command: Sequence[str], folder: Path, device: torch.device, epochs: int, together: int = 1
) -> tuple[list[float], str]:
    """Seconds of an epoch, as often as asked for, and what a GPU did in one more: nothing is said of a CPU.

    Args:
        command: configuration and overrides.
        folder: folder for what the run leaves behind.
        device: device that it runs on.
        epochs: number of epochs that count.
        together: epochs of which one that counts is the mean.
    """
    last = WARM_UP + epochs * together
    seconds, kernels = EpochSeconds(), StepKernels(last, device)
    Training(folder, _command(command), last + 1, device).run(reporters=[seconds, kernels])
    groups = (seconds.seconds[start : start + together] for start in range(0, epochs * together, together))
    return [statistics.fmean(group) for group in groups], kernels.text


def _command(command: Sequence[str]) -> tuple[str, ...]:
    """Evaluated in every epoch, with one checkpoint at the end."""
    file, *overrides = command
    every_epoch = ("train.eval_period", "1", "train.ckpt_period", "1000000", "train.ckpt_best", "false")
    return (str(Path(ROOT, "configs", file)), *overrides, *every_epoch)
