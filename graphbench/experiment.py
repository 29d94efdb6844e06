"""One configuration, one or several seeds: from loaded configuration to records, table and final line."""

from __future__ import annotations

import functools
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric
from rich.console import Console
from torch import Tensor, nn
from torch.optim import Optimizer

from graphbench.config import Config
from graphbench.data.builder import LoadedDataset
from graphbench.factory.config_errors import config_errors
from graphbench.factory.data import dataset_builder, encode, read_data
from graphbench.factory.loaders import build_loaders
from graphbench.factory.model import build_model, layer_names
from graphbench.factory.pretrained import INFERENCE_MODES, Pretrained, load_pretrained
from graphbench.factory.task import build_task
from graphbench.factory.training import (
    build_optimizer,
    build_reporters,
    build_schedule,
    build_settings,
    compile_model,
)
from graphbench.preflight import Checked, check, count_parameters
from graphbench.run_inputs import RunInputs, run_inputs
from graphbench.runs import atomic
from graphbench.runs.aggregate import write_aggregate
from graphbench.runs.identity import RunIdentity
from graphbench.runs.record import Outcome, RunRecord
from graphbench.runs.run_directory import RunDirectory
from graphbench.runs.split_text import split_texts
from graphbench.runs.summary import final_line, results_table
from graphbench.structures import DataInfo, DataLoaders
from graphbench.structures.data_info import FILE as INFO_FILE
from graphbench.tasks.task import Task
from graphbench.train.failures import lost_processes_told
from graphbench.train.inference import Inference
from graphbench.train.reporter import Reporter
from graphbench.train.schedule import Schedule
from graphbench.train.seeding import seed_everything
from graphbench.train.settings import TrainerSettings
from graphbench.train.trainer import Trainer

logger = logging.getLogger("graphbench")


@dataclass(frozen=True)
class _Parts:
    """Everything a training needs, built and checked."""

    info: DataInfo
    model: nn.Module
    task: Task
    loaders: DataLoaders
    optimizer: Optimizer
    schedule: Schedule
    settings: TrainerSettings
    pretrained: Pretrained | None


@lost_processes_told()
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
        all_inputs = [run_inputs(config, data.raw, planned) for planned in checked.runs]
        if not overwrite:
            for inputs in all_inputs:
                checked.directory(inputs.run).refuse_another(inputs.identity)
        _hint_at_splits(config, all_inputs)
        for inputs in all_inputs:
            _run_one(checked, data, inputs, overwrite, reporters)
        if not fabric.is_global_zero:
            return None
        write_aggregate(
            checked.folder, identity=functools.reduce(RunIdentity.joined, [inputs.identity for inputs in all_inputs])
        )
        result = checked.result()
        Console(stderr=True).print(results_table(result))
    return {"dataset": data.name, **final_line(result, checked.folder)}


def _run_one(checked: Checked, data: _Data, inputs: RunInputs, overwrite: bool, reporters: Sequence[Reporter]) -> None:
    """Trains a run, or goes on with it, unless it is finished."""
    config, fabric, directory = checked.config, checked.fabric, checked.directory(inputs.run)
    if not overwrite and fabric.broadcast(_is_finished(directory)):
        logger.info("%s: finished earlier, made of the same, skipped.", directory.path)
        return
    # Everything is built before anything is written: wrong input leaves no trace.
    parts = _prepare(config, fabric, data(), inputs)
    text = config.of_run(inputs.run.seed, inputs.run.split_index).dump()
    with directory.open(
        identity=inputs.identity, config_text=config.dump(), run_text=text, overwrite=overwrite
    ) as decided:
        decision = fabric.broadcast(decided)
        if decision == "skip":  # another process has finished it meanwhile
            return
        for name, source in config.code.items():
            if name.endswith(".py"):
                directory.keep(name, source)
        _train(config, fabric, parts, inputs, directory, decision == "resume", reporters)


