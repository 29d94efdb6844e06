from __future__ import annotations

import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms.adjacency_powers import ProximityPowers, RandomWalkPowers
from graphbench.transforms.algorithms import dense_blocks


@pytest.mark.parametrize("add_identity", [True, False])
@pytest.mark.parametrize("cells", [1, 1 << 24])
def test_random_walks_are_plain_matrix_powers(cells: int, add_identity: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_blocks, "_CELLS", cells)
    store = sbm_cluster((5,), 0, base=BlockModel(3, 2, 5, 0.5, 0.2))
    out = RandomWalkPowers(4, add_identity).exact(store)["powers"]
    for graph, block in enumerate(out.split(store.sizes.square().tolist())):
        size = int(store.sizes[graph])
        adjacency = torch.zeros(size, size, dtype=torch.float64)
        adjacency[tuple(store.gather([graph]).edge_index)] = 1
        walk = adjacency / adjacency.sum(1, keepdim=True).clamp_min(1)
        expected = [torch.linalg.matrix_power(walk, k + (not add_identity)) for k in range(4)]
        torch.testing.assert_close(block.view(size, size, 4), torch.stack(expected, 2))


def test_repeated_directed_and_self_edges_by_hand() -> None:
    # 0 goes to 1 by two of three edges, else it stays; 1 is a dead end. Then an empty graph.
    store = GraphStore.from_arrays([2, 0], [3, 0], torch.tensor([[0, 0, 0], [1, 1, 0]]))
    walks = RandomWalkPowers(3).exact(store)["powers"].view(2, 2, 3)
    expected = torch.tensor([[[1, 1 / 3, 1 / 9], [0, 2 / 3, 2 / 9]], [[0, 0, 0], [1, 0, 0]]], dtype=torch.float64)
    torch.testing.assert_close(walks, expected)
    # Joined once, both with a self loop: every entry of every power is a half.
    torch.testing.assert_close(ProximityPowers(2).exact(store)["powers"], torch.full((4, 2), 0.5).double())


def test_proximities_are_powers_of_the_normalised_adjacency() -> None:
    store = GraphStore.from_arrays([4], [4], torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    looped = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=torch.float64)
    root = torch.diag(looped.sum(1) ** -0.5)
    normed = root @ looped @ root
    expected = torch.stack([normed, normed @ normed, normed @ normed @ normed], 2)
    torch.testing.assert_close(ProximityPowers(3).exact(store)["powers"].view(4, 4, 3), expected)


@pytest.mark.parametrize("transform", [RandomWalkPowers, ProximityPowers])
def test_no_power_is_refused(transform: type) -> None:
    with pytest.raises(ValueError, match="must be at least 1, received 0"):
        transform(0)
