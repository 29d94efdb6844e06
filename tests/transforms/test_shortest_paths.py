"""Hop distances and the edges along paths, against networkx and by hand."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import torch

from graphbench.data.store import GraphStore
from graphbench.registry import lookup
from graphbench.structures.pairs import UNREACHABLE
from graphbench.transforms.algorithms import bit_search, path_search
from graphbench.transforms.algorithms.cache import apply
from graphbench.transforms.graphormer_paths import GraphormerPaths
from graphbench.transforms.shortest_paths import ShortestPaths


def path_graph(n: int) -> GraphStore:
    """0 -> 1 -> ... -> n - 1, edge i of type i."""
    chain = torch.arange(n)
    return GraphStore.from_arrays([n], [n - 1], torch.stack([chain[:-1], chain[1:]]), edge_attr=chain[:-1])


def random_graphs(seed: int, sizes: tuple[int, ...] = (1, 7, 0, 12, 25), both: bool = True) -> GraphStore:
    """Random graphs with isolated nodes and several components; edges shuffled, no two alike, types 0 .. 4."""
    random, parts = np.random.default_rng(seed), []
    for n in sizes:
        edges = np.unique(random.integers(0, max(n, 1), (2, n if n > 1 else 0)), axis=1)
        edges = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1) if both else edges
        parts.append(edges[:, random.permutation(edges.shape[1])])
    counts = [part.shape[1] for part in parts]
    types = random.integers(0, 5, sum(counts))
    return GraphStore.from_arrays(list(sizes), counts, np.concatenate(parts, axis=1), edge_attr=types)


def paths_of_networkx(store: GraphStore, graph: int) -> tuple[dict, dict]:
    """Shortest paths of one graph, and the type of every edge."""
    batch = store.gather([graph])
    edges = [tuple(edge) for edge in batch.edge_index.t().tolist()]
    drawn = networkx.DiGraph()
    drawn.add_nodes_from(range(batch.num_nodes))
    drawn.add_edges_from(edges)
    return dict(networkx.all_pairs_shortest_path(drawn)), dict(zip(edges, batch.edge_attr[:, 0].tolist(), strict=True))


@pytest.mark.parametrize("both", [True, False], ids=["undirected", "directed"])
@pytest.mark.parametrize("work", [1, 60, 1 << 21])
@pytest.mark.parametrize("spatial_types", [1, 2, 4, 20])
def test_equals_networkx(spatial_types: int, work: int, both: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_search, "_WORK", work)
    store = random_graphs(spatial_types, both=both)
    found = GraphormerPaths(spatial_types, 50, 50)(store)
    assert torch.equal(found["distance"], ShortestPaths()(store)["distance"])
    distance, types, row = found["distance"].tolist(), found["edge_types"], 0
    for graph, size in enumerate(store.sizes.tolist()):
        paths, kind = paths_of_networkx(store, graph)
        for i in range(size):
            for j in range(size):
                path = paths[i].get(j)
                assert distance[row] == (UNREACHABLE if path is None else len(path) - 1)
                along = [kind[edge] for edge in zip((path or [])[:-1], (path or [])[1:])][: spatial_types - 1]
                assert types[row].tolist() == along + [0] * (types.shape[1] - len(along))
                row += 1
    assert row == len(distance)


@pytest.mark.parametrize("words", [1, 100, 1 << 13])
@pytest.mark.parametrize("cutoff", [1, 3, 253])
def test_equals_the_searches_that_keep_paths(cutoff: int, words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bit_search, "_WORDS", words)
    store = random_graphs(1, sizes=(130, 64, 0, 65, 1, 128, 63), both=False)
    expected = path_search.unreached(store)
    for step in path_search.breadth_first(store):
        if step.hops <= cutoff:
            expected[step.pair] = step.hops
    assert np.array_equal(ShortestPaths(cutoff)(store)["distance"].numpy(), expected)


def test_a_directed_path_by_hand() -> None:
    distance = ShortestPaths()(path_graph(3))["distance"].view(3, 3)
    assert distance.tolist() == [[0, 1, 2], [255, 0, 1], [255, 255, 0]]
    types = GraphormerPaths(3, 2, 2)(path_graph(4))["edge_types"].view(4, 4, 2)
    assert types[0].tolist() == [[0, 0], [0, 0], [0, 1], [0, 1]]  # the third edge, type 2, is beyond D - 1 = 2
    assert types[1].tolist() == [[0, 0], [0, 0], [1, 0], [1, 2]]


def test_pairs_beyond_the_cutoff_count_as_unreachable() -> None:
    distance = ShortestPaths(cutoff=2)(path_graph(5))["distance"].view(5, 5)
    assert distance[0].tolist() == [0, 1, 2, 255, 255]


def test_distances_beyond_the_range_of_a_byte() -> None:
    assert ShortestPaths()(path_graph(300))["distance"][[253, 254, 299]].tolist() == [253, 255, 255]
    assert GraphormerPaths(20, 3, 3)(path_graph(300))["distance"][[252, 253, 254, 299]].tolist() == [252, 253, 253, 253]


def test_columns_end_with_the_longest_path() -> None:
    assert GraphormerPaths(20, 3, 3)(path_graph(4))["edge_types"].shape == (16, 3)
    assert GraphormerPaths(3, 3, 3)(path_graph(4))["edge_types"].shape == (16, 2)


@pytest.mark.parametrize("edge_attr", [None, torch.full((3, 1), 0.5), torch.ones(3, 2, dtype=torch.int64)], ids=str)
def test_edges_without_one_integer_each_have_no_types(edge_attr: torch.Tensor | None) -> None:
    store = path_graph(4).replace(edge_attr=edge_attr)
    assert set(GraphormerPaths(3, 3, 3)(store)) == {"distance"}


def test_many_edge_types_fit() -> None:
    store = path_graph(3).replace(edge_attr=torch.tensor([[300], [7]]))
    assert GraphormerPaths(3, 3, 3)(store)["edge_types"][2].tolist() == [300, 7]


def test_no_graphs_and_empty_graphs() -> None:
    for sizes in ([], [0], [0, 1, 0]):
        store = GraphStore.from_arrays(sizes, [0] * len(sizes), torch.zeros(2, 0, dtype=torch.int64))
        assert ShortestPaths()(store)["distance"].tolist() == [0] * sum(sizes)
        assert GraphormerPaths(3, 3, 3)(store)["distance"].tolist() == [0] * sum(sizes)


def test_degrees_outside_their_table_are_found_before_training() -> None:
    star = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 2]])
    store = GraphStore.from_arrays([4], [4], star)
    assert GraphormerPaths(3, 3, 4)(store)
    with pytest.raises(
        ValueError, match="num_out_degrees must be larger than every degree, the largest is 3, received 3"
    ):
        GraphormerPaths(3, 3, 3)(store)
    with pytest.raises(ValueError, match=r"num_in_degrees must be larger .* the largest is 2, received 2"):
        GraphormerPaths(3, 2, 4, node_degrees_only=True)(store)
    repeated = GraphStore.from_arrays([2], [3], torch.tensor([[0, 0, 0], [1, 1, 1]]))
    assert GraphormerPaths(3, 2, 2)(repeated)  # one neighbour, whatever the number of edges


def test_edge_types_outside_their_table_are_found_before_training() -> None:
    assert "edge_types" in GraphormerPaths(3, 3, 3, edge_types=3)(path_graph(4))
    with pytest.raises(ValueError, match=r"types up to 2, but the table of GraphormerBias has 2 \("):
        GraphormerPaths(3, 3, 3, edge_types=2)(path_graph(4))
    assert set(GraphormerPaths(3, 3, 3, edge_types=0)(path_graph(4))) == {"distance"}


def test_wrong_values_are_named() -> None:
    with pytest.raises(ValueError, match=r"cutoff must lie in 1 \.\. 253, received 254"):
        ShortestPaths(254)
    with pytest.raises(ValueError, match=r"num_spatial_types must lie in 1 \.\. 253, received None"):
        GraphormerPaths()
    with pytest.raises(ValueError, match="edge types must not be negative, received -1"):
        GraphormerPaths(3, 3, 3)(path_graph(2).replace(edge_attr=torch.tensor([[-1]])))


def test_a_batch_carries_distances_and_edge_types_through_the_cache(tmp_path) -> None:
    store = random_graphs(3)
    made = apply(store, {"GraphormerBias": GraphormerPaths(4, 50, 50)}, tmp_path)
    batch = made.gather([3, 1])
    assert torch.equal(batch.pairs.block(1), ShortestPaths()(store)["distance"][1:50].view(7, 7))
    whole = GraphormerPaths(4, 50, 50)(store)["edge_types"]
    assert torch.equal(batch.pair_pe["GraphormerBias.edge_types"], torch.cat([whole[50:194], whole[1:50]]))
    degrees_only = apply(store, {"GraphormerBias": GraphormerPaths(None, 50, 50, True)}, tmp_path).gather([3])
    assert degrees_only.pairs is None
    assert not degrees_only.pair_pe


@pytest.mark.parametrize("name", ["ShortestPaths", "GraphormerPaths"])
def test_both_belong_to_pairs(name: str) -> None:
    assert lookup("transforms", name).level == "pair"
