"""One configuration, one or several seeds: from loaded configuration to records, table and final line."""

from __future__ import annotations

import functools
import logging
import sys
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import torch
from rich.console import Console

from graphbench.config import Config
from graphbench.errors import UserError
from graphbench.factory.data import read_data
from graphbench.factory.split_data import shared_data
from graphbench.factory.training import build_fabric
from graphbench.preflight import Checked, check
from graphbench.run_inputs import RunInputs, run_inputs
from graphbench.runs.aggregate import write_aggregate
from graphbench.runs.identity import RunIdentity
from graphbench.runs.summary import FinalLine, final_line, results_table
from graphbench.single_run import RunGroup, work_on
from graphbench.train.fabric import Fabric
from graphbench.train.failures import lost_processes_told
from graphbench.train.reporter import Reporter
from graphbench.train.signals import StopRequest
from graphbench.train.turns import take_turns, without_pause

logger = logging.getLogger("graphbench")
_running = threading.RLock()


@contextmanager
def _alone() -> Iterator[None]:
    """Refuses to train in two threads at once: both would draw from PyTorch's one random generator.

    Raises:
        UserError: another thread is training.
    """
    if not _running.acquire(blocking=False):
        raise UserError(
            "another thread of this process is training; both would draw from the same random generator, and neither "
            "could be repeated. Use processes (joblib's default backend, multiprocessing), or repeat and together."
        )
    try:
        yield
    finally:
        _running.release()


@lost_processes_told()
@_alone()
def run(
    config: Config,
    *,
    repeat: int = 1,
    only: Collection[int] | None = None,
    overwrite: bool = False,
    together: bool = False,
    reporters: Sequence[Reporter] = (),
) -> FinalLine | None:
    """Trains what is not trained yet, then aggregates over the runs asked for.

    Args:
        config: a loaded configuration.
        repeat: number of seeds, counted up from ``seed``.
        only: run ids of those of them that are meant; None: all.
        overwrite: move earlier runs aside instead of skipping or resuming them.
        together: train the runs in turns of one step, each on a stream of its own on a GPU, instead of one after the
            other. Each is what it would be alone; one that fails leaves the others alone.
        reporters: told about every run that is trained, beside those of the configuration.

    Returns:
        The final line; None in all but the first process of a data-parallel run.

    Raises:
        UserError: the input is wrong, or another thread of this process is training.
        RunFailed: a run failed; its state is kept.
        Interrupted: stopped from outside; the state is kept.
    """
    if not isinstance(config, Config):
        raise TypeError(f"run takes what load_config returns, received {type(config).__name__}")
    stop = StopRequest()
    with stop.at_once():
        checked = check(config, repeat=repeat, only=only, overwrite=overwrite, together=together, keep_data=True)
        checked.fabric.launch()
        with _console(checked.config, checked.fabric), _threads(checked.config.tree.num_threads):
            return _train(checked, overwrite, together, reporters, stop)


def _train(
    checked: Checked, overwrite: bool, together: bool, reporters: Sequence[Reporter], stop: StopRequest
) -> FinalLine | None:
    config, fabric = checked.config, checked.fabric
    for notice in config.notices:
        logger.info(notice)
    data = read_data(config) if checked.data is None else checked.data
    shared = functools.cache(lambda: shared_data(config, data, logger.info))  # made for the first run that needs it
    all_inputs = [run_inputs(config, data, planned) for planned in checked.runs]
    if not overwrite:
        for inputs in all_inputs:
            checked.directory(inputs.run).refuse_another(inputs.identity)
    _hint_at_splits(config, all_inputs)
    number = len(all_inputs) if together else 1
    group = RunGroup(checked, shared, overwrite, reporters, number, stop)
    try:
        if number > 1:
            _run_together(all_inputs, group, fabric)
        scale = fabric.precision.state_dict()  # of float16 losses: every run begins with the same
        for inputs in all_inputs if number == 1 else ():
            fabric.precision.load_state_dict(scale)
            without_pause(work_on(inputs, group, fabric))
    finally:  # of the runs before one that fails or is interrupted, too
        if fabric.is_global_zero and checked.folder.is_dir():
            identity = functools.reduce(RunIdentity.joined, [inputs.identity for inputs in all_inputs])
            write_aggregate(checked.folder, identity=identity)
    if not fabric.is_global_zero:
        return None
    result = checked.result()
    Console(stderr=True).print(results_table(result))
    return final_line(checked.summary.dataset, result, checked.folder)


def _run_together(all_inputs: Sequence[RunInputs], group: RunGroup, fabric: Fabric) -> None:
    config = group.checked.config
    trainings = {}
    for inputs in all_inputs:
        own = build_fabric(config)
        own.launch()
        trainings[f"{config.name} {inputs.run.run_id}"] = work_on(inputs, group, own)
    take_turns(trainings, fabric.device, lambda name, error: logger.error("%s: %s", name, error))


def _hint_at_splits(config: Config, all_inputs: Sequence[RunInputs]) -> None:
    count = all_inputs[0].splits.count
    if len(all_inputs) > 1 and count > 1 and not config.tree.run_multiple_splits:
        logger.info(
            "%s: all %d runs have split %d of %d; run_multiple_splits '[0, ..., %d]' trains on each.",
            *(config.name, len(all_inputs), all_inputs[0].run.split_index, count, count - 1),
        )


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
