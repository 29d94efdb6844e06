from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms import ricci_curvature
from graphbench.transforms.ricci_curvature import RicciCurvature
from tests.transforms.small_graphs import undirected


def _cycle(nodes: int) -> GraphStore:
    return undirected(nodes, *((i, (i + 1) % nodes) for i in range(nodes)))


@pytest.mark.parametrize(("nodes", "alpha", "expected"), [(3, 0, 0.5), (4, 0, 0), (5, 0, 0), (6, 0, 0), (3, 0.5, 0.75)])
def test_cycles_by_hand(nodes: int, alpha: float, expected: float) -> None:
    # with alpha 0 the masses of a triangle share one node of two, those of longer even cycles move one step each;
    # of a pentagon half of the mass moves by 1 and half by 1 or 2
    out = RicciCurvature(alpha)(_cycle(nodes))["curvature"]
    assert out.shape == (2 * nodes, 1)
    assert out.dtype == torch.float32
    if nodes == 5:
        assert (out == out[0]).all()
        return
    torch.testing.assert_close(out, torch.full_like(out, expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("leaves", "others"), [(1, 1), (2, 3), (4, 1)])
def test_a_bridge_between_stars_by_hand(leaves: int, others: int) -> None:
    # on a tree with alpha 0: kappa = -2 max(0, 1 - 1/dx - 1/dy)
    pairs = [(0, 1), *((0, 2 + i) for i in range(leaves)), *((1, 2 + leaves + i) for i in range(others))]
    out = RicciCurvature(0)(undirected(2 + leaves + others, *pairs))["curvature"]
    assert float(out[0]) == pytest.approx(-2 * max(0, 1 - 1 / (leaves + 1) - 1 / (others + 1)), abs=1e-6)


@pytest.mark.parametrize("nodes", [2, 3, 5, 8])
def test_complete_graphs_and_the_limit_of_lin_lu_and_yau(nodes: int) -> None:
    everyone = undirected(nodes, *((i, j) for i in range(nodes) for j in range(i)))
    out = 2 * RicciCurvature(0.5)(everyone)["curvature"]
    torch.testing.assert_close(out, torch.full_like(out, nodes / (nodes - 1)), atol=1e-6, rtol=0)


def _slowly(graph: nx.Graph, x: int, y: int) -> float:
    """alpha = 1/2, every mass cut into equal pieces that are assigned to each other."""
    hops = dict(nx.all_pairs_shortest_path_length(graph))
    degrees = graph.degree[x], graph.degree[y]
    pieces = 2 * int(np.lcm(*degrees))
    ends = [
        [node] * (pieces // 2) + [neighbour for neighbour in graph[node] for _ in range(pieces // (2 * degree))]
        for node, degree in zip((x, y), degrees, strict=True)
    ]
    cost = np.array([[hops[a][b] for b in ends[1]] for a in ends[0]])
    return 1 - float(cost[linear_sum_assignment(cost)].sum()) / pieces


@pytest.mark.parametrize("cells", [1, 100, 1 << 22])
def test_equals_an_assignment_of_pieces_on_random_graphs(cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ricci_curvature, "_CELLS", cells)
    store = sbm_cluster((5,), 0, base=BlockModel(2, 3, 8, 0.5, 0.2))
    out = RicciCurvature()(store)["curvature"]
    for number, rows in enumerate(torch.arange(store.num_edges).split(store.edge_counts.tolist())):
        graph = nx.Graph(store.gather([number]).edge_index.T.tolist())
        for row in rows.tolist():
            x, y = store.edge_index[:, row].tolist()
            assert float(out[row]) == pytest.approx(_slowly(graph, x, y), abs=1e-6)


def test_directions_repeated_edges_and_self_loops() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 2, 2, 2, 0]])
    out = RicciCurvature(0)(GraphStore.from_arrays([4], [5], edges))["curvature"]
    assert out[:, 0].tolist() == pytest.approx([0.5, 0.5, 0.5, 0, 0.5], abs=1e-6)


def test_nothing_to_measure() -> None:
    assert RicciCurvature()(GraphStore.from_arrays([0, 2], [0, 0], torch.empty(2, 0)))["curvature"].shape == (0, 1)


@pytest.mark.parametrize("alpha", [-0.1, 1])
def test_bad_alpha(alpha: float) -> None:
    with pytest.raises(ValueError, match=f"alpha must lie in 0 .. 1, 1 excluded, received {alpha}"):
        RicciCurvature(alpha)


def test_lengths_of_paths_by_hand() -> None:
    # alpha 0; a triangle has curvature 1/2, the edge to the fourth node -2 max(0, 1 - 1/3 - 1) = 0; the fifth is alone
    edges = [(0, 1), (1, 2), (2, 0), (2, 3)]
    measure = RicciCurvature(0, pairs=True)
    assert measure.level == "pair"
    store = undirected(5, *edges)
    cost = 1 - RicciCurvature(0)(store)["curvature"][:, 0]
    length = measure(store)["length"].view(5, 5)
    ends = {tuple(pair): float(value) for pair, value in zip(store.edge_index.T.tolist(), cost, strict=True)}
    for (a, b), value in ends.items():
        assert float(length[a, b]) == pytest.approx(value, abs=1e-6)
    assert float(length[0, 3]) == pytest.approx(ends[0, 2] + ends[2, 3], abs=1e-6)
    assert length[4].tolist() == [torch.inf] * 4 + [0]
    torch.testing.assert_close(length, length.T)


def test_lengths_of_nothing_and_of_repeated_edges() -> None:
    assert RicciCurvature(pairs=True)(GraphStore.from_arrays([], [], torch.empty(2, 0)))["length"].shape == (0,)
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 2, 2, 2, 0]])
    twice = RicciCurvature(0, pairs=True)(GraphStore.from_arrays([3], [5], edges))["length"]
    assert twice.view(3, 3)[1].tolist() == pytest.approx([0.5, 0, 0.5], abs=1e-6)
