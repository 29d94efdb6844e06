"""Damaged files: what a run left behind, or stopped at, with bits flipped, cut off, or as a folder or a link."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.torture.program import Call, call
from scripts.torture.workplace import COMMAND, RESULTS, Numbers, copy

INPUTS = ("graphs.pt", "split.json", "rings.yaml")
"""Files that the user wrote: other content may mean other numbers, but no traceback."""


def flip(path: Path, dice: random.Random) -> None:
    """One bit, in one to four places."""
    content = bytearray(path.read_bytes() or b"\0")
    for _ in range(dice.randint(1, 4)):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def truncate(path: Path, dice: random.Random) -> None:
    """Cut off anywhere."""
    content = path.read_bytes()
    path.write_bytes(content[: dice.randrange(len(content) + 1)])


def append(path: Path, dice: random.Random) -> None:
    """Bytes that do not belong there."""
    path.write_bytes(path.read_bytes() + dice.randbytes(dice.randint(1, 64)))


def noise(path: Path, dice: random.Random) -> None:
    """Nothing of the content is left."""
    path.write_bytes(dice.randbytes(path.stat().st_size))


def remove(path: Path, dice: random.Random) -> None:
    """The file is gone."""
    path.unlink()


def become_folder(path: Path, dice: random.Random) -> None:
    """A folder in its place."""
    path.unlink()
    path.mkdir()


def become_link(path: Path, dice: random.Random) -> None:
    """A link to nowhere, or to itself, in its place."""
    path.unlink()
    path.symlink_to(path.name if dice.random() < 0.5 else "nowhere")


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (
    flip, flip, flip, truncate, truncate, append, noise, remove, become_folder, become_link
)  # fmt: skip


def damages(number: int, dice: random.Random, blank: Path, scratch: Path) -> Iterator[str | None]:
    """One result per case: what is wrong, None for nothing."""
    finished, stopped = copy(blank, scratch / "finished"), copy(blank, scratch / "stopped")
    whole = call(COMMAND, finished)
    assert whole.code == 0, whole.err
    expected = Numbers.of(finished, whole.out)
    curve = stopped / RESULTS / "0/val/stats.json"
    Call(COMMAND, stopped).wait(lambda: curve.is_file() and curve.read_text().count("\n") >= 3)
    for _ in range(number):
        source = dice.choice((finished, stopped))
        folder = copy(source, scratch / "damaged")
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
        chosen = dice.choice(files)
        damage = dice.choice(DAMAGES)
        damage(chosen, dice)
        defect = _ended(folder, chosen, expected)
        name = f"{source.name}: {chosen.relative_to(folder)}, {damage.__name__}"
        yield defect and f"{name}: {defect}"
    for source in (finished, stopped):
        shutil.rmtree(source)


def _ended(folder: Path, damaged: Path, expected: Numbers) -> str | None:
    ended = call(COMMAND, folder)
    defect = ended.defect((0, 2, 3))
    if defect is not None or ended.code != 0 or damaged.name in INPUTS:
        return defect
    numbers = Numbers.of(folder, ended.out)
    if damaged.name == "stats.json":
        # Of a run that is not trained again it stays as it is, and means leave it out; scores come from the record.
        numbers = replace(numbers, curves=expected.curves, aggregates=_of_as_many(numbers, expected))
    if damaged.suffix == ".ckpt":
        numbers = replace(numbers, weights=expected.weights)  # refused by whoever reads it
    return expected.difference(numbers)


def _of_as_many(numbers: Numbers, expected: Numbers) -> dict[str, Any]:
    """Means over the epochs, where those of fewer runs than expected count as right."""
    kept = {}
    for name, lines in expected.aggregates.items():
        received = {line.get("epoch"): line for line in numbers.aggregates.get(name, [])}
        fewer = [line if received.get(line.get("epoch"), {"n": 0})["n"] < line["n"] else None for line in lines]
        kept[name] = [known or received[line.get("epoch")] for known, line in zip(fewer, lines, strict=True)]
    return kept
