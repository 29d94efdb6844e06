"""Levels of clusters: what a level consists of, which nodes see each other on it, and what is refused."""

from __future__ import annotations

import importlib.util
from typing import Any

import networkx as nx
import pytest
import torch

from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.transforms.algorithms.substructures import parts
from graphbench.transforms.hierarchy import Hierarchy, HierarchyPairs

METHODS = ["rcm"] + ["metis"] * (importlib.util.find_spec("pymetis") is not None)
SIZES = (30, 0, 1, 12)


def example() -> GraphStore:
    """Some graphs of edges in one direction, with a loop and a repeated edge."""
    generator = torch.Generator().manual_seed(0)
    counts = [60, 0, 0, 14]
    edges = [torch.randint(0, max(n, 1), (2, m), generator=generator) for n, m in zip(SIZES, counts)]
    edges[0][:, 1] = edges[0][:, 0]
    edges[0][1, 2] = edges[0][0, 2]
    return GraphStore.from_arrays(SIZES, counts, torch.cat(edges, 1))


def rows_of(out: dict[str, Any], graph: int) -> list[tuple[list[int], Any]]:
    own = slice(*out["ptr"][graph : graph + 2].tolist())
    return list(zip(out["index"][:, own].t().tolist(), out["attr"][own].tolist(), strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_levels_are_clusters_of_the_level_below_and_pairs_are_distances_on_it(method: Any) -> None:
    store, ratios = example(), [0.4, 0.5]
    nodes = Hierarchy(ratios, method)(store)
    pairs = HierarchyPairs(ratios, method, hops=2)(store)
    for graph, size in enumerate(SIZES):
        first = int(store.edge_ptr[graph])
        ends = store.edge_index[:, first : int(store.edge_ptr[graph + 1])].t().tolist()
        level = nx.Graph()
        level.add_nodes_from(range(size))
        level.add_edges_from((a, b) for a, b in ends if a != b)
        for number in range(3):
            cluster = {a: b for (a, b), of in rows_of(nodes, graph) if of == number}
            assert set(cluster) == set(level)
            expected = {(a, b): d for a, at in nx.all_pairs_shortest_path_length(level, 2) for b, d in at.items() if d}
            found = [(tuple(ends), d) for ends, (of, d) in rows_of(pairs, graph) if of == number]
            assert dict(found) == expected
            assert len(found) == len(expected)
            if number == 2:
                assert all(a == b for a, b in cluster.items())
                continue
            # A cluster has the name of its first member, and there are about as many as asked for.
            assert all(cluster[name] == name for name in set(cluster.values()))
            assert len(set(cluster.values())) <= max(1, round(ratios[number] * size)) * (size > 0)
            assert len(set(cluster.values())) >= 0.8 * round(ratios[number] * len(cluster))
            above = nx.Graph()
            above.add_nodes_from(cluster.values())
            above.add_edges_from((cluster[a], cluster[b]) for a, b in level.edges if cluster[a] != cluster[b])
            level = above


def test_one_hop_is_the_edges_of_the_levels() -> None:
    store = example()
    one, two = (HierarchyPairs([0.5], "rcm", hops)(store) for hops in (1, 2))
    for graph in range(len(SIZES)):
        assert sorted(rows_of(one, graph)) == sorted(row for row in rows_of(two, graph) if row[1][1] == 1)


def test_a_level_of_all_nodes_and_one_of_a_single_cluster() -> None:
    out = Hierarchy([1.0, 0.01], "rcm")(example())
    assert [row for row in rows_of(out, 3) if row[1] == 0] == [([i, i], 0) for i in range(12)]
    assert [row for row in rows_of(out, 3) if row[1] == 1] == [([i, 0], 1) for i in range(12)]


def test_levels_are_found_once_for_both() -> None:
    part = next(parts(example()))
    assert Hierarchy([0.5], "rcm").levels(part) is HierarchyPairs([0.5], "rcm", 3).levels(part)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coarsening": []}, r"coarsening must be one or more ratios in \(0, 1\], received \[\]"),
        ({"coarsening": [0.5, 0]}, r"received \[0.5, 0\]"),
        ({"coarsening": [0.5], "method": "louvain"}, "metis, rcm; received 'louvain'"),
        ({"coarsening": [0.5], "hops": 0}, "hops must be at least 1, received 0"),
    ],
)
def test_wrong_values_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HierarchyPairs(**arguments)


def test_metis_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"levels by metis need pymetis: pip install 'graphbench-gt\[clusters\]'"):
        Hierarchy([0.5])(example())
