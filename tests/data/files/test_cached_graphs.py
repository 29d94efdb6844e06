from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest
import torch

from graphbench.data.files import checksums
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.roots import Roots
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore


def _store() -> GraphStore:
    return GraphStore.from_arrays([2, 1], [1, 0], torch.tensor([[0], [1]]), y=torch.tensor([0.5, 1]))


def test_read_once_until_files_version_or_settings_change(tmp_path: Path) -> None:
    reads = []

    def read() -> tuple[GraphStore, Splits]:
        reads.append(1)
        return _store(), Splits.of([1], [0], [])

    raw = tmp_path / "raw"
    raw.write_text("a")
    roots = Roots(tmp_path, (), tmp_path / "cache")
    first = cached_graphs(roots, "F", "name", [raw], read)
    again = cached_graphs(roots, "F", "name", [raw], read)
    assert len(reads) == 1
    for store, splits in (first, again):
        assert store.fingerprint == _store().fingerprint
        assert [part.tolist() for part in splits.parts().values()] == [[1], [0], []]
    cached_graphs(roots, "F", "name", [raw], read, version=2)
    cached_graphs(roots, "F", "name", [raw], read, half=True)
    raw.write_text("b")
    cached_graphs(roots, "F", "name", [raw], read)
    assert len(reads) == 4


def test_the_fingerprint_of_stored_graphs_is_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    roots, expected = Roots(tmp_path, (), tmp_path / "cache"), _store().fingerprint
    for _ in range(2):
        store, _ = cached_graphs(roots, "F", "name", [], lambda: (_store(), Splits.of([1], [0], [])))
        monkeypatch.setattr("graphbench.data.store.digest", lambda tensors: pytest.fail("read in full"))
        assert store.fingerprint == expected


def test_large_raw_files_are_read_once_and_nothing_is_written_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "SMALL", 0)
    raw = tmp_path / "data" / "raw"
    raw.parent.mkdir()
    raw.write_text("a")
    roots = Roots(tmp_path, (), tmp_path / "cache")
    for _ in range(2):
        cached_graphs(roots, "F", "name", [raw], lambda: (_store(), Splits.of([1], [0], [])))
        monkeypatch.setattr("graphbench.data.files.cached_graphs.file_sha256", lambda file: pytest.fail("read in full"))
    assert list(raw.parent.iterdir()) == [raw]


def _prepare(folder: Path, log: Path) -> None:
    def read() -> tuple[GraphStore, Splits]:
        with log.open("a") as file:
            file.write("read\n")
        time.sleep(1.0)
        return _store(), Splits.of([1], [0], [])

    store, _ = cached_graphs(Roots(folder, (), folder / "cache"), "F", "name", [], read)
    with log.open("a") as file:
        file.write(f"{store.num_graphs}\n")


@pytest.mark.slow
def test_two_processes_prepare_a_data_set_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    log = tmp_path / "log"
    processes = [context.Process(target=_prepare, args=(tmp_path, log)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert log.read_text().split() == ["read", "2", "2"]


def test_parts_in_order() -> None:
    assert [part.tolist() for part in Splits.consecutive([2, 0, 3]).parts().values()] == [[0, 1], [], [2, 3, 4]]
