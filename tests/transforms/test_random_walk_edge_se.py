from __future__ import annotations

import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms.algorithms import dense_blocks
from graphbench.transforms.random_walk_edge_se import RandomWalkEdgeSE


@pytest.mark.parametrize("cells", [1, 300, 1 << 24])
@pytest.mark.parametrize("times", [[1], [1, 2, 3], [7, 2, 2]], ids=str)
def test_equals_plain_matrix_powers(times: list[int], cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_blocks, "_CELLS", cells)
    store = sbm_cluster((8,), 0, base=BlockModel(3, 2, 5, 0.5, 0.2))
    out = RandomWalkEdgeSE(times).exact(store)["landing"]
    for graph, rows in enumerate(torch.arange(store.num_edges).split(store.edge_counts.tolist())):
        edges = store.gather([graph]).edge_index
        walk = torch.zeros([int(store.sizes[graph])] * 2, dtype=torch.float64)
        walk[tuple(edges)] = 1
        walk = walk / walk.sum(1, keepdim=True).clamp_min(1)
        expected = [torch.linalg.matrix_power(walk, step)[tuple(edges)] for step in (0, *times)]
        torch.testing.assert_close(out[rows], torch.stack(expected, 1), atol=1e-12, rtol=0)


def test_directed_repeated_and_self_edges_by_hand() -> None:
    # 0 goes to 1 by two of three edges, else it stays; 1 is a dead end. Then an empty graph, one edge and one node.
    edges = torch.tensor([[0, 0, 0, 1], [1, 1, 0, 0]])
    out = RandomWalkEdgeSE([1, 2]).exact(GraphStore.from_arrays([2, 0, 2, 1], [3, 0, 1, 0], edges))["landing"]
    expected = [[0, 2 / 3, 2 / 9], [0, 2 / 3, 2 / 9], [1, 1 / 3, 1 / 9], [0, 1, 0]]
    torch.testing.assert_close(out, torch.tensor(expected, dtype=torch.float64))


def test_no_edges() -> None:
    store = GraphStore.from_arrays([0, 1], [0, 0], torch.empty(2, 0))
    assert RandomWalkEdgeSE([1, 4])(store)["landing"].shape == (0, 3)


@pytest.mark.parametrize("times", [[], [0]], ids=str)
def test_bad_times(times: list[int]) -> None:
    with pytest.raises(ValueError, match="each at least 1, received"):
        RandomWalkEdgeSE(times)
