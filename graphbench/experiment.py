"""One configuration, one or several seeds: from loaded configuration to records, table and final line."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
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
from graphbench.data.splits import Splits
from graphbench.factory.config_errors import config_errors
from graphbench.factory.data import build_splits, dataset_builder, encode, read_data
from graphbench.factory.loaders import build_loaders
from graphbench.factory.model import build_model, layer_names
from graphbench.factory.pretrained import INFERENCE_MODES, Pretrained, load_pretrained
from graphbench.factory.task import build_task
from graphbench.factory.training import build_optimizer, build_reporters, build_schedule, build_settings
from graphbench.preflight import Run, check, count_parameters
from graphbench.runs.aggregate import write_aggregate
from graphbench.runs.record import Outcome, RunRecord
from graphbench.runs.run_directory import RunDirectory
from graphbench.runs.summary import final_line, results_table
from graphbench.structures import DataInfo, DataLoaders
from graphbench.tasks.task import Task
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
    facts: dict[str, Any]
    pretrained: Pretrained | None


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
        for planned in checked.runs:
            directory = checked.directory(planned)
            if not overwrite and fabric.broadcast(_is_finished(directory, config)):
                logger.info("%s: finished earlier with the same configuration, skipped.", directory.path)
                continue
            # Everything is built before anything is written: wrong input leaves no trace.
            parts = _prepare(config, fabric, data, planned)
            with directory.open(config_hash=config.hash, config_text=config.dump(), overwrite=overwrite) as decision:
                _train(config, fabric, parts, planned, directory, decision == "resume", reporters)
        if not fabric.is_global_zero:
            return None
        write_aggregate(checked.folder, config_hash=config.hash)
        result = checked.result()
        Console(stderr=True).print(results_table(result))
    return {"dataset": data.name, **final_line(result, checked.folder)}


class _Data:
    """The data set, read when the first run needs it and shared by all of them."""

    def __init__(self, config: Config):
        self._config = config
        self._loaded: LoadedDataset | None = None

    def __call__(self) -> LoadedDataset:
        if self._loaded is None:
            raw = read_data(self._config)
            build_splits(self._config, raw, seed=0)  # a wrong split shows before encodings are computed
            self._loaded = encode(self._config, raw, logger.info)
        return self._loaded

    @property
    def name(self) -> str:
        """As printed in tables."""
        declared = dataset_builder(self._config).card
        return (declared or self().card).name


def _is_finished(directory: RunDirectory, config: Config) -> bool:
    record = directory.record
    return record is not None and record.status == "finished" and record.config_hash == config.hash


def _prepare(config: Config, fabric: Fabric, data: _Data, run: Run) -> _Parts:
    tree = config.tree
    loaded = data()
    splits = build_splits(config, loaded, run.seed, run.split_index)
    info = loaded.card.info(loaded.store, None if loaded.card.transductive else splits.train)
    seed_everything(run.seed)
    model = build_model(config, info)
    pretrained = load_pretrained(config, model, run.run_id)
    task = build_task(config, info)
    if loaded.store.y is not None:
        with config_errors(config, "dataset.task_type"):
            task.check_targets(_targets(loaded, splits))
    optimizer = build_optimizer(config, model)
    loaders = build_loaders(config, loaded, splits, run.seed, fabric)
    schedule = build_schedule(config, optimizer)
    facts = {
        "name": info.name,
        "fingerprint": loaded.store.fingerprint,
        "split_mode": tree.dataset.split_mode,
        "split_index": run.split_index,
        "sizes": {name: part.numel() for name, part in splits.parts().items()},
    }
    settings = build_settings(config, info)
    return _Parts(info, model, task, loaders, optimizer, schedule, settings, facts, pretrained)


def _targets(loaded: LoadedDataset, splits: Splits) -> Tensor:
    """All targets; of one graph's nodes those in a split, since the others may have none."""
    y = loaded.store.y
    assert y is not None
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
        " ".join(layer_names(parts.model)),
        f"{count_parameters(parts.model):,}",
        fabric.device,
    )
    for note in parts.pretrained.notes if parts.pretrained else ():
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
        data=parts.facts,
    )
    seed_everything(run.seed)  # training draws the same numbers however many the initialisation took
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
