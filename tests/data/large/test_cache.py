"""One mapped graph in the cache: written once, rebuilt when damaged."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.files.roots import Roots
from graphbench.data.large.arrays import create
from graphbench.data.large.cache import cached_large_graph
from graphbench.data.splits import Splits


class _Writer:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, folder: Path) -> Splits:
        self.calls += 1
        create(folder / "edge_index.npy", (2, 3), np.int32)[:] = [[0, 1, 2], [1, 2, 0]]
        create(folder / "x.npy", (3, 2), np.float32)[:] = 1.5
        create(folder / "y.npy", (3,), np.int16)[:] = [0, 1, -1]
        return Splits.of([0], [1], [])


def _load(tmp_path: Path, write: _Writer, **settings):
    raw = tmp_path / "raw.npz"
    if not raw.exists():
        raw.write_bytes(b"raw")
    return cached_large_graph(Roots(tmp_path, (), tmp_path / "cache"), "Family", "name", [raw], write, **settings)


def test_written_once_per_content_and_setting(tmp_path: Path) -> None:
    write = _Writer()
    store, split = _load(tmp_path, write)
    again, _ = _load(tmp_path, write)
    assert write.calls == 1
    assert store.fingerprint == again.fingerprint
    assert [part.tolist() for part in split.parts().values()] == [[0], [1], []]
    assert store.y.tolist() == [0, 1, -1]
    _load(tmp_path, write, undirected=True)
    assert write.calls == 2
    (tmp_path / "raw.npz").write_bytes(b"other")
    _load(tmp_path, write)
    assert write.calls == 3


@pytest.mark.parametrize("damage", ["content", "missing", "description"])
def test_damage_is_repaired(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    write = _Writer()
    expected, _ = _load(tmp_path, write)
    expected = expected.x.clone()
    (folder,) = (path for path in (tmp_path / "cache/Family").iterdir() if path.is_dir())
    if damage == "content":
        content = bytearray((folder / "x.npy").read_bytes())
        content[-1] ^= 1
        (folder / "x.npy").write_bytes(content)
    else:
        (folder / {"missing": "y.npy", "description": "graph.json"}[damage]).unlink()
    with caplog.at_level(logging.WARNING):
        store, _ = _load(tmp_path, write)
    assert write.calls == 2
    assert "is damaged" in caplog.text
    assert torch.equal(store.x, expected)


def test_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    def fail(folder: Path) -> Splits:
        (folder / "x.npy").write_bytes(b"half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        _load(tmp_path, fail)
    assert [path for path in (tmp_path / "cache/Family").iterdir() if path.is_dir()] == []


def test_what_a_killed_conversion_left_is_removed(tmp_path: Path) -> None:
    def killed(folder: Path) -> Splits:
        (folder / "listed.npy").write_bytes(b"half")
        shutil.copytree(folder, tmp_path / folder.name)  # nothing is tidied up after a kill
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _load(tmp_path, killed)
    (left,) = tmp_path.glob(".name-*")
    left.rename(tmp_path / "cache/Family" / left.name)
    _load(tmp_path, _Writer())
    (folder,) = (path for path in (tmp_path / "cache/Family").iterdir() if path.is_dir())
    assert (folder / "graph.json").is_file()
    assert not (folder / "listed.npy").exists()
