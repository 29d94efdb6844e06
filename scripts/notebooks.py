"""Notebooks from the pages of docs/examples: their texts and their blocks as cells, without results.

A block of YAML whose first line is ``# file: NAME`` is a cell that writes this file. The format is nbformat 4.5
(https://nbformat.readthedocs.io).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"
_BLOCK = re.compile(r"^```(python|yaml)\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# file: (\S+)\n")


def pages() -> list[Path]:
    """The examples."""
    return sorted(path for path in EXAMPLES.glob("*.md") if path.name != "README.md")


def cells(page: Path) -> Iterator[tuple[str, str, str]]:
    """``("text", "", Markdown)``, ``("code", "", Python)`` and ``("file", name, content)`` in their order."""
    text, end = page.read_text(encoding="utf-8"), 0
    for block in _BLOCK.finditer(text):
        yield "text", "", text[end : block.start()]
        file = _FILE.match(block[2]) if block[1] == "yaml" else None
        yield ("file", file[1], block[2][file.end() :]) if file else ("code", "", block[2])
        end = block.end()
    yield "text", "", text[end:]


def notebook(page: Path) -> str:
    """The notebook of a page as JSON."""
    listed = []
    for number, (what, name, content) in enumerate(cells(page)):
        source = f"%%writefile {name}\n{content}" if what == "file" else content
        if not source.strip():
            continue
        cell: dict[str, object] = {"cell_type": "markdown" if what == "text" else "code", "id": f"cell-{number}"}
        cell |= {"metadata": {}, "source": source.strip("\n").splitlines(keepends=True)}
        listed.append(cell if what == "text" else cell | {"execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": listed, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
