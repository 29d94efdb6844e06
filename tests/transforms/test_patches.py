"""Patches against their definition, graph by graph."""

from __future__ import annotations

import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms.patches import PatchEdges, Patches


def store() -> GraphStore:
    return sbm_cluster((5,), 0, base=BlockModel(3, 2, 7, 0.6, 0.1))


@pytest.mark.parametrize(("patches", "hops"), [(4, 0), (4, 1), (50, 2)])
@pytest.mark.parametrize("method", ["bisection", "metis"])
def test_patches_cover_the_graph_and_grow_by_hops(patches: int, hops: int, method: str) -> None:
    if method == "metis":
        pytest.importorskip("pymetis")
    graphs = store()
    core, grown = (Patches(patches, by, method)(graphs) for by in (0, hops))
    inner = PatchEdges(patches, hops, method)(graphs)
    for graph in range(graphs.num_graphs):
        size = int(graphs.sizes[graph])
        sets = [_sets(each, graph, patches) for each in (core, grown)]
        assert sorted(node for nodes in sets[0] for node in nodes) == list(range(size))  # a partition
        assert [bool(nodes) for nodes in sets[0]] == sorted(bool(nodes) for nodes in sets[0])  # empty ones come first
        if size < patches:
            assert max(map(len, sets[0])) == 1
        edges = graphs.gather([graph]).edge_index.t().tolist()
        for before, after in zip(*sets, strict=True):
            ball = set(before)
            for _ in range(hops):
                ball |= {b for a, b in edges if a in ball} | {a for a, b in edges if b in ball}
            assert set(after) == ball
        rows = slice(*grown["ptr"][graph : graph + 2].tolist())
        members = list(zip(grown["attr"][rows].tolist(), grown["index"][0, rows].tolist(), strict=True))
        rows = slice(*inner["ptr"][graph : graph + 2].tolist())
        received = []
        for (edge, a, b), ends in zip(inner["attr"][rows].tolist(), inner["index"][:, rows].t().tolist(), strict=True):
            assert ends == edges[edge] == [members[a][1], members[b][1]]
            assert members[a][0] == members[b][0]
            received.append((members[a][0], edge))
        wanted = [(p, e) for p, nodes in enumerate(sets[1]) for e, ends in enumerate(edges) if set(ends) <= set(nodes)]
        assert sorted(received) == sorted(wanted)


def _sets(out: dict[str, torch.Tensor], graph: int, patches: int) -> list[list[int]]:
    rows = slice(*out["ptr"][graph : graph + 2].tolist())
    nodes: list[list[int]] = [[] for _ in range(patches)]
    for patch, node in zip(out["attr"][rows].tolist(), out["index"][1, rows].tolist(), strict=True):
        nodes[patch].append(node)
    return nodes


def test_halves_are_balanced_and_connected_along_a_path() -> None:
    path = torch.tensor([[*range(15)], [*range(1, 16)]])
    out = Patches(4, 0)(GraphStore.from_arrays([16], [15], path))
    quarters = {tuple(range(first, first + 4)) for first in (0, 4, 8, 12)}
    assert {tuple(sorted(nodes)) for nodes in _sets(out, 0, 4)} == quarters


@pytest.mark.parametrize(
    ("arguments", "message"), [((0,), "patches must be at least 1, received 0"), ((4, 1, "kl"), "received 'kl'")]
)
def test_wrong_arguments(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Patches(*arguments)
