"""One run: everything that it needs built and checked, then trained (or applied) with its record kept true."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from graphbench import atomic
from graphbench.config import Config
from graphbench.config.run_keys import INFERENCE_MODES
from graphbench.data.builder import LoadedDataset
from graphbench.errors import UserError
from graphbench.factory.model import layer_names
from graphbench.factory.parts import Parts, assemble
from graphbench.factory.task import check_targets
from graphbench.factory.training import build_reporters, build_schedule, build_settings, compile_model
from graphbench.preflight import Checked
from graphbench.run_inputs import RunInputs
from graphbench.runs import json_text
from graphbench.runs.environment import changes
from graphbench.runs.record import Outcome, RunRecord
from graphbench.runs.run_directory import RunDirectory
from graphbench.runs.split_text import split_texts
from graphbench.structures.data_info import FILE as INFO_FILE
from graphbench.train.approximation import approximation_error
from graphbench.train.fabric import Fabric
from graphbench.train.forward import BatchAdapter, Predictor
from graphbench.train.inference import Inference
from graphbench.train.parameter_groups import count_parameters
from graphbench.train.reporter import Reporter
from graphbench.train.schedule import Schedule
from graphbench.train.seeding import seed_everything
from graphbench.train.settings import TrainerSettings
from graphbench.train.signals import StopRequest
from graphbench.train.trainer import Trainer
from graphbench.train.turns import Turns

logger = logging.getLogger("graphbench")


@dataclass(frozen=True)
class RunGroup:
    """Settings and data that the runs of one configuration have in common.

    Attributes:
        checked: the configuration.
        data: reads the data set when it is called first.
        overwrite: move earlier runs aside instead of skipping or resuming them.
        reporters: reporters told about every run, beside those of the configuration.
        together: runs that share the process; 1: one after the other.
        stop: asks those to end.
    """

    checked: Checked
    data: Callable[[], LoadedDataset]
    overwrite: bool
    reporters: Sequence[Reporter]
    together: int
    stop: StopRequest


def work_on(inputs: RunInputs, group: RunGroup, fabric: Fabric) -> Turns[None]:
    """Trains a run, or goes on with it, unless it is finished; in turns of one step.

    Args:
        inputs: split, identity and pretrained run of the run.
        group: settings and data that the run shares with others.
        fabric: launched. Runs that take turns have one each, because it holds the scale of float16 losses.

    Raises:
        UserError: the input is wrong.
        RunFailed: the run failed; its state is kept.
        Interrupted: stopped from outside; the state is kept.
    """
    config, directory = group.checked.config, group.checked.directory(inputs.run)
    if not group.overwrite and fabric.broadcast(_is_finished(directory)):
        logger.info("%s: finished earlier, made of the same, skipped.", directory.path)
        return
    # Everything is built before anything is written: wrong input leaves no trace.
    loaded = group.data()
    check_targets(config, loaded, inputs.splits)
    run = inputs.run
    parts = assemble(config, fabric, loaded, inputs.splits, run.seed, run_id=run.run_id, progress=logger.info)
    compile_model(config, parts.model)
    schedule, settings = build_schedule(config, parts.optimizer), build_settings(config, parts.info)
    text = config.of_run(run.seed, run.split_index).dump()
    with directory.open(
        identity=inputs.identity, config_text=config.dump(), run_text=text, overwrite=group.overwrite
    ) as decided:
        decision = fabric.broadcast(decided)
        if decision == "skip":  # another process has finished it meanwhile
            return
        for name, content in _files(config, loaded).items():
            directory.keep(name, content)
        record = _begin(parts, inputs, directory, group, resumes=decision == "resume")
        with directory.recorded(record) as ended:
            ended((yield from _outcome(parts, schedule, settings, inputs, directory, group)))


def _files(config: Config, loaded: LoadedDataset) -> dict[str, bytes]:
    """Files beside the data that the run is made of, by the name that the configuration has for them."""
    files = {**config.code_files, **{name: source for name, source in loaded.code.items() if name.endswith(".py")}}
    split = config.tree.dataset.split_file
    return {**files, split: config.beside(split).read_bytes()} if split else files


def _is_finished(directory: RunDirectory) -> bool:
    record = directory.record
    return record is not None and record.status == "finished"


def _begin(parts: Parts, inputs: RunInputs, directory: RunDirectory, group: RunGroup, *, resumes: bool) -> RunRecord:
    """Says what is trained, and on what; seeds the process. The record of the run."""
    config, fabric = parts.config, parts.fabric
    run, info = inputs.run, parts.info
    logger.info(
        "%s: %s, %s-level %s, split %s; %s, %s parameters, on %s%s",
        _title(config, inputs),
        info.name,
        info.task,
        info.task_type,
        split_texts([inputs.data], ",")[0],
        " ".join(layer_names(parts.model)) or "no layers",
        f"{count_parameters(parts.model):,}",
        fabric.device,
        f", one of {group.together} together" if group.together > 1 else "",
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
        data=inputs.data,
        inputs=inputs.identity.inputs,
        together=group.together,
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


def _outcome(
    parts: Parts,
    schedule: Schedule,
    settings: TrainerSettings,
    inputs: RunInputs,
    directory: RunDirectory,
    group: RunGroup,
) -> Turns[Outcome]:
    """Does what ``train.mode`` stands for."""
    config, fabric = parts.config, parts.fabric
    mode = config.tree.train.mode
    if mode in INFERENCE_MODES:
        assert parts.pretrained is not None
        rows = {name: group.data().rows_of(part) for name, part in inputs.splits.parts().items()}
        inference = Inference(
            fabric, parts.model, parts.task, parts.loaders, directory.path, parts.pretrained.epoch, rows
        )
        modes = {
            "inference-only": inference.scores,
            "PCQM4Mv2-inference": inference.ogb_submission,
            "log-attn-weights": inference.attention,
        }
        return _with_error(modes[mode](), parts)
    title, together = _title(config, inputs), group.together > 1
    reporters = build_reporters(
        config, title, parts.info, directory.path.name, parts.model, together=together, stop=group.stop
    )
    trainer = Trainer(
        fabric,
        parts.model,
        parts.task,
        parts.loaders,
        parts.optimizer,
        schedule,
        settings,
        run=directory,
        reporters=[*reporters, *group.reporters],
        stop=group.stop,
    )
    outcome = yield from trainer.turns()
    if parts.loaders.approximation is not None and trainer.state.best is not None:
        parts.model.load_state_dict(trainer.state.best.model)
    return _with_error(outcome, parts)


def _with_error(outcome: Outcome, parts: Parts) -> Outcome:
    """The outcome, with the error of approximate predictions by the weights that its scores are of."""
    fabric = parts.fabric
    adapter = fabric.place(BatchAdapter(parts.model, fabric.precision.weights)).eval()
    errors = approximation_error(Predictor(fabric, adapter), parts.task, parts.loaders, fabric)
    return replace(outcome, approximation_error=errors)
