"""Times the tiles of the attention kernels on the GPU at hand; writes the fastest into its architecture's table.

    python -m scripts.measure_blocks [--dry-run]

For every type of operand and padded width of heads: forward and backward pass of softmax attention on 128 graphs as
large as those of Peptides, each candidate in turns with the others, the median counts. Candidates that do not compile
or need more shared memory than there is are left out. Without a GPU nothing is measured, and the command says so.
"""

from __future__ import annotations

import argparse
import datetime
import math
import statistics
import sys
from collections.abc import Callable
from itertools import product
from unittest import mock

import torch

from graphbench.ops.gpu_blocks import OPERANDS, PATH, SPANS, Block, BlockTable, block_tables, written

CANDIDATES: tuple[Block, ...] = tuple(product((16, 32, 64), (16, 32, 64), (4, 8)))
TYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}
ROUNDS, HEADS = 9, 4
# Seconds of one pass with a block; math.inf where there is none.
Timer = Callable[[int, int, Block], float]


def fastest(timer: Timer, operand: int, span: int) -> Block:
    """The candidate with the smallest median, timed in turns so that drift of the machine cancels."""
    seconds: dict[Block, list[float]] = {block: [] for block in CANDIDATES if timer(operand, span, block) < math.inf}
    for _ in range(ROUNDS):
        for block, times in seconds.items():
            times.append(timer(operand, span, block))
    return min(seconds, key=lambda block: statistics.median(seconds[block]))


def measured(timer: Timer, where: str) -> BlockTable:
    """The fastest blocks of all types and widths."""
    blocks = {operand: {span: fastest(timer, operand, span) for span in SPANS} for operand in OPERANDS}
    return BlockTable(where, blocks)


def gpu_timer(device: torch.device) -> Timer:
    """Forward and backward pass of softmax attention; the first call with a block compiles its kernels."""
    from graphbench.benchmarks.measuring import seconds_of
    from graphbench.ops import gpu_launch
    from graphbench.ops.softmax_attention import softmax_attention
    from graphbench.structures import Ragged

    sizes = [150 + 61 * (i % 5) - 122 for i in range(128)]
    ragged = Ragged.from_sizes(sizes, device)

    def once(operand: int, span: int, block: Block) -> float:
        qkv = torch.randn(3, ragged.num_rows, HEADS, span, device=device, dtype=TYPES[operand], requires_grad=True)

        def step() -> None:
            softmax_attention(*qkv, ragged, backend="gpu").sum().backward()

        blocks = {operand: {span: block}}
        with mock.patch.object(gpu_launch, "blocks_on", return_value=blocks):
            try:
                return seconds_of(step, device)
            except Exception as error:  # noqa: BLE001  of the compiler, by many names
                print(f"  {block}: {type(error).__name__}", file=sys.stderr)
                return math.inf

    return once


def main() -> int:
    """Measures, prints, and writes the table; the exit code is 2 where there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="print the table and leave the file as it is")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        known = {f"{a}.{b}": table.measured or "default" for (a, b), table in block_tables().items()}
        print(f"there is no GPU to measure on: {PATH.name} stays as it is, {known}", file=sys.stderr)
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    where = f"{torch.cuda.get_device_name(device)}, {datetime.date.today()}, python -m scripts.measure_blocks"
    table = measured(gpu_timer(device), where)
    text = written({**block_tables(), torch.cuda.get_device_capability(device): table})
    print(text, end="")
    if not arguments.dry_run:
        PATH.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
