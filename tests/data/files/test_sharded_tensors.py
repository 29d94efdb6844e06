"""One file from several writers: what is whole, and what is not."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from graphbench.data.files import sharded_tensors
from graphbench.data.files.sharded_tensors import ShardedTensors
from graphbench.data.files.tensor_cache import cache_path, cached_tensors


def test_a_shard_that_was_broken_off_while_it_was_written_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes, key = {"a": (4, 2), "b": (4,)}, {"of": "test"}
    rows = torch.arange(8.0).view(4, 2)
    file = ShardedTensors(tmp_path, "name", key, shapes, 2)
    with monkeypatch.context() as broken:
        broken.setattr(sharded_tensors.os, "fsync", lambda file: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            file.write(0, {"a": (0, rows[:2] + 7), "b": (0, rows[:2, 0])})
    assert not file.has(0)
    file.write(1, {"a": (2, rows[2:]), "b": (2, rows[2:, 0])})
    assert file.has(1)
    assert not file.finish()
    file.write(0, {"a": (0, rows[:2]), "b": (0, rows[:2, 0])})
    assert not file.is_finished
    assert file.finish()
    found = cache_path(tmp_path, "name", key)
    tensors = load_file(found)
    assert torch.equal(tensors["a"], rows)
    assert torch.equal(tensors["b"], rows[:, 0])
    assert torch.equal(cached_tensors(tmp_path, "name", key, pytest.fail)["a"], rows), "the checksum is right"


def test_a_shard_that_comes_after_the_end_leaves_nothing(tmp_path: Path) -> None:
    shapes, rows = {"a": (4,)}, torch.arange(4.0)
    for _ in range(2):  # two processes that began with the same shard
        file = ShardedTensors(tmp_path, "name", {"of": "test"}, shapes, 1)
        file.write(0, {"a": (0, rows)})
        assert file.finish()
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith("-shards")] == []


@pytest.mark.parametrize("damage", ["flipped", "cut", "header", "mark"])
def test_a_shard_that_was_damaged_before_the_last_one_came_is_computed_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    shapes, key = {"a": (4, 2), "none": (0, 3)}, {"of": "test"}
    rows = torch.arange(8.0).view(4, 2)
    file = ShardedTensors(tmp_path, "name", key, shapes, 2)
    file.write(0, {"a": (0, rows[:2]), "none": (0, torch.empty(0, 3))})
    partial, mark = (tmp_path / f".{cache_path(tmp_path, 'name', key).name}.2-shards{end}" for end in ("", ".0"))
    content = bytearray(partial.read_bytes())
    if damage == "flipped":
        content[-20] ^= 1
    elif damage == "header":
        content[9] ^= 1
    partial.write_bytes(content[:-20] if damage == "cut" else content)
    if damage == "mark":
        mark.write_text("")  # its writer was killed
    file.write(1, {"a": (2, rows[2:]), "none": (0, torch.empty(0, 3))})
    with caplog.at_level(logging.WARNING):
        assert file.finish() == (damage == "header")
    if damage != "header":
        assert "shard 0 is damaged" in caplog.text
        assert not file.has(0)
        file.write(0, {"a": (0, rows[:2]), "none": (0, torch.empty(0, 3))})
        assert file.finish()
    assert torch.equal(cached_tensors(tmp_path, "name", key, pytest.fail)["a"], rows)
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors", ".lock"}, "nothing else is left"


def test_half_a_mark_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk a shard has to be computed once more, not at the call after the next."""

    flushed = []

    def fsync(number: int) -> None:
        flushed.append(number)
        if len(flushed) > 1:  # behind the rows
            raise OSError(errno.ENOSPC, "No space left on device")

    file = ShardedTensors(tmp_path, "name", {}, {"a": (2, 1)}, 2)
    file.write(1, {"a": (1, torch.ones(1, 1))})
    there = set(tmp_path.iterdir())
    monkeypatch.setattr(sharded_tensors.os, "fsync", fsync)
    with pytest.raises(OSError, match="No space left"):
        file.write(0, {"a": (0, torch.ones(1, 1))})
    assert not file.has(0)
    assert set(tmp_path.iterdir()) == there


def test_a_file_that_is_being_made_is_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed in between, it must not stand for the shard of the number that its process had."""
    monkeypatch.setattr(sharded_tensors.os, "getpid", lambda: 1)
    monkeypatch.setattr(sharded_tensors.os, "replace", lambda *names: (_ for _ in ()).throw(KeyboardInterrupt))
    file = ShardedTensors(tmp_path, "name", {}, {"a": (2, 1)}, 2)
    with pytest.raises(KeyboardInterrupt):
        file.write(0, {"a": (0, torch.ones(1, 1))})
    monkeypatch.undo()
    file.write(0, {"a": (0, torch.ones(1, 1))})
    assert not file.has(1)
