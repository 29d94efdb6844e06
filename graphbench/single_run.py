"""One run: everything that it needs built and checked, then trained (or applied) with its record kept true."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from graphbench.config import Config
from graphbench.data.builder import LoadedDataset
from graphbench.errors import UserError
from graphbench.factory.config_errors import config_errors
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
from graphbench.preflight import Checked, count_parameters
from graphbench.run_inputs import RunInputs
from graphbench.runs import atomic, json_text
from graphbench.runs.environment import changes
from graphbench.runs.record import Outcome, RunRecord
from graphbench.runs.run_directory import RunDirectory
from graphbench.runs.split_text import split_texts
from graphbench.structures import DataInfo, DataLoaders
from graphbench.structures.data_info import FILE as INFO_FILE
from graphbench.tasks.metric import StatisticMetric
from graphbench.tasks.task import Task
from graphbench.train.approximation import approximation_error
from graphbench.train.fabric import Fabric
from graphbench.train.forward import BatchAdapter, Predictor
from graphbench.train.inference import Inference
from graphbench.train.reporter import Reporter
from graphbench.train.schedule import Schedule
from graphbench.train.seeding import seed_everything
from graphbench.train.settings import TrainerSettings
from graphbench.train.signals import StopRequest
from graphbench.train.trainer import Trainer
from graphbench.train.turns import Turns

logger = logging.getLogger("graphbench")


@dataclass(frozen=True)
class Surroundings:
    """What the runs of one configuration have in common.

    Attributes:
        checked: the configuration.
        data: reads the data set when it is called first.
        overwrite: move earlier runs aside instead of skipping or resuming them.
        reporters: told about every run, beside those of the configuration.
        together: runs that share the process; 1: one after the other.
        stop: asks those to end.
    """

    checked: Checked
    data: Callable[[], LoadedDataset]
    overwrite: bool
    reporters: Sequence[Reporter]
    together: int
    stop: StopRequest


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


def work_on(inputs: RunInputs, around: Surroundings, fabric: Fabric) -> Turns[None]:
    """Trains a run, or goes on with it, unless it is finished; in turns of one step.

    Args:
        inputs: what it is made of.
        around: what it shares with others.
        fabric: launched. Runs that take turns have one each, because it holds the scale of float16 losses.

    Raises:
        UserError: the input is wrong.
        RunFailed: the run failed; its state is kept.
        Interrupted: stopped from outside; the state is kept.
    """
    config, directory = around.checked.config, around.checked.directory(inputs.run)
    if not around.overwrite and fabric.broadcast(_is_finished(directory)):
        logger.info("%s: finished earlier, made of the same, skipped.", directory.path)
        return
    # Everything is built before anything is written: wrong input leaves no trace.
    parts = _prepare(config, fabric, around.data(), inputs)
    text = config.of_run(inputs.run.seed, inputs.run.split_index).dump()
    with directory.open(
        identity=inputs.identity, config_text=config.dump(), run_text=text, overwrite=around.overwrite
    ) as decided:
        decision = fabric.broadcast(decided)
        if decision == "skip":  # another process has finished it meanwhile
            return
        for name, source in config.code.items():
            if name.endswith(".py"):
                directory.keep(name, source)
        record = _begin(parts, inputs, around, fabric, resumes=decision == "resume")
        with directory.recorded(record) as ended:
            ended((yield from _outcome(parts, inputs, around, fabric)))


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
        _check_selection(config, loaded, splits.val, task, info)
    optimizer = build_optimizer(config, model)
    compile_model(config, model)
    loaders = build_loaders(config, loaded, splits, run.seed, fabric)
    schedule = build_schedule(config, optimizer)
    return _Parts(info, model, task, loaders, optimizer, schedule, build_settings(config, info), pretrained)


def _check_selection(config: Config, loaded: LoadedDataset, val: Tensor, task: Task, info: DataInfo) -> None:
    """Refuses a selecting metric that has no value for the validation examples, before anything is trained.

    Raises:
        UserError: with the metric's own reason, e.g. that all labels are of one class.
    """
    y, card = loaded.store.y, loaded.card
    by_rows = info.task == "graph" or (info.task == "node" and card.transductive)
    if y is None or not by_rows or info.metric not in task.metrics or info.task_type == "subtoken_prediction":
        return
    scores = torch.rand(len(val), info.out_dim, generator=torch.Generator().manual_seed(0))
    task.evaluate(scores, y[val], only=[info.metric], loss=False)
    reason = task.undefined.get(info.metric)
    if reason is not None and not isinstance(task.metrics[info.metric], StatisticMetric):
        raise UserError(
            f"{config.where('metric_best')}: the epoch is chosen by {info.metric} of the validation examples, which "
            f"has no value for them: {reason}. Choose another split, or another metric_best."
        )


def _targets(loaded: LoadedDataset, parts: Mapping[str, Tensor]) -> Tensor:
    """All targets; of one graph's nodes those in a split, since the others may have none."""
    y = loaded.store.y
    assert y is not None
    return y[torch.cat(list(parts.values()))] if loaded.card.transductive else y


