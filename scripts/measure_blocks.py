"""Times tiles of kernels on the GPU at hand; writes the fastest into its architecture's table.

    python -m scripts.measure_blocks [PIECE ...] [--dry-run]
    python -m scripts.measure_blocks --from RESULTS

A piece is one entry of the table: kernels, bytes of an operand and span, such as ``attention-4-32``. Each is measured
by forward and backward pass of an operator on graphs that it is made for, each candidate in turns with the others, and
the median counts. Candidates are compiled side by side first; those that do not compile, need more shared memory than
there is or give no numbers are left out. A piece ends in a JSON line. ``--from`` writes the pieces of a file
``blocks.json`` of ``scripts.gpu_check`` into the table. Without a GPU nothing is measured, and the command says so.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from graphbench import atomic
from graphbench.command_line import CommandParser
from graphbench.ops.gpu_blocks import PATH, SPANS, Block, BlockTable, Tables, block_tables, tables_for, written

TYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
ROUNDS, HEADS = 9, 4
REPLAYS = 10
"""Of the pass as one CUDA graph, for a time: the host takes longer to launch a few kernels than they take."""
MOST_ENTRIES = 64
"""Of a whole row's tile in one thread, which keeps six such tiles in 255 registers: beyond that a kernel spills most of
what it computes, and the compiler takes minutes to find places for it."""
# Seconds of one pass with a block; math.inf where there is none.
Timer = Callable[[Block], float]


@dataclass(frozen=True)
class Piece:
    """An entry of the table: kernels, bytes of an operand, and span."""

    kernels: str
    operand: int
    span: int

    @classmethod
    def named(cls, name: str) -> Piece:
        """Inverse of ``str``."""
        kernels, operand, span = name.split("-")
        return cls(kernels, int(operand), int(span))

    def __str__(self) -> str:
        return f"{self.kernels}-{self.operand}-{self.span}"

    @property
    def candidates(self) -> list[Block]:
        """Blocks to choose from."""
        if self.kernels == "flow_whole":
            blocks = ((rows, self.span, warps) for rows, warps in product((16, 32, 64), (4, 8, 16)))
            return [block for block in blocks if math.prod(block[:2]) <= MOST_ENTRIES * 32 * block[2]]
        if self.kernels.startswith("linear"):
            return list(product((16, 32, 64, 128), (16, 32), (4, 8)))
        return list(product((16, 32, 64, 128), (16, 32, 64), (4, 8)))


# In order of worth: what GPS, SFi and SGFormer have; double precision is for tests.
PIECES = [
    str(Piece(kernels, operand, span))
    for operand in (4, 2, 8)
    for kernels, spans in SPANS.items()
    for span in spans.get(operand, ())
]


def fastest(timer: Timer, candidates: Sequence[Block]) -> tuple[Block, dict[Block, float]]:
    """The candidate with the smallest median, timed in turns so that drift of the machine cancels, and all medians.

    Raises:
        ValueError: no candidate has a time.
    """
    seconds: dict[Block, list[float]] = {block: [] for block in candidates if timer(block) < math.inf}
    if not seconds:
        raise ValueError("no candidate could be timed")
    for _ in range(ROUNDS):
        for block, times in seconds.items():
            times.append(timer(block))
    medians = {block: statistics.median(times) for block, times in seconds.items()}
    return min(medians, key=lambda block: medians[block]), medians


def replaced(tables: Tables, piece: Piece, block: Block, measured: str | None = None) -> dict[str, BlockTable]:
    """Tables with another block in one place."""
    table = tables[piece.kernels]
    by_span = {**table.blocks[piece.operand], piece.span: block}
    blocks = {**table.blocks, piece.operand: by_span}
    return {**tables, piece.kernels: BlockTable(measured or table.measured, blocks)}


def seconds_with(piece: Piece, device: torch.device, block: Block) -> float:
    """One pass of the operator with a block, by replays; the first one in a process loads or compiles its kernels."""
    from graphbench.benchmarks.measuring import replayed, seconds_of
    from graphbench.ops import gpu_launch

    tables = replaced(tables_for(torch.cuda.get_device_capability(device)), piece, block)
    gpu_launch.blocks_on.cache_clear()
    try:
        with mock.patch.object(gpu_launch, "tables_for", return_value=tables):
            replay = replayed(step_of(piece, device), device)  # what depends on the batch alone is made before
            return seconds_of(lambda: [replay() for _ in range(REPLAYS)], device) / REPLAYS
    except Exception as error:  # noqa: BLE001  of the compiler, by many names
        print(f"  {block}: {type(error).__name__}", file=sys.stderr)
        return math.inf
    finally:
        gpu_launch.blocks_on.cache_clear()


def step_of(piece: Piece, device: torch.device) -> Callable[[], None]:
    """Forward and backward pass that the kernels of a piece have a part in."""
    from graphbench.ops.linear_attention import linear_attention
    from graphbench.ops.softmax_attention import softmax_attention
    from graphbench.ops.sparse_flow import sparse_flow
    from graphbench.structures import Ragged

    most, width = 272, piece.span  # sizes of the graphs of Peptides: 28 to 272
    if piece.kernels.startswith("flow"):
        most, width = (piece.span, 64) if piece.kernels == "flow_whole" else (720, piece.span)
    sizes = [most - most * (i % 5) // 10 for i in range(64)]
    ragged = Ragged.from_sizes(sizes, device)
    rows = [
        torch.randn(ragged.num_rows, HEADS, width, device=device, dtype=TYPES[piece.operand], requires_grad=True)
        for _ in range(5)
    ]
    lam = torch.ones(len(sizes), device=device)

    def step() -> None:
        if piece.kernels == "attention":
            out = softmax_attention(*rows[:3], ragged, backend="gpu")
        elif piece.kernels.startswith("linear"):
            out = linear_attention(*rows[:3], ragged, backend="gpu")
        else:
            out = sparse_flow(*rows, ragged, lam=lam, alpha=1.0, backend="gpu")
        torch.autograd.grad(out.sum(), rows[:3])

    return step


def measured(piece: Piece, device: torch.device) -> dict[str, Any]:
    """The fastest block of a piece, and the seconds of all, ready for JSON."""
    timer = partial(seconds_with, piece, device)
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) // 2), mp_context=get_context("spawn")) as pool:
        reached = list(pool.map(timer, piece.candidates))
    block, seconds = fastest(timer, [x for x, first in zip(piece.candidates, reached, strict=True) if first < math.inf])
    return {
        "piece": str(piece),
        "capability": torch.cuda.get_device_capability(device),
        "where": f"{torch.cuda.get_device_name(device)}, {datetime.date.today()}",
        "block": block,
        "seconds": {"x".join(map(str, each)): time for each, time in seconds.items()},
    }


def with_pieces(
    tables: dict[tuple[int, int], Tables], pieces: Sequence[dict[str, Any]]
) -> dict[tuple[int, int], Tables]:
    """Tables with what was measured."""
    tables = dict(tables)
    for found in pieces:
        major, minor = found["capability"]
        known = tables.get((major, minor)) or tables_for((major, minor))
        piece, (rows, keys, warps) = Piece.named(found["piece"]), found["block"]
        before = known[piece.kernels].measured
        entry = f"{found['where']}: {piece.operand} bytes, {piece.span}"
        text = entry if before is None else before if entry in before else f"{before}; {entry}"
        tables[major, minor] = replaced(known, piece, (rows, keys, warps), text)
    return tables


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, and writes the table; the exit code is 2 where there is no GPU."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help=f"of {', '.join(PIECES)}; default: all")
    parser.add_argument("--dry-run", action="store_true", help="leave the file as it is")
    parser.add_argument("--from", type=Path, dest="results", metavar="RESULTS", help="write these into the table")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.pieces if name not in PIECES]
    if unknown:
        parser.error(f"pieces are {', '.join(PIECES)}; received {', '.join(unknown)}")
    if options.results is not None:
        results = json.loads(options.results.read_text(encoding="utf-8"))["results"].values()
        found = [each["result"] for each in results if each["code"] == 0]
    elif not torch.cuda.is_available():
        print(f"there is no GPU to measure on: {PATH.name} stays as it is", file=sys.stderr)
        return 2
    else:
        device = torch.device("cuda", torch.cuda.current_device())
        found = []
        for name in options.pieces or PIECES:
            found.append(measured(Piece.named(name), device))
            print(json.dumps(found[-1]), flush=True)
    if not options.dry_run:
        atomic.write_text(PATH, written(with_pieces(block_tables(), found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
