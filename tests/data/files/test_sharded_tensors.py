"""One file from several writers: what is whole, and what is not."""

from __future__ import annotations

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
