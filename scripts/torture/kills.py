"""Kills at random moments and at chosen files; then the same command until it is finished."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts.torture.program import Call, Ended, call
from scripts.torture.workplace import COMMAND, RESULTS, Numbers, copy, leftovers

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MOMENTS = (
    "", "0", "0/config.yaml", "0/ckpt", "0/logging.log", "0/record.json", "0/train", "0/val/stats.json",
    "0/ckpt/next.ckpt", "0/ckpt/last.ckpt", "0/ckpt/previous.ckpt", "0/ckpt/best.ckpt", "1", "1/ckpt", "1/record.json",
    "agg", "agg/test/best.json",
)  # fmt: skip
"""Files below the results whose appearance is the moment of a kill."""


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
        process = Call(COMMAND, folder)
        if dice.random() < 0.5:
            moment = dice.uniform(0, 1.1 * seconds)
            told.append(f"{chosen.name} after {moment:.3f} s")
            until = after(moment)
        else:
            file = dice.choice(MOMENTS)
            told.append(f"{chosen.name} when {RESULTS / file} is there")
            until = (folder / RESULTS / file).exists
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


def after(seconds: float) -> Callable[[], bool]:
    """For :meth:`Call.wait`: whether so many seconds are over."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def _asked(process: Call, until: Callable[[], bool], number: int) -> Ended:
    """A signal that the program may answer to."""
    sent = False

    def send() -> bool:
        nonlocal sent
        if not sent and until():
            process.kill(number)
            sent = True
        return False

    return process.wait(send)
