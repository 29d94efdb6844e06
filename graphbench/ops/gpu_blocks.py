"""Tiles of the attention kernels by compute capability: measured where somebody has had such a GPU, else a default.

The table is ``gpu_blocks.json`` beside this file; ``python -m scripts.measure_blocks`` measures candidates on the GPU
at hand and writes its entry.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).with_name("gpu_blocks.json")
SPANS = (16, 32, 64, 128)
"""Padded widths of heads that kernels are made for."""
OPERANDS = (2, 4, 8)
"""Bytes of what is multiplied."""

Block = tuple[int, int, int]
"""Queries of a tile, keys of a tile, warps."""
Blocks = Mapping[int, Mapping[int, Block]]
"""Bytes of an operand -> padded width -> block."""


@dataclass(frozen=True)
class BlockTable:
    """Blocks of one architecture.

    Attributes:
        measured: device, date and command that they were timed with; None: a default, the largest tiles for which the
            compiler keeps all registers (README of focal attention), on no clock.
        blocks: for every operand and width.
    """

    measured: str | None
    blocks: Blocks


@functools.cache
def block_tables() -> dict[tuple[int, int], BlockTable]:
    """The table of every compute capability that has one, ascending."""
    stored = json.loads(PATH.read_text(encoding="utf-8"))
    tables = {}
    for name, entry in stored.items():
        major, minor = (int(part) for part in name.split("."))
        blocks = {
            int(operand): {int(span): (block[0], block[1], block[2]) for span, block in by_span.items()}
            for operand, by_span in entry["blocks"].items()
        }
        tables[major, minor] = BlockTable(entry["measured"], blocks)
    return dict(sorted(tables.items()))


def table_for(capability: tuple[int, int]) -> BlockTable:
    """That of the newest architecture that is not newer than the device, or of the oldest."""
    tables = block_tables()
    older = [known for known in tables if known <= capability]
    return tables[max(older, default=min(tables))]


def written(tables: Mapping[tuple[int, int], BlockTable]) -> str:
    """The text of ``gpu_blocks.json``, a line per operand."""
    entries = []
    for (major, minor), table in sorted(tables.items()):
        lines = [
            f'      "{operand}": '
            + json.dumps({str(span): list(block) for span, block in table.blocks[operand].items()})
            for operand in OPERANDS
        ]
        head = f'  "{major}.{minor}": {{\n    "measured": {json.dumps(table.measured)},\n    "blocks": {{\n'
        entries.append(head + ",\n".join(lines) + "\n    }\n  }")
    return "{\n" + ",\n".join(entries) + "\n}\n"
