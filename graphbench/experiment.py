"""One configuration, one or several seeds: from loaded configuration to records, table and final line."""

from __future__ import annotations

import dataclasses
import logging
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from rich.console import Console
from torch import Tensor, nn
from torch.optim import Optimizer

from graphbench import factory
from graphbench.config import Config
from graphbench.data.family import LoadedDataset
from graphbench.data.large.loader import LargeLoader
from graphbench.data.loading.loader import Loaders
from graphbench.data.splits import Splits
from graphbench.errors import UserError
from graphbench.runs.aggregate import Aggregate, aggregate, write_aggregate
from graphbench.runs.record import Outcome, RunRecord
from graphbench.runs.run_directory import RunDirectory
from graphbench.runs.summary import final_line, results_table
from graphbench.structures import DataInfo
from graphbench.tasks.task import Task
from graphbench.train.inference import Inference
from graphbench.train.reporter import Reporter
from graphbench.train.schedule import Schedule
from graphbench.train.settings import TrainerSettings
from graphbench.train.trainer import Trainer

logger = logging.getLogger("graphbench")


@dataclass(frozen=True)
class Run:
    """One training: which folder, which seed, which of several splits."""

    run_id: int
    seed: int
    split_index: int


@dataclass(frozen=True)
class _Parts:
    """Everything a training needs, built and checked."""

    info: DataInfo
    model: nn.Module
    task: Task
    loaders: Loaders | LargeLoader
    optimizer: Optimizer
    schedule: Schedule
    settings: TrainerSettings
    facts: dict[str, Any]
    pretrained: factory.Pretrained | None


@dataclass(frozen=True)
class Checked:
    """A configuration that can be trained, as far as that shows without its data.

    Attributes:
        config: with the architecture it adopts from a pretrained run.
        runs: what is to be trained.
        description: from :func:`describe`.
        fabric: device, number format and processes, not launched yet.
        maximize: whether larger values of the selecting metric are better.
    """

    config: Config
    runs: Sequence[Run]
    description: dict[str, Any]
    fabric: Fabric
    maximize: bool

    @property
    def folder(self) -> Path:
        """Where its runs lie."""
        return Path(self.config.tree.out_dir) / self.config.name

    def directory(self, run: Run) -> RunDirectory:
        """Where one run lies."""
        tree = self.config.tree
        return RunDirectory(tree.out_dir, self.config.name, run.run_id, writer=self.fabric.is_global_zero)

    def result(self) -> Aggregate:
        """What is there of the runs."""
        return aggregate(self.folder, config_hash=self.config.hash, only=[each.run_id for each in self.runs])


def describe(config: Config) -> dict[str, Any]:
    """What a configuration builds, without training and (where the data set is declared) without data.

    Returns:
        ``dataset``, ``metric``, ``params`` (trainable parameters) and ``layers``.
    """
    return _described(factory.adopt_pretrained(config, _plan(config, 1)[0].run_id, starts=False))[0]


def _described(config: Config) -> tuple[dict[str, Any], DataInfo]:
    info = factory.declared_info(config)
    if info is None:
        loaded = factory.read_data(config)
        info = loaded.card.info(loaded.store)
    model = factory.build_model(config, info)
    factory.check_samplers(config, model)
    factory.build_task(config, info)
    description = {
        "dataset": info.name,
        "metric": info.metric,
        "params": count_parameters(model),
        "layers": factory.layer_names(model),
    }
    return description, info


