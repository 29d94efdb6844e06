"""One mapped graph in the cache: written once, rebuilt when damaged."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.files.roots import Roots
from graphbench.data.large.arrays import create
from graphbench.data.large.cache import cached_large_graph, once
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


def test_an_array_that_was_damaged_while_a_conversion_was_broken_off_is_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def array(path: Path) -> None:
        create(path, (3, 1), np.float32)[:] = 1.0

    once(tmp_path / "x.npy", array)
    assert once(tmp_path / "x.npy", pytest.fail).tolist() == [[1.0]] * 3
    content = bytearray((tmp_path / "x.npy").read_bytes())
    content[-1] ^= 1
    (tmp_path / "x.npy").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert once(tmp_path / "x.npy", array).tolist() == [[1.0]] * 3
    assert "x.npy is not what an earlier conversion has finished" in caplog.text


def test_a_conversion_that_was_broken_off_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was finished is not written again; what was not is, also where the process could not tidy up."""
    written, breaks = [], [True]

    def write(folder: Path) -> Splits:
        def array(path: Path, rows: int) -> None:
            written.append(path.name.split(".")[1])
            create(path, (rows, 1), np.float32)[:] = len(written)
            if breaks and rows == 4:
                raise KeyboardInterrupt

        for name, rows in (("x", 3), ("more", 4)):
            assert once(folder / f"{name}.npy", lambda path, rows=rows: array(path, rows)).shape == (rows, 1)
        return _Writer()(folder)

    with pytest.raises(KeyboardInterrupt):
        _load(tmp_path, write)
    breaks.clear()
    (unfinished,) = (tmp_path / "cache/Family").glob("*.unfinished")
    assert {path.name for path in unfinished.iterdir()} == {"x.npy", ".x.npy.sha256"}
    (unfinished / ".more.npy.12345678.tmp").write_text("half, of a killed process")
    with caplog.at_level(logging.INFO):
        _load(tmp_path, write)
    assert written == ["x", "more", "more"]
    assert "going on behind x.npy, which an earlier conversion finished" in caplog.text
    (folder,) = (path for path in (tmp_path / "cache/Family").iterdir() if path.is_dir())
    kept = {"edge_index.npy", "x.npy", "y.npy", "more.npy", "train.npy", "val.npy", "test.npy", "graph.json"}
    assert {path.name for path in folder.iterdir() if path.suffix != ".checked"} == kept
    assert np.load(folder / "more.npy").tolist() == [[3.0]] * 4
