"""Checks of a configuration before data is read, encodings are computed or anything is written."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from graphbench.config import Config
from graphbench.config.config import flat
from graphbench.config.run_keys import INFERENCE_MODES
from graphbench.errors import NeedsData, UserError
from graphbench.factory.data import declared_info, read_data
from graphbench.factory.loaders import check_samplers
from graphbench.factory.model import build_model, layer_names
from graphbench.factory.pretrained import adopt_pretrained
from graphbench.factory.processes import check_processes
from graphbench.factory.task import build_task, check_ranking
from graphbench.factory.training import build_fabric, build_optimizer, build_schedule
from graphbench.factory.transforms import build_transforms
from graphbench.factory.unread import without_effect
from graphbench.runs.aggregate import Aggregate, aggregate
from graphbench.runs.identity import RunIdentity, code_inputs
from graphbench.runs.run_directory import RunDirectory
from graphbench.structures import DataInfo
from graphbench.train.parameter_groups import count_parameters
from graphbench.train.pretrained import find_run

if TYPE_CHECKING:
    from graphbench.data.builder import LoadedDataset
    from graphbench.models.contract import Model
    from graphbench.tasks.task import Task
    from graphbench.train.fabric import Fabric


logger = logging.getLogger("graphbench")

MOST_RUNS = 10_000
"""Runs of one command; each has a folder."""

MOST_MODULES = 100_000
"""Most modules of a model: the deepest published ones have a thousand."""


@dataclass(frozen=True)
class Run:
    """One training: which folder, which seed, which of several splits."""

    run_id: int
    seed: int
    split_index: int


@dataclass(frozen=True)
class ModelSummary:
    """What a configuration builds; the fields of the line that ``--dry_run`` prints.

    Attributes:
        dataset: name of the data set.
        metric: metric that is compared, and selects the best epoch unless ``metric_best`` is the loss.
        params: trainable parameters.
        layers: names of the layers in order, see :func:`~graphbench.factory.model.layer_names`.
    """

    dataset: str
    metric: str
    params: int
    layers: tuple[str, ...]


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


def outline(config: Config) -> Built:
    """The model without values, task and facts of a configuration, as far as possible without its data."""
    return _built(adopt_pretrained(config, planned_runs(config, 1)[0].run_id, starts=False))


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
    built = _built(config)
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


@dataclass(frozen=True)
class Built:
    """What a configuration (with the architecture it adopts) builds: a model without values, its task, their facts.

    Attributes:
        data: the data set, where only the data say what the model looks like.
    """

    config: Config
    summary: ModelSummary
    info: DataInfo
    model: Model
    task: Task
    data: LoadedDataset | None


def _built(config: Config) -> Built:
    info, loaded = declared_info(config), None
    try:
        model = None if info is None else _outline(config, info)
    except NeedsData:
        model = None
    if info is None or model is None:
        loaded = read_data(config)
        info = loaded.card.info(loaded.store)
        model = _outline(config, info)
    build_transforms(config)  # refuses arguments that only they know
    check_samplers(config, info, model)
    task = build_task(config, info)
    check_ranking(config, info, model, task)
    with suppress(RuntimeError, NotImplementedError):  # a plug-in looks at values, which are not there yet
        build_schedule(config, build_optimizer(config, model))
    summary = ModelSummary(info.name, info.metric, count_parameters(model), tuple(layer_names(model)))
    return Built(config, summary, info, model, task, loaded)


class _WithoutInitialisation(TorchFunctionMode):
    """Leaves out the functions of ``torch.nn.init``, which on the meta device import PyTorch's compiler (a second)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def _outline(config: Config, info: DataInfo) -> Model:
    """The model with parameters that have shapes but no values: nothing is allocated or initialised."""
    try:
        with torch.device("meta"), _WithoutInitialisation(), _most_modules(config):
            return build_model(config, info)
    except (RuntimeError, NotImplementedError) as error:  # a plug-in looks at values while it is built
        if "overflow" in str(error):
            raise UserError(f"the model cannot be built: {str(error).splitlines()[0]}. Is a width meant?") from None
        return build_model(config, info)


@contextmanager
def _most_modules(config: Config) -> Iterator[None]:
    """Refuses a model of more than :data:`MOST_MODULES` modules while it is being built, instead of building on.

    Raises:
        UserError: naming the largest number in the configuration.
    """
    count = 0

    def registered(module: nn.Module, name: str, submodule: nn.Module | None) -> None:
        nonlocal count
        count += 1
        if count > MOST_MODULES:
            numbers = {key: value for key, value in flat(config.tree).items() if type(value) is int}
            key = max((key for key in numbers if config.is_set(key)), key=lambda key: numbers[key], default="gt.layers")
            raise UserError(
                f"{config.where(key)}: over {MOST_MODULES:,} modules in the model; is {key} {numbers[key]:,} meant?"
            )

    handle = nn.modules.module.register_module_module_registration_hook(registered)
    try:
        yield
    finally:
        handle.remove()


def planned_runs(config: Config, repeat: int) -> list[Run]:
    """The runs that a configuration and ``--repeat`` stand for.

    Raises:
        UserError: repeated less than once, or over splits and over seeds at once.
    """
    tree = config.tree
    if not 1 <= repeat <= MOST_RUNS:
        raise UserError(f"repeat must be at least 1 and at most {MOST_RUNS:,}, received {repeat:,}.")
    if not tree.run_multiple_splits:
        return [Run(seed, seed, tree.dataset.split_index) for seed in range(tree.seed, tree.seed + repeat)]
    if repeat != 1:
        raise UserError(
            f"{config.where('run_multiple_splits')}: run_multiple_splits and --repeat {repeat} exclude each other: "
            "the first repeats over splits, the second over seeds."
        )
    return [Run(index, tree.seed, index) for index in tree.run_multiple_splits]


def _with_mode(config: Config) -> Config:
    """Modes that apply a model write into a folder of their own, beside that of the training."""
    mode = config.tree.train.mode
    if mode == "standard":
        notice = f"{config.where('train.mode')}: train.mode standard is the same training loop as custom here."
        return dataclasses.replace(config, notices=(*config.notices, notice))
    return dataclasses.replace(config, name=f"{config.name}-{mode}") if mode in INFERENCE_MODES else config