def check(
    config: Config,
    *,
    repeat: int = 1,
    only: int | None = None,
    overwrite: bool = False,
    starts: bool = True,
) -> Checked:
    """Finds what is wrong before data is read, encodings are computed or anything is written.

    Args:
        config: a loaded configuration.
        repeat: number of seeds, counted up from ``seed``.
        only: run id of the one run of these that is meant; None: all of them.
        overwrite: runs of another configuration may lie in the way.
        starts: whether it is trained next; False where the pretrained run it needs may still be made.

    Raises:
        UserError: the input is wrong.
        ValueError: no run has the id ``only``.
    """
    planned = _plan(config, repeat)
    runs = [each for each in planned if only in (None, each.run_id)]
    if not runs:
        raise ValueError(f"only must be one of {[each.run_id for each in planned]}, received {only}")
    config = _with_mode(factory.adopt_pretrained(config, runs[0].run_id, starts=starts))
    description, info = _described(config)
    checked = Checked(config, runs, description, factory.build_fabric(config), info.maximize)
    for directory in () if overwrite else map(checked.directory, runs):
        record = directory.record
        if record is not None and record.config_hash != config.hash:
            with directory.open(config_hash=config.hash, config_text=config.dump()):
                pass  # not reached: opening the folder is refused, in its own words
    return checked


def run(
    config: Config,
    *,
    repeat: int = 1,
    only: int | None = None,
    overwrite: bool = False,
    reporters: Sequence[Reporter] = (),
) -> dict[str, Any] | None:
    """Trains what is not trained yet, then aggregates over the runs asked for.

    Args:
        config: a loaded configuration.
        repeat: number of seeds, counted up from ``seed``.
        only: run id of the one run of these that is meant; None: all of them.
        overwrite: move earlier runs aside instead of skipping or resuming them.
        reporters: told about every run that is trained, beside those of the configuration.

    Returns:
        The final line; None in all but the first process of a data-parallel run.

    Raises:
        UserError: the input is wrong.
        RunFailed: a run failed; its state is kept.
        Interrupted: stopped from outside; the state is kept.
    """
    checked = check(config, repeat=repeat, only=only, overwrite=overwrite)
    config, fabric = checked.config, checked.fabric
    fabric.launch()
    with _console(config, fabric), _threads(config.tree.num_threads):
        for notice in config.notices:
            logger.info(notice)
        data = _Data(config)
        for each in checked.runs:
            directory = checked.directory(each)
            if not overwrite and fabric.broadcast(_is_finished(directory, config)):
                logger.info("%s: finished earlier with the same configuration, skipped.", directory.path)
                continue
            # Everything is built before anything is written: wrong input leaves no trace.
            parts = _prepare(config, fabric, data, each)
            with directory.open(config_hash=config.hash, config_text=config.dump(), overwrite=overwrite) as decision:
                _train(config, fabric, parts, each, directory, decision == "resume", reporters)
        if not fabric.is_global_zero:
            return None
        write_aggregate(checked.folder, config_hash=config.hash)
        result = checked.result()
        Console(stderr=True).print(results_table(result))
    return {"dataset": data.name, **final_line(result, checked.folder)}


def count_parameters(model: nn.Module) -> int:
    """Trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def seed_everything(seed: int) -> None:
    """Seeds torch (all devices), numpy and Python."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  for plug-ins and libraries that draw from the global generator
    random.seed(seed)


class _Data:
    """The data set, read when the first run needs it and shared by all of them."""

    def __init__(self, config: Config):
        self._config = config
        self._loaded: LoadedDataset | None = None

    def __call__(self) -> LoadedDataset:
        if self._loaded is None:
            raw = factory.read_data(self._config)
            factory.build_splits(self._config, raw, seed=0)  # a wrong split shows before encodings are computed
            self._loaded = factory.encode(self._config, raw, logger.info)
        return self._loaded

    @property
    def name(self) -> str:
        """As printed in tables."""
        declared = factory.dataset_builder(self._config).card
        return (declared or self().card).name


def _plan(config: Config, repeat: int) -> list[Run]:
    tree = config.tree
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
    return dataclasses.replace(config, name=f"{config.name}-{mode}") if mode in factory.INFERENCE_MODES else config


def _is_finished(directory: RunDirectory, config: Config) -> bool:
    record = directory.record
    return record is not None and record.status == "finished" and record.config_hash == config.hash


