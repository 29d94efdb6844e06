"""Configurations and command lines that nobody means, checked with ``--dry_run``: exit code 0 or 2, one message."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from graphbench import shipped
from graphbench.config.schema import SCHEMA
from scripts.torture.program import call
from scripts.torture.workplace import copy

ROOT = shipped.root()
SOURCES = shipped.configurations()
VALUES = (
    "-1", "0", "1", "3", "2.5", "-0.5", "1e30", "-1e30", "1e-300", ".nan", ".inf", "-.inf", "2147483648",
    "9223372036854775808", "1e400", "true", "null", "''", "none", "None", "010", "1:30", "0x10", "1_000", "2026-11-23",
    "[]", "[1, 2]", "[[1, 2], [3]]", "[a, 1.5, null]", "{}", "{a: 1}", "GCN", "GCN+Transformer", "Transformer+None+GCN",
    "+", "a b", "../../etc/passwd", "/dev/null", "ä€😀", "'\\0'", "'%s{0}'", "!!python/object/apply:os.system [true]",
    "!!binary aGk=", "*unknown", "&a [*a]", "range(1, 10**9)", "range(0,3,0)", "x" * 300,
)  # fmt: skip
FLAGS = (
    "--dry_run", "--overwrite", "--mark_done", "--repeat", "--repeat=0", "--repeat=-3", "--repeat=x", "--cfg", "--help",
    "--unknown", "-x", "--", "", " ", "=", "seed", "gt.layers", "gt", "gt.", ".layers", "optim.base_lr", "nowhere.yaml",
    ".", "/", "/dev/null", "rings.yaml", "graphs.pt", "ä.yaml", "'quoted'", "*", "seed=3",
)  # fmt: skip


def configurations(number: int, dice: random.Random, blank: Path, scratch: Path) -> Iterator[str | None]:
    """One result per case: what is wrong, None for nothing."""
    folder = copy(blank, scratch / "configurations")
    for _ in range(number):
        source = dice.choice(SOURCES)
        path = folder / "mutated.yaml"
        if dice.random() < 0.25:
            told = _mutate_text(source, path, dice)
        else:
            told = _override(source, path, dice)
        ended = call(["--cfg", str(path), "--dry_run"], folder)
        defect = ended.defect((0, 2))
        yield defect and f"{source.relative_to(ROOT)} with {told}: {defect}"


def commands(number: int, dice: random.Random, blank: Path, scratch: Path) -> Iterator[str | None]:
    """The same for command lines."""
    folder = copy(blank, scratch / "commands")
    for _ in range(number):
        words = ["--cfg", "rings.yaml"] if dice.random() < 0.8 else []
        for _ in range(dice.randint(0, 4)):
            if dice.random() < 0.6:
                words += [dice.choice(sorted(SCHEMA)), dice.choice(VALUES).strip("'")]
            else:
                words.append(dice.choice(FLAGS))
        words.append("--dry_run")
        ended = call([word for word in words if "\0" not in word], folder)
        defect = ended.defect((0, 2))
        if defect is not None and ended.code == 2 and "usage: main.py" in ended.err:
            defect = None  # argparse's own message
        yield defect and f"{words}: {defect}"


def _override(source: Path, path: Path, dice: random.Random) -> str:
    """A file based on a shipped one, with one to three hostile values; half of the keys are ones it sets."""
    written = [key for key in SCHEMA if f"{key.rpartition('.')[2]}:" in source.read_text()]
    lines, told = [], []
    for key in {dice.choice(written if written and dice.random() < 0.5 else sorted(SCHEMA)) for _ in range(3)}:
        value = dice.choice(VALUES)
        told.append(f"{key}: {value}")
        *groups, last = key.split(".")
        lines.append("".join(f"{{{group}: " for group in groups) + f"{{{last}: {value}}}" + "}" * len(groups))
        if dice.random() < 0.5:
            break
    merged = [line[1:-1] for line in lines]
    tops = {line.split(":")[0]: line for line in merged}  # a key twice would be another mistake
    path.write_text(f"_base_: {source}\n" + "\n".join(tops.values()) + "\n")
    return ", ".join(told)


def _mutate_text(source: Path, path: Path, dice: random.Random) -> str:
    """The text of a shipped file with characters or lines changed."""
    text = source.read_text().replace("_base_: ", f"_base_: {source.parent}/", 1)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(text) + 1)
        lines = text.splitlines(keepends=True)
        text = dice.choice(
            (
                text[:at] + dice.choice("{}[]:,#&*!|>'\"%@`\t -\\0ä") + text[at:],
                text[:at],
                text[:at] + text[at + 1 :],
                "".join(dice.sample(lines, len(lines))),
                text + dice.choice(lines or [""]),
            )
        )
    path.write_text(text)
    return f"text {text!r}"
