"""Tables of tiles by architecture, and the choice among measured candidates."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest

from graphbench.ops import gpu_blocks
from graphbench.ops.gpu_blocks import SPANS, Block, BlockTable, block_tables, tables_for, written
from scripts import measure_blocks
from scripts.measure_blocks import Piece


def test_every_architecture_has_every_block() -> None:
    for tables in block_tables().values():
        assert list(tables) == list(SPANS)
        for kernels, spans in SPANS.items():
            assert {operand: tuple(by_span) for operand, by_span in tables[kernels].blocks.items()} == spans
            for by_span in tables[kernels].blocks.values():
                assert all(n & (n - 1) == 0 and n >= 4 for block in by_span.values() for n in block)


def test_rows_of_graphs_that_are_solved_at_a_time_fit_a_tile() -> None:
    for tables in block_tables().values():
        for by_keys in tables["flow_whole"].blocks.values():
            assert [keys for _rows, keys, _warps in by_keys.values()] == list(by_keys) == sorted(by_keys)


def test_what_is_written_is_read(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(block_tables()) == gpu_blocks.PATH.read_text(encoding="utf-8")
    path, known = tmp_path / "blocks.json", block_tables()
    of_oldest = next(iter(known.values()))
    newer = {**known, (10, 0): {**of_oldest, "attention": BlockTable("B200", of_oldest["attention"].blocks)}}
    path.write_text(written(newer), encoding="utf-8")
    monkeypatch.setattr(gpu_blocks, "PATH", path)
    block_tables.cache_clear()
    try:
        assert block_tables() == newer
        assert tables_for((10, 3))["attention"].measured == "B200"
    finally:
        block_tables.cache_clear()


@pytest.mark.parametrize(
    ("capability", "taken"), [((7, 5), (8, 0)), ((8, 0), (8, 0)), ((8, 9), (8, 0)), ((12, 0), None)]
)
def test_a_device_without_table_takes_that_of_an_older_one(
    capability: tuple[int, int], taken: tuple[int, int] | None
) -> None:
    assert tables_for(capability) is block_tables()[taken or max(block_tables())]


def test_the_fastest_candidate_is_chosen() -> None:
    """By the median: one slow round does not count, a block that does not compile is out."""
    calls: Counter[Block] = Counter()

    def timer(block: Block) -> float:
        calls[block] += 1
        if block == (64, 64, 8):
            return math.inf
        slow = block == (32, 16, 4) and calls[block] == 3
        return 100.0 if slow else abs(block[0] - 32) + abs(block[1] - 16) + block[2]

    candidates = Piece("attention", 4, 32).candidates
    block, seconds = measure_blocks.fastest(timer, candidates)
    assert (block, seconds[block]) == ((32, 16, 4), 4)
    assert set(seconds) == set(candidates) - {(64, 64, 8)}
    assert calls[64, 64, 8] == 1
    with pytest.raises(ValueError, match="no candidate"):
        measure_blocks.fastest(lambda block: math.inf, candidates)


def test_pieces_are_the_entries_of_the_table() -> None:
    pieces = [Piece.named(name) for name in measure_blocks.PIECES]
    assert len(set(pieces)) == sum(len(spans) for by_operand in SPANS.values() for spans in by_operand.values())
    for piece in pieces:
        for tables in block_tables().values():
            assert tables[piece.kernels].blocks[piece.operand][piece.span] in piece.candidates


def test_pieces_that_were_measured_elsewhere_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    piece, block = Piece("flow_tiled", 4, 128), [16, 64, 4]
    found = {"piece": str(piece), "capability": [9, 0], "where": "H100, today", "block": block, "seconds": {}}
    results = {"right": {"code": 0, "result": found}, "wrong": {"code": 1, "result": None}}
    path, before = tmp_path / "gpu_blocks.json", block_tables()
    monkeypatch.setattr(measure_blocks, "PATH", path)
    (tmp_path / "blocks.json").write_text(json.dumps({"environment": {}, "results": results}))
    assert measure_blocks.main(["--from", str(tmp_path / "blocks.json")]) == 0
    monkeypatch.setattr(gpu_blocks, "PATH", path)
    block_tables.cache_clear()
    try:
        after = block_tables()
    finally:
        block_tables.cache_clear()
    assert after[9, 0]["flow_tiled"].blocks[4] == {**before[9, 0]["flow_tiled"].blocks[4], 128: (16, 64, 4)}
    assert after[9, 0]["flow_tiled"].measured == "H100, today: 4 bytes, 128"
    changed = measure_blocks.with_pieces(after, [{**found, "piece": "flow_tiled-4-64"}, found])[9, 0]["flow_tiled"]
    assert changed.measured == "H100, today: 4 bytes, 128; H100, today: 4 bytes, 64"
    assert after[8, 0] == before[8, 0]
    assert {name: table for name, table in after[9, 0].items() if name != "flow_tiled"} == {
        name: table for name, table in before[9, 0].items() if name != "flow_tiled"
    }


def test_without_a_gpu_the_command_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert measure_blocks.main([]) == 2
    assert "there is no GPU to measure on: gpu_blocks.json stays as it is" in capsys.readouterr().err
