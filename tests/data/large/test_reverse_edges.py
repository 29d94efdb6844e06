"""Both directions of edges in bounded memory, against the same in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.edge_lists import to_undirected
from graphbench.data.large import incoming_edges, reverse_edges
from graphbench.data.large.arrays import allocate
from graphbench.data.large.reverse_edges import write_undirected


@pytest.mark.parametrize("piece", [1, 17, 2**22])
@pytest.mark.parametrize(("nodes", "edges"), [(40, 300), (3, 50), (5, 0), (1, 4)])
def test_as_in_memory(tmp_path: Path, nodes: int, edges: int, piece: int) -> None:
    edge_index = torch.from_numpy(np.random.default_rng(0).integers(0, nodes, (2, edges)))
    path = tmp_path / "edges.npy"
    write_undirected(edge_index.to(torch.int32), nodes, path, piece)
    written = np.load(path)
    assert written.dtype == np.int32
    assert torch.equal(torch.from_numpy(written).long(), to_undirected(edge_index, nodes))


def test_a_node_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"edge 1 is 1 -> 7, but nodes are numbered 0 .. 4"):
        write_undirected(torch.tensor([[0, 1], [1, 7]]), 5, tmp_path / "edges.npy")


def test_room_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def watched(shape, dtype, *rest):
        taken.append(int(np.prod(shape)) * dtype.itemsize)
        return allocate(shape, dtype, *rest)

    for module in (incoming_edges, reverse_edges):
        monkeypatch.setattr(module, "allocate", watched)
    edge_index = torch.from_numpy(np.random.default_rng(0).integers(0, 40, (2, 300)))
    write_undirected(edge_index, 40, tmp_path / "edges.npy")
    assert sum(taken) == 32 * 300