class _Data:
    """The data set, read when the first run needs it and shared by all of them."""

    def __init__(self, config: Config):
        self._config = config
        self._loaded: LoadedDataset | None = None

    @functools.cached_property
    def raw(self) -> LoadedDataset:
        """Without encodings."""
        return read_data(self._config)

    def __call__(self) -> LoadedDataset:
        if self._loaded is None:
            self._loaded = encode(self._config, self.raw, logger.info)
        return self._loaded

    @property
    def name(self) -> str:
        """As printed in tables."""
        declared = dataset_builder(self._config).card
        return (declared or self().card).name


def _hint_at_splits(config: Config, all_inputs: Sequence[RunInputs]) -> None:
    count = all_inputs[0].splits.count
    if len(all_inputs) > 1 and count > 1 and not config.tree.run_multiple_splits:
        logger.info(
            "%s: all %d runs have split %d of %d; run_multiple_splits '[0, ..., %d]' trains on each.",
            *(config.name, len(all_inputs), all_inputs[0].run.split_index, count, count - 1),
        )


def _is_finished(directory: RunDirectory) -> bool:
    record = directory.record
    return record is not None and record.status == "finished"


def _prepare(config: Config, fabric: Fabric, loaded: LoadedDataset, inputs: RunInputs) -> _Parts:
    run, splits = inputs.run, inputs.splits
    info = loaded.card.info(loaded.store, None if loaded.card.transductive else splits.train)
    seed_everything(run.seed)
    model = build_model(config, info)
    pretrained = load_pretrained(config, model, run.run_id)
    task = build_task(config, info)
    if loaded.store.y is not None:
        with config_errors(config, "dataset.task_type"):
            task.check_targets(_targets(loaded, splits.parts()))
    optimizer = build_optimizer(config, model)
    compile_model(config, model)
    loaders = build_loaders(config, loaded, splits, run.seed, fabric)
    schedule = build_schedule(config, optimizer)
    return _Parts(info, model, task, loaders, optimizer, schedule, build_settings(config, info), pretrained)


def _targets(loaded: LoadedDataset, parts: Mapping[str, Tensor]) -> Tensor:
    """All targets; of one graph's nodes those in a split, since the others may have none."""
    y = loaded.store.y
    assert y is not None
    return y[torch.cat(list(parts.values()))] if loaded.card.transductive else y


def _train(
    config: Config,
    fabric: Fabric,
    parts: _Parts,
    inputs: RunInputs,
    directory: RunDirectory,
    resumes: bool,
    reporters: Sequence[Reporter],
) -> None:
    run, info = inputs.run, parts.info
    title = f"{config.name} {run.run_id}"
    logger.info(
        "%s: %s, %s-level %s, split %s; %s, %s parameters, on %s",
        title,
        info.name,
        info.task,
        info.task_type,
        split_texts([inputs.facts], ",")[0],
        " ".join(layer_names(parts.model)),
        f"{count_parameters(parts.model):,}",
        fabric.device,
    )
    for note in (*inputs.notes, *(parts.pretrained.notes if parts.pretrained else ())):
        logger.info(note)
    record = RunRecord.start(
        previous=directory.record if resumes else None,
        config=config.name,
        config_hash=config.hash,
        settings=config.settings,
        seed=run.seed,
        run_id=str(run.run_id),
        metric=info.metric,
        maximize=info.maximize,
        params=count_parameters(parts.model),
        data=inputs.facts,
        inputs=inputs.identity.inputs,
    )
    if fabric.is_global_zero:
        atomic.write_text(directory.path / INFO_FILE, json.dumps(info.plain(), indent=1) + "\n")
    # Training draws the same numbers however many the initialisation took, and every process others (dropout).
    seed_everything(run.seed, fabric.global_rank)
    directory.recorded(record, _work(config, fabric, parts, directory, title, reporters))


def _work(
    config: Config, fabric: Fabric, parts: _Parts, directory: RunDirectory, title: str, reporters: Sequence[Reporter]
) -> Callable[[], Outcome]:
    """What ``train.mode`` stands for, ready to be called."""
    mode = config.tree.train.mode
    if mode in INFERENCE_MODES:
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
        reporters=[*build_reporters(config, title, parts.info, directory.path.name), *reporters],
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