def _begin(parts: _Parts, inputs: RunInputs, around: Surroundings, fabric: Fabric, *, resumes: bool) -> RunRecord:
    """Says what is trained, and on what; seeds the process. The record of the run."""
    config, directory = around.checked.config, around.checked.directory(inputs.run)
    run, info = inputs.run, parts.info
    logger.info(
        "%s: %s, %s-level %s, split %s; %s, %s parameters, on %s%s",
        _title(config, inputs),
        info.name,
        info.task,
        info.task_type,
        split_texts([inputs.facts], ",")[0],
        " ".join(layer_names(parts.model)) or "no layers",
        f"{count_parameters(parts.model):,}",
        fabric.device,
        f", one of {around.together} together" if around.together > 1 else "",
    )
    for note in (*inputs.notes, *(parts.pretrained.notes if parts.pretrained else ())):
        logger.info(note)
    previous = directory.record if resumes else None
    if previous is not None and previous.sampling != parts.loaders.sampling:
        began, now = previous.sampling, parts.loaders.sampling
        raise UserError(f"{directory.path}: this run began with {began}, and would go on with {now}: train.clustering.")
    record = RunRecord.start(
        previous=previous,
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
        together=around.together,
        approximation=parts.loaders.approximation,
        sampling=parts.loaders.sampling,
    )
    for name, (then, now) in changes(previous.environment if previous else {}, record.environment).items():
        logger.warning(
            "%s: goes on with another %s (%s before, %s now): its last digits may be others than in one go.",
            *(directory.path, name, then, now),
        )
    if fabric.is_global_zero:
        atomic.write_text(
            directory.path / INFO_FILE, json_text.dumps_with_checksum({**info.plain(), "data": record.fingerprint})
        )
    # Training draws the same numbers however many the initialisation took, and every process others (dropout).
    seed_everything(run.seed, fabric.global_rank)
    return record


def _title(config: Config, inputs: RunInputs) -> str:
    return f"{config.name} {inputs.run.run_id}"


def _outcome(parts: _Parts, inputs: RunInputs, around: Surroundings, fabric: Fabric) -> Turns[Outcome]:
    """Does what ``train.mode`` stands for."""
    config, directory = around.checked.config, around.checked.directory(inputs.run)
    mode = config.tree.train.mode
    if mode in INFERENCE_MODES:
        assert parts.pretrained is not None
        inference = Inference(
            fabric, parts.model, parts.task, parts.loaders, directory.path, best_epoch=parts.pretrained.epoch
        )
        modes = {
            "inference-only": inference.scores,
            "PCQM4Mv2-inference": inference.ogb_submission,
            "log-attn-weights": inference.attention,
        }
        return _with_error(modes[mode](), parts, fabric)
    reporters = build_reporters(
        config, _title(config, inputs), parts.info, directory.path.name, parts.model, together=around.together > 1
    )
    trainer = Trainer(
        fabric,
        parts.model,
        parts.task,
        parts.loaders,
        parts.optimizer,
        parts.schedule,
        parts.settings,
        run=directory,
        reporters=[*reporters, *around.reporters],
        stop=around.stop,
    )
    outcome = yield from trainer.turns()
    if parts.loaders.approximation is not None and trainer.state.best is not None:
        parts.model.load_state_dict(trainer.state.best.model)
    return _with_error(outcome, parts, fabric)


def _with_error(outcome: Outcome, parts: _Parts, fabric: Fabric) -> Outcome:
    """The outcome, with the error of approximate predictions by the weights that its scores are of."""
    adapter = fabric.place(BatchAdapter(parts.model, fabric.precision.weights)).eval()
    errors = approximation_error(Predictor(fabric, adapter), parts.task, parts.loaders, fabric)
    return replace(outcome, approximation_error=errors)
