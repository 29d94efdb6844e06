"""Kills at random moments and at chosen files; then the same command until it is finished."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts.torture.program import TIMEOUT, Call, Ended, call
from scripts.torture.workplace import COMMAND, RESULTS, SWEEP_COMMAND, Numbers, copy, leftovers

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MOMENTS = (
    "data", "data/.cache", *(f"{RESULTS}/{name}" for name in (
        "", "0", "0/config.yaml", "0/ckpt", "0/logging.log", "0/record.json", "0/train", "0/val/stats.json",
        "0/ckpt/next.ckpt", "0/ckpt/last.ckpt", "0/ckpt/previous.ckpt", "0/ckpt/best.ckpt", "1", "1/ckpt",
        "1/record.json", "agg", "agg/test/best.json",
    )),
)  # fmt: skip
"""Files whose appearance is the moment of a kill."""


def kills(number: int, dice: random.Random, blank: Path, scratch: Path) -> Iterator[str | None]:
    """One result per case: what is wrong, None for nothing."""
    undisturbed = call(COMMAND, copy(blank, scratch / "whole"))
    assert undisturbed.code == 0, undisturbed.err
    expected = Numbers.of(scratch / "whole", undisturbed.out)
    for _ in range(number):
        yield _case(dice, copy(blank, scratch / "killed"), expected, undisturbed.seconds)


def _case(dice: random.Random, folder: Path, expected: Numbers, seconds: float) -> str | None:
    told = []
    while not told or dice.random() < 0.3:
        chosen = dice.choice(SIGNALS)
        prepares = dice.random() < 0.1  # the data and its encodings only
        process = (
            Call(["rings.yaml"], folder, program="graphbench.commands.prepare") if prepares else Call(COMMAND, folder)
        )
        if dice.random() < 0.5:
            moment = dice.uniform(0, 1.1 * seconds)
            told.append(f"{chosen.name} after {moment:.3f} s")
            until = after(moment)
        else:
            file = dice.choice(MOMENTS)
            told.append(f"{chosen.name} when {file} is there")
            until = (folder / file).exists
        ended = process.wait(until) if chosen == signal.SIGKILL else _asked(process, until, chosen)
        allowed = (0, -9) if chosen == signal.SIGKILL else (0, 130, -chosen)
        defect = ended.defect(allowed)
        if defect is not None:
            return f"{', '.join(told)}: {defect}"
    ended = call(COMMAND, folder)
    defect = ended.defect((0,)) or expected.difference(Numbers.of(folder, ended.out))
    left = leftovers(folder)
    if defect is None and left:
        defect = f"leaves {', '.join(left)}"
    return defect and f"{', '.join(told)}: {defect}"


def sweep_kills(number: int, dice: random.Random, blank: Path, scratch: Path) -> Iterator[str | None]:
    """A sweep whose workers or whose launcher are killed; its runs have the numbers of undisturbed ones.

    Its workers import PyTorch, which takes as long as the machine is busy: a case hangs after ten times that one.
    """
    whole = copy(blank, scratch / "whole")
    undisturbed = call(SWEEP_COMMAND, whole, program="graphbench.sweeps.cli", patience=math.inf)
    assert undisturbed.code == 0, undisturbed.defect((0,))
    expected = Numbers.of(whole, undisturbed.out)
    for _ in range(number):
        yield _sweep_case(dice, copy(blank, scratch / "killed"), expected, undisturbed.seconds)


def _sweep_case(dice: random.Random, folder: Path, expected: Numbers, seconds: float) -> str | None:
    victim, moment = dice.choice(("worker", "launcher", "asked")), dice.uniform(0, seconds)
    told = f"{victim} after {moment:.3f} s"
    patience = TIMEOUT + 10 * seconds
    process = Call(SWEEP_COMMAND, folder, program="graphbench.sweeps.cli", patience=patience)
    until = after(moment)
    if victim == "worker":
        ended = _beside(process, until, lambda: _kill_one(_children(process.pid), dice))
        allowed = (0, 1)  # 1: its second attempt failed as well, which is said
    elif victim == "launcher":
        ended, allowed = process.wait(until), (0, -9)
    else:
        ended, allowed = _asked(process, until, signal.SIGINT), (0, 130, -signal.SIGINT)
    defect = ended.defect(allowed)
    if defect is None:
        ended = call(SWEEP_COMMAND, folder, program="graphbench.sweeps.cli", patience=patience)
        defect = ended.defect((0,)) or expected.difference(Numbers.of(folder, ended.out))
        left = leftovers(folder)
        defect = defect or (f"leaves {', '.join(left)}" if left else None)
    return defect and f"{told}: {defect}"


def _children(pid: int) -> list[int]:
    """Processes that a process has started and that still run."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _kill_one(processes: list[int], dice: random.Random) -> None:
    if processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(processes), signal.SIGKILL)


def after(seconds: float) -> Callable[[], bool]:
    """For :meth:`Call.wait`: whether so many seconds are over."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def _asked(process: Call, until: Callable[[], bool], number: int) -> Ended:
    """A signal that the program may answer to."""
    return _beside(process, until, lambda: process.kill(number))


def _beside(process: Call, until: Callable[[], bool], action: Callable[[], None]) -> Ended:
    """Waits for the end; does something once, when ``until`` says so."""
    done = False

    def act() -> bool:
        nonlocal done
        if not done and until():
            action()
            done = True
        return False

    return process.wait(act)
