"""Tables of tiles by architecture, and the choice among measured candidates."""

from __future__ import annotations

import math
import sys

import pytest

from graphbench.ops import gpu_blocks
from graphbench.ops.gpu_blocks import OPERANDS, SPANS, Block, BlockTable, block_tables, table_for, written
from scripts import measure_blocks


def test_every_architecture_has_every_block() -> None:
    for table in block_tables().values():
        assert set(table.blocks) == set(OPERANDS)
        for by_span in table.blocks.values():
            assert set(by_span) == set(SPANS)
            assert all(n & (n - 1) == 0 and n >= 4 for block in by_span.values() for n in block)


def test_what_is_written_is_read(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(block_tables()) == gpu_blocks.PATH.read_text(encoding="utf-8")
    path, known = tmp_path / "blocks.json", block_tables()
    newer = {**known, (10, 0): BlockTable("B200", next(iter(known.values())).blocks)}
    path.write_text(written(newer), encoding="utf-8")
    monkeypatch.setattr(gpu_blocks, "PATH", path)
    block_tables.cache_clear()
    try:
        assert block_tables() == newer
        assert table_for((10, 3)).measured == "B200"
    finally:
        block_tables.cache_clear()


@pytest.mark.parametrize(
    ("capability", "taken"), [((7, 5), (8, 0)), ((8, 0), (8, 0)), ((8, 9), (8, 0)), ((12, 0), None)]
)
def test_a_device_without_table_takes_that_of_an_older_one(
    capability: tuple[int, int], taken: tuple[int, int] | None
) -> None:
    assert table_for(capability) is block_tables()[taken or max(block_tables())]


def test_the_fastest_candidate_is_chosen() -> None:
    """By the median: one slow round does not count, a block that does not compile is out."""
    calls: dict[Block, int] = {}

    def timer(operand: int, span: int, block: Block) -> float:
        calls[block] = calls.get(block, 0) + 1
        if block == (64, 64, 8):
            return math.inf
        slow = block == (32, 16, 4) and calls[block] == 3
        return 100.0 if slow else abs(block[0] - 32) + abs(block[1] - 16) + block[2] + span + operand

    table = measure_blocks.measured(timer, "here")
    assert table.measured == "here"
    assert {block for by_span in table.blocks.values() for block in by_span.values()} == {(32, 16, 4)}
    assert calls[64, 64, 8] == len(SPANS) * len(OPERANDS)


def test_without_a_gpu_the_command_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["measure_blocks"])
    assert measure_blocks.main() == 2
    assert "there is no GPU to measure on: gpu_blocks.json stays as it is, {'8.0': 'default'" in capsys.readouterr().err
