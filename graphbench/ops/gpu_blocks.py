"""Tiles of kernels by compute capability: measured where somebody has had such a GPU, else a default.

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
OPERANDS = (2, 4, 8)
"""Bytes of what is multiplied."""
_HEADS = (64, 128, 256)
SPANS = {
    "attention": {operand: (16, 32, 64, 128) for operand in OPERANDS},
    "flow_whole": {2: (32, 64, 128, 256, 512), 4: (32, 64, 128, 256, 512), 8: (32, 64)},
    **{kernel: dict.fromkeys(OPERANDS, _HEADS) for kernel in ("flow_tiled", "flow_query_side", "flow_key_side")},
    **{kernel: dict.fromkeys((4, 8), _HEADS) for kernel in ("linear_rows", "linear_cross")},
}
"""Kernels -> bytes of an operand -> what they have a block each for: padded widths of heads; ``flow_whole``: largest
numbers of nodes of graphs whose rows are solved at a time. Operators: pair attentions, sparse flow, linear attention.
"""

Block = tuple[int, int, int]
"""Rows of a tile, its keys (linear attention: columns), warps."""
Blocks = Mapping[int, Mapping[int, Block]]
"""Bytes of an operand -> span -> block."""


@dataclass(frozen=True)
class BlockTable:
    """Blocks of some kernels on one architecture.

    Attributes:
        measured: device, date and command that they were timed with; None: a default, tiles for which the compiler
            keeps the registers (READMEs of the operators), on no clock of this device.
        blocks: sizes for every operand and span.
    """

    measured: str | None
    blocks: Blocks


Tables = Mapping[str, BlockTable]
"""Kernels -> their blocks."""


@functools.cache
def block_tables() -> dict[tuple[int, int], Tables]:
    """The tables of every compute capability that has some, ascending."""
    stored = json.loads(PATH.read_text(encoding="utf-8"))
    tables = {}
    for name, of_kernels in stored.items():
        major, minor = (int(part) for part in name.split("."))
        tables[major, minor] = {
            kernels: BlockTable(
                entry["measured"],
                {
                    int(operand): {int(span): (block[0], block[1], block[2]) for span, block in by_span.items()}
                    for operand, by_span in entry["blocks"].items()
                },
            )
            for kernels, entry in of_kernels.items()
        }
    return dict(sorted(tables.items()))


def tables_for(capability: tuple[int, int]) -> Tables:
    """Tables of the newest architecture that is not newer than the device, or of the oldest."""
    tables = block_tables()
    older = [known for known in tables if known <= capability]
    return tables[max(older, default=min(tables))]


def written(tables: Mapping[tuple[int, int], Tables]) -> str:
    """The text of ``gpu_blocks.json``, a line per operand."""
    return "{\n" + ",\n".join(_entry(f"{a}.{b}", known) for (a, b), known in sorted(tables.items())) + "\n}\n"


def _entry(capability: str, tables: Tables) -> str:
    entries = []
    for kernels, table in tables.items():
        lines = [
            f'        "{operand}": ' + json.dumps({str(span): list(block) for span, block in by_span.items()})
            for operand, by_span in table.blocks.items()
        ]
        head = f'    "{kernels}": {{\n      "measured": {json.dumps(table.measured)},\n      "blocks": {{\n'
        entries.append(head + ",\n".join(lines) + "\n      }\n    }")
    return f'  "{capability}": {{\n' + ",\n".join(entries) + "\n  }"
