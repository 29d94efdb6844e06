from __future__ import annotations

import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.structures.pairs import UNREACHABLE
from graphbench.transforms import hop_neighbors
from graphbench.transforms.algorithms.cache import apply
from graphbench.transforms.hop_neighbors import HopNeighbors
from graphbench.transforms.shortest_paths import ShortestPaths
from tests.transforms.small_graphs import undirected


def test_a_path_by_hand() -> None:
    out = HopNeighbors(1)(undirected(3, (0, 1), (1, 2)))
    assert out["row_ptr"].tolist() == [0, 2, 5, 7]
    assert out["col"].tolist() == [0, 1, 0, 1, 2, 1, 2]
    assert out["hop"].tolist() == [0, 1, 1, 0, 1, 1, 0]
    assert (out["row_ptr"].dtype, out["col"].dtype, out["hop"].dtype) == (torch.int64, torch.int32, torch.uint8)


@pytest.mark.parametrize("work", [1, 50, 1 << 22])
@pytest.mark.parametrize("cutoff", [1, 2, 3, 253])
def test_equals_the_distances_of_all_pairs(cutoff: int, work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hop_neighbors, "_WORK", work)
    store = sbm_cluster((20,), 0, base=BlockModel(3, 2, 40, 0.1, 0.01))
    half = store.edge_index[:, ::2]  # directed, and with a self loop and a repeated edge per graph
    counts = torch.tensor([len(edges) for edges in torch.arange(store.num_edges).split(store.edge_counts.tolist())])
    kept = torch.tensor(
        [len(range(-first % 2, count, 2)) for first, count in zip(store.edge_ptr.tolist(), counts.tolist())]
    )
    directed = GraphStore.from_arrays(store.sizes, kept, half)
    for graphs in (store, directed):
        distance = ShortestPaths(cutoff)(graphs)["distance"]
        near = (distance != UNREACHABLE).nonzero().view(-1)
        out = HopNeighbors(cutoff)(graphs)
        assert torch.equal(out["hop"], distance[near])
        size = torch.repeat_interleave(graphs.sizes, graphs.sizes)
        row = torch.repeat_interleave(torch.arange(graphs.num_nodes), out["row_ptr"].diff())
        first = torch.cat([torch.zeros(1, dtype=torch.int64), size.cumsum(0)])
        assert torch.equal(first[row] + out["col"], near)


def test_edges_walked_both_ways() -> None:
    edges = torch.tensor([[0, 1, 3, 0, 1], [1, 2, 2, 1, 0]], dtype=torch.int32)  # the last two are of a second graph
    one_way = GraphStore.from_arrays(torch.tensor([4, 2]), torch.tensor([3, 2]), edges)
    turned = torch.cat([edges[:, :3], edges[:, :3].flip(0), edges[:, 3:]], dim=1)
    both_ways = GraphStore.from_arrays(torch.tensor([4, 2]), torch.tensor([6, 2]), turned)
    expected = HopNeighbors(2)(both_ways)
    for name, value in HopNeighbors(2, undirected=True)(one_way).items():
        assert torch.equal(value, expected[name])
    assert len(HopNeighbors(2)(one_way)["col"]) < len(expected["col"])


def test_repeated_edges_and_self_loops_change_nothing() -> None:
    plain, other = undirected(3, (0, 1), (1, 2)), undirected(3, (0, 1), (1, 2), (0, 1), (2, 2))
    for name, value in HopNeighbors(2)(plain).items():
        assert torch.equal(HopNeighbors(2)(other)[name], value)


def test_a_node_with_more_neighbours_than_a_byte_or_a_short_counts() -> None:
    # 70,000 ways of two steps lead from node 0 to node 1: a sum in 16 bits would lose them
    middle = range(2, 70_002)
    store = undirected(70_002, *((0, node) for node in middle), *((node, 1) for node in middle))
    pairs = HopNeighbors(1)(store)
    assert pairs["row_ptr"].diff().tolist()[:3] == [70_001, 70_001, 3]
    ends = hop_neighbors._ones(hop_neighbors.np.array([0]), store.num_nodes)
    adjacency = hop_neighbors._adjacency(store, undirected=False)
    assert 1 in (ends @ adjacency @ adjacency).indices


def test_batches(tmp_path: object) -> None:
    store = sbm_cluster((5,), 0, base=BlockModel(2, 3, 5, 0.4, 0.1))
    hops = apply(store, {"near": HopNeighbors(2)}, str(tmp_path)).gather([3, 1]).hops
    expected = HopNeighbors(2)(store.replace())
    assert hops is not None
    place = 0
    for graph, shift in ((3, 0), (1, int(store.sizes[3]))):
        nodes = range(int(store.node_ptr[graph]), int(store.node_ptr[graph + 1]))
        for node in nodes:
            rows = slice(int(expected["row_ptr"][node]), int(expected["row_ptr"][node + 1]))
            found = slice(int(hops.row_ptr[place]), int(hops.row_ptr[place + 1]))
            assert hops.col[found].tolist() == (expected["col"][rows] + shift).tolist()
            assert hops.hop[found].tolist() == expected["hop"][rows].tolist()
            place += 1
    assert place == hops.num_nodes


@pytest.mark.parametrize("cutoff", [0, 254])
def test_bad_cutoff(cutoff: int) -> None:
    with pytest.raises(ValueError, match=f"cutoff must lie in 1 .. 253, received {cutoff}"):
        HopNeighbors(cutoff)