def _prepare(config: Config, fabric: Fabric, data: _Data, run: Run) -> _Parts:
    tree = config.tree
    loaded = data()
    splits = factory.build_splits(config, loaded, run.seed, run.split_index)
    info = loaded.card.info(loaded.store, None if loaded.card.transductive else splits.train)
    seed_everything(run.seed)
    model = factory.build_model(config, info)
    pretrained = factory.load_pretrained(config, model, run.run_id)
    task = factory.build_task(config, info)
    if loaded.store.y is not None:
        with factory.config_errors(config, "dataset.task_type"):
            task.check_targets(_targets(loaded, splits))
    optimizer = factory.build_optimizer(config, model)
    loaders = factory.build_loaders(config, loaded, splits, run.seed, fabric)
    schedule = factory.build_schedule(config, optimizer)
    facts = {
        "name": info.name,
        "fingerprint": loaded.store.fingerprint,
        "split_mode": tree.dataset.split_mode,
        "split_index": run.split_index,
        "sizes": {name: part.numel() for name, part in splits.parts().items()},
    }
    settings = factory.build_settings(config, info)
    return _Parts(info, model, task, loaders, optimizer, schedule, settings, facts, pretrained)


def _targets(loaded: LoadedDataset, splits: Splits) -> Tensor:
    """All targets; of one graph's nodes those in a split, since the others may have none."""
    y: Tensor = loaded.store.y
    return y[torch.cat(list(splits.parts().values()))] if loaded.card.transductive else y


def _train(
    config: Config,
    fabric: Fabric,
    parts: _Parts,
    run: Run,
    directory: RunDirectory,
    resumes: bool,
    reporters: Sequence[Reporter],
) -> None:
    info, title = parts.info, f"{config.name} {run.run_id}"
    sizes = "/".join(f"{size:,}" for size in parts.facts["sizes"].values())
    logger.info(
        "%s: %s, %s-level %s, split %s (%s); %s, %s parameters, on %s",
        title,
        info.name,
        info.task,
        info.task_type,
        parts.facts["split_mode"],
        sizes,
        " ".join(factory.layer_names(parts.model)),
        f"{count_parameters(parts.model):,}",
        fabric.device,
    )
    for note in parts.pretrained.notes if parts.pretrained else ():
        logger.info(note)
    record = RunRecord.start(
        previous=directory.record if resumes else None,
        config=config.name,
        config_hash=config.hash,
        seed=run.seed,
        run_id=str(run.run_id),
        metric=info.metric,
        maximize=info.maximize,
        params=count_parameters(parts.model),
        data=parts.facts,
    )
    seed_everything(run.seed)  # training draws the same numbers however many the initialisation took
    directory.recorded(record, _work(config, fabric, parts, directory, title, reporters))


def _work(
    config: Config, fabric: Fabric, parts: _Parts, directory: RunDirectory, title: str, reporters: Sequence[Reporter]
) -> Callable[[], Outcome]:
    """What ``train.mode`` stands for, ready to be called."""
    mode = config.tree.train.mode
    if mode in factory.INFERENCE_MODES:
        assert parts.pretrained is not None
        inference = Inference(
            fabric, parts.model, parts.task, parts.loaders, directory.path, best_epoch=parts.pretrained.epoch
        )
        return {
            "inference-only": inference.scores,
            "PCQM4Mv2-inference": inference.ogb_submission,
            "log-attn-weights": inference.attention,
        }[mode]
    trainer = Trainer(
        fabric,
        parts.model,
        parts.task,
        parts.loaders,
        parts.optimizer,
        parts.schedule,
        parts.settings,
        run=directory,
        reporters=[*factory.build_reporters(config, title, parts.info, directory.path.name), *reporters],
    )
    return trainer.run


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Threads of torch for one configuration; 0 leaves them alone."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _console(config: Config, fabric: Fabric) -> Iterator[None]:
    """The log on the screen (standard error, so that standard output holds results only)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    quiet = config.tree.print == "file" or not fabric.is_global_zero
    handler.setLevel(logging.ERROR if quiet else logging.INFO)
    # What the trainer notes for logging.log, the progress bar shows already.
    handler.addFilter(lambda record: record.levelno > logging.INFO or not record.name.startswith("graphbench.train"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
