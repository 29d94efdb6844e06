"""Edges inside ego nets against searches from every node."""

from __future__ import annotations

import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms import ego_nets
from graphbench.transforms.ego_nets import EgoNetEdges
from tests.transforms.small_graphs import undirected


def slowly(size: int, edges: list[tuple[int, int]], hops: int) -> list[tuple[int, int, int]]:
    """(root, source, number of the edge), sorted."""
    found = []
    for root in range(size):
        ball = {root}
        for _ in range(hops):
            ball |= {target for source, target in edges if source in ball}
        found += [(root, a, number) for number, (a, b) in enumerate(edges) if a in ball and b in ball]
    return sorted(found)


def received(store: GraphStore, out: dict[str, torch.Tensor], graph: int) -> list[tuple[int, int, int]]:
    rows = slice(*out["ptr"][graph : graph + 2].tolist())
    root, source = out["index"][:, rows].tolist()
    return list(zip(root, source, out["attr"][rows].tolist(), strict=True))


@pytest.mark.parametrize("hops", [1, 3])
@pytest.mark.parametrize("members", [1, 1 << 20])
def test_equals_searches(hops: int, members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ego_nets, "_MEMBERS", members)
    store = sbm_cluster((5,), 0, base=BlockModel(3, 2, 7, 0.4, 0.05))
    out = EgoNetEdges(hops)(store)
    assert out["ptr"][-1] == len(out["attr"]) == out["index"].shape[1] > 0
    for graph in range(store.num_graphs):
        edges = [(a, b) for a, b in store.gather([graph]).edge_index.T.tolist()]
        assert sorted(received(store, out, graph)) == slowly(int(store.sizes[graph]), edges, hops)


def test_directions_repeated_edges_loops_and_graphs_without_edges() -> None:
    edges = [(0, 1), (1, 2), (1, 2), (2, 2), (2, 3), (3, 0)]
    store = GraphStore.from_arrays([1, 4, 0, 2], [0, 6, 0, 0], torch.tensor(edges).T)
    out = EgoNetEdges(1)(store)
    assert out["ptr"].tolist() == [0, 0, len(out["attr"]), len(out["attr"]), len(out["attr"])]
    assert received(store, out, 1) == slowly(4, edges, 1)
    nothing = EgoNetEdges(2)(GraphStore.from_arrays([], [], torch.empty(2, 0, dtype=torch.int64)))
    assert nothing["index"].shape == (2, 0)
    assert nothing["ptr"].tolist() == [0]


def test_a_path_by_hand() -> None:
    out = EgoNetEdges(1)(undirected(3, (0, 1), (1, 2)))  # 0->1, 1->2, 1->0, 2->1 in some order
    assert out["index"].dtype == out["attr"].dtype == torch.int32
    assert torch.bincount(out["index"][0]).tolist() == [2, 4, 2]


def test_wrong_radius() -> None:
    with pytest.raises(ValueError, match=r"must lie in 1 \.\. 253, received 0"):
        EgoNetEdges(0)
