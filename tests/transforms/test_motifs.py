"""Motifs against NetworkX, graph by graph."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import pytest
import torch
from torch import Tensor

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.structures.substructure_kinds import CYCLE, NEIGHBOURHOOD, OTHER
from graphbench.transforms.algorithms import substructures
from graphbench.transforms.motifs import MotifNodes, Motifs
from tests.transforms.small_graphs import undirected


def listed(kinds: dict[str, Tensor], nodes: dict[str, Tensor], graph: int) -> list[tuple[int, tuple[int, ...]]]:
    """Kind and nodes of the motifs of one graph."""
    own = slice(*kinds["ptr"][graph : graph + 2].tolist())
    members: list[list[int]] = [[] for _ in range(own.start, own.stop)]
    rows = slice(*nodes["ptr"][graph : graph + 2].tolist())
    assert torch.equal(nodes["index"][0], nodes["index"][1])
    for node, motif in zip(nodes["index"][0, rows].tolist(), nodes["attr"][rows].tolist(), strict=True):
        members[motif].append(node)
    assert [[min(each)] * 2 for each in members] == kinds["index"][:, own].T.tolist()
    assert all(each == sorted(set(each)) for each in members)
    return list(zip(kinds["attr"][own].tolist(), map(tuple, members), strict=True))


def slowly(graph: nx.Graph, hops: int) -> list[tuple[int, tuple[int, ...]]]:
    """Cycles up to 5, paths of 4 and 5, stars of up to 3 leaves, balls."""
    found = []
    for size in (3, 4, 5):
        for chosen in combinations(sorted(graph), size):
            part = graph.subgraph(chosen)
            degrees = sorted(degree for _, degree in part.degree)
            if not nx.is_connected(part):
                continue
            if set(degrees) == {2}:
                found.append((CYCLE, chosen))
            path, star = degrees == [1, 1] + [2] * (size - 2), degrees == [1] * (size - 1) + [size - 1]
            found += [(OTHER, chosen)] * ((path and size > 3) + (star and size < 5))
    balls = [tuple(sorted(nx.ego_graph(graph, node, radius=hops))) for node in sorted(graph)] if hops else []
    return found + [(NEIGHBOURHOOD, ball) for ball in balls]


@pytest.mark.parametrize("nodes", [1, 1 << 15])
@pytest.mark.parametrize("hops", [0, 2])
def test_equals_networkx(nodes: int, hops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(substructures, "_NODES", nodes)
    store = sbm_cluster((4,), 0, base=BlockModel(3, 3, 5, 0.4, 0.15))
    arguments = {"cycles": 5, "paths": 5, "stars": 3, "hops": hops}
    kinds, members = Motifs(**arguments)(store), MotifNodes(**arguments)(store)
    for number in range(store.num_graphs):
        graph = nx.Graph()
        graph.add_nodes_from(range(int(store.sizes[number])))
        graph.add_edges_from(store.gather([number]).edge_index.T.tolist())
        received = listed(kinds, members, number)
        assert sorted(received) == sorted(slowly(graph, hops))
        near = [nodes for kind, nodes in received if kind == NEIGHBOURHOOD]
        assert all(node in ball for node, ball in enumerate(near))


def test_walks_are_connected_and_depend_on_nothing_but_their_graph() -> None:
    store = sbm_cluster((3,), 0, base=BlockModel(2, 5, 7, 0.6, 0.2))
    walks = {"cycles": 0, "paths": 0, "stars": 0, "hops": 0, "walk": 6}
    together = [Motifs(**walks)(store), MotifNodes(**walks)(store)]
    seen = set()
    for number in range(store.num_graphs):
        batch = store.gather([number])
        alone = GraphStore.from_arrays([batch.num_nodes], [batch.num_edges], batch.edge_index)
        received = listed(together[0], together[1], number)
        assert received == listed(Motifs(**walks)(alone), MotifNodes(**walks)(alone), 0)
        graph = nx.Graph(batch.edge_index.T.tolist())
        assert len(received) == batch.num_nodes
        for node, (kind, nodes) in enumerate(received):
            assert kind == NEIGHBOURHOOD
            assert node in nodes
            assert len(nodes) <= 7
            assert node not in graph or nx.is_connected(graph.subgraph(nodes))
            seen.add(len(nodes))
    assert len(seen) > 2


def test_a_single_node_and_an_edge_by_hand() -> None:
    store = undirected(3, (0, 1))
    assert listed(Motifs()(store), MotifNodes()(store), 0) == [
        (NEIGHBOURHOOD, (0, 1)),
        (NEIGHBOURHOOD, (0, 1)),
        (NEIGHBOURHOOD, (2,)),
    ]
    walks = {"cycles": 0, "paths": 0, "stars": 0, "hops": 0, "walk": 3}
    assert [nodes for _, nodes in listed(Motifs(**walks)(store), MotifNodes(**walks)(store), 0)] == [
        (0, 1),
        (0, 1),
        (2,),
    ]


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"cycles": 2}, "cycles must be 0 or at least 3, received 2"),
        ({"paths": 3}, "paths must be 0 or at least 4, received 3"),
        ({"walk": -1}, "walk must be 0 or at least 1, received -1"),
        ({"cycles": 0, "paths": 0, "stars": 0, "hops": 0}, "there must be motifs"),
    ],
)
def test_wrong_sizes(own: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Motifs(**own)
