"""Rows of configs/README.md: one per configuration and sweep; texts in them are written by hand, and stay.

A file without a row gets one, with its number of parameters (or of entries and runs), in the section that holds its
folder; a row without a file is left out. Entries and runs of sweeps are counted anew. Other numbers in the page are
checked by tests against what is built.
"""

from __future__ import annotations

import re
from pathlib import Path

from graphbench.config import load_config
from graphbench.preflight import describe
from study.shipped_sweeps import shipped_sweep

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
_ROW = re.compile(r"\| \[[\w.-]+\]\(([\w./-]+)\) .*\n")


def page() -> str:
    """The whole page."""
    files = {path.relative_to(CONFIGS).as_posix() for path in CONFIGS.rglob("*.yaml") if "_base_" not in path.parts}
    lines = (CONFIGS / "README.md").read_text(encoding="utf-8").splitlines(keepends=True)
    rows = [_file(line) for line in lines]
    kept = [_counted(line, file) for line, file in zip(lines, rows, strict=True) if not file or file in files]
    for file in sorted(files - set(rows)):
        index = _place([_file(line) for line in kept], file)
        kept.insert(index, row(file))
    return "".join(kept)


def row(file: str) -> str:
    """The row of a file, its path relative to ``configs/``."""
    path = CONFIGS / file
    link = f"| [{path.stem}]({file})"
    if file.startswith("sweeps/"):
        comment = re.match(r"# (.*)\n", path.read_text(encoding="utf-8"))
        return f"{link} | {comment[1] if comment else ''} |{_size(file)}\n"
    return f"{link} |  | {describe(load_config(path)).params:,} |  |\n"


def _size(file: str) -> str:
    """The last two columns of a sweep: entries and runs."""
    sweep = shipped_sweep(Path(file).stem)
    runs = sum(len(entry.config.tree.run_multiple_splits) or sweep.seeds for entry in sweep.entries)
    return f" {len(sweep.entries)} | {runs} |"


def _counted(line: str, file: str) -> str:
    return re.sub(r" \d+ \| \d+ \|\n$", _size(file) + "\n", line) if file.startswith("sweeps/") else line


def _file(line: str) -> str:
    found = _ROW.fullmatch(line)
    return found[1] if found else ""


def _place(rows: list[str], file: str) -> int:
    """Index at which the row of a file is inserted: in the order of names among the rows of its folder."""
    folder = Path(file).parent
    same = [index for index, other in enumerate(rows) if other and Path(other).parent == folder]
    before = [index for index in same if rows[index] < file]
    if before:
        return before[-1] + 1
    return same[0] if same else len(rows)
