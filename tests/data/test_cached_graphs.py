from __future__ import annotations

from pathlib import Path

import torch

from graphbench.data.cached_graphs import cached_graphs, in_order
from graphbench.data.roots import Roots
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
        assert [each.tolist() for each in splits.parts().values()] == [[1], [0], []]
    cached_graphs(roots, "F", "name", [raw], read, version=2)
    cached_graphs(roots, "F", "name", [raw], read, half=True)
    raw.write_text("b")
    cached_graphs(roots, "F", "name", [raw], read)
    assert len(reads) == 4


def test_parts_in_order() -> None:
    assert [each.tolist() for each in in_order([2, 0, 3]).parts().values()] == [[0, 1], [], [2, 3, 4]]
