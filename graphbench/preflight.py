"""Checks of a configuration before data is read, encodings are computed or anything is written."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench.config import Config
from graphbench.config.run_keys import INFERENCE_MODES
from graphbench.errors import UserError
from graphbench.factory.outline import ModelSummary, Outline, build_outline
from graphbench.factory.pretrained import adopt_pretrained
from graphbench.factory.processes import check_processes
from graphbench.factory.training import build_fabric
from graphbench.factory.unread import without_effect
from graphbench.runs.aggregate import Aggregate, aggregate
from graphbench.runs.identity import RunIdentity, code_inputs
from graphbench.runs.planned import Run, planned_runs
from graphbench.runs.run_directory import RunDirectory
from graphbench.train.pretrained import find_run

if TYPE_CHECKING:
    from graphbench.data.builder import LoadedDataset
    from graphbench.train.fabric import Fabric


logger = logging.getLogger("graphbench")


@dataclass(frozen=True)
class Checked:
    """A configuration that can be trained, as far as that shows without its data.

    Attributes:
        config: configuration with the architecture it adopts from a pretrained run.
        runs: runs to be trained.
        summary: result of :func:`describe`.
        fabric: device, number format and processes, not launched yet.
        maximize: whether larger values of the selecting metric are better.
        data: data set that only the data themselves describe, where the caller keeps it; None: it was not read.
    """

    config: Config
    runs: Sequence[Run]
    summary: ModelSummary
    fabric: Fabric
    maximize: bool
    data: LoadedDataset | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path:
        """Folder of its runs."""
        return self.config.folder

    def directory(self, run: Run) -> RunDirectory:
        """Folder of one run."""
        tree = self.config.tree
        return RunDirectory(tree.out_dir, self.config.name, run.run_id, writer=self.fabric.is_global_zero)

    def result(self) -> Aggregate:
        """Mean and deviation over the runs that are finished."""
        return aggregate(self.folder, identity=RunIdentity(self.config.hash), only=[run.run_id for run in self.runs])


def describe(config: Config) -> ModelSummary:
    """Summary of what a configuration builds, without training and (where the data set is declared) without data."""
    built = outline(config)
    for sentence in without_effect(built.config, built.model):
        logger.warning(sentence)
    return built.summary


def outline(config: Config) -> Outline:
    """The model without values, task and facts of a configuration, as far as possible without its data."""
    return build_outline(adopt_pretrained(config, planned_runs(config, 1)[0].run_id, starts=False))


def check(
    config: Config,
    *,
    repeat: int = 1,
    only: Collection[int] | None = None,
    overwrite: bool = False,
    together: bool = False,
    starts: bool = True,
    base: Config | None = None,
    keep_data: bool = False,
) -> Checked:
    """Finds what is wrong before data is read, encodings are computed or anything is written.

    Args:
        config: a loaded configuration.
        repeat: number of seeds, counted up from ``seed``.
        only: run ids of those of them that are meant; None: all.
        overwrite: runs of another configuration may lie in the way.
        together: whether they are trained in turns, in one process.
        starts: whether it is trained next; False where the pretrained run it needs may still be made.
        base: configuration of the pretrained run that it starts from, where that is trained before it.
        keep_data: whether data that had to be read are handed on.

    Raises:
        UserError: the input is wrong.
        ValueError: a run id of ``only`` that no run has.
    """
    planned = planned_runs(config, repeat)
    runs = [run for run in planned if only is None or run.run_id in only]
    if only is not None and len(runs) < len(only):
        raise ValueError(f"only must be among {[run.run_id for run in planned]}, received {list(only)}")
    if together:
        check_together(config)
    config = _with_mode(adopt_pretrained(config, runs[0].run_id, starts=starts, base=base))
    if starts and base is None and config.tree.train.mode in INFERENCE_MODES:
        _check_distinct(config, planned)
    built = build_outline(config)
    config = dataclasses.replace(config, notices=(*config.notices, *without_effect(config, built.model)))
    fabric = build_fabric(config)
    if fabric.world_size > 1:
        config = check_processes(config, built.model, built.task)
    checked = Checked(config, runs, built.summary, fabric, built.info.maximize, built.data if keep_data else None)
    if not overwrite:
        for run in runs:
            checked.directory(run).refuse_another(declared_identity(config, run), config.settings)
    return checked


def check_together(config: Config) -> None:
    """Refuses what cannot be done in turns with others.

    Raises:
        UserError: naming the key.
    """
    tree = config.tree
    reasons = {
        "train.mode": tree.train.mode in INFERENCE_MODES and f"train.mode {tree.train.mode} applies a trained model",
        "devices": (tree.devices or 1) > 1 and f"devices is {tree.devices}, and they train on one device",
        "strategy": tree.strategy != "auto" and f"strategy {tree.strategy} is for several processes",
        "profile": tree.profile and "PyTorch's profiler watches one training at a time",
    }
    for key, reason in reasons.items():
        if reason:
            raise UserError(f"{config.where(key)}: --together is for trainings in one process: {reason}. Leave it out.")


def declared_identity(config: Config, run: Run) -> RunIdentity:
    """Identity of a run as far as it is known without data: a part of its whole identity."""
    inputs = code_inputs(config.code, config.component_code)
    if config.tree.run_multiple_splits:
        inputs["seed"] = str(run.seed)
    return RunIdentity(config.hash, inputs)


def _check_distinct(config: Config, planned: Sequence[Run]) -> None:
    """Refuses to count one trained model several times.

    Raises:
        UserError: two runs would apply the same checkpoint.
    """
    applied: dict[Path, int] = {}
    for run in planned:
        path = find_run(config.tree.pretrained.dir, run.run_id)
        if path in applied:
            raise UserError(
                f"pretrained.dir: {path} would be applied as run {applied[path]} and as run {run.run_id}, and one "
                "model's numbers averaged as if they were several. Leave out --repeat and run_multiple_splits, or name "
                "the folder above a run per seed or split."
            )
        applied[path] = run.run_id


def _with_mode(config: Config) -> Config:
    """Modes that apply a model write into a folder of their own, beside that of the training."""
    mode = config.tree.train.mode
    if mode == "standard":
        notice = f"{config.where('train.mode')}: train.mode standard is the same training loop as custom here."
        return dataclasses.replace(config, notices=(*config.notices, notice))
    return dataclasses.replace(config, name=f"{config.name}-{mode}") if mode in INFERENCE_MODES else config
