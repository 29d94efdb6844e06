from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms.algorithms import large_graphs
from graphbench.transforms.random_walk_edge_se import RandomWalkEdgeSE
from graphbench.transforms.random_walk_se import RandomWalkSE
from tests.transforms.small_graphs import undirected


@pytest.mark.parametrize("name", ["stats_RWSE_1to20", "stats_RWSE_sparse_times"])
def test_equals_graphgps(name: str, golden: Callable[[str], dict[str, Any]]) -> None:
    recorded = golden(f"graphgps/{name}")
    edge_index, ptr = recorded["in/edge_index"], recorded["in/ptr"]
    graph = torch.repeat_interleave(torch.arange(len(ptr) - 1), ptr.diff())[edge_index[0]]
    counts = torch.bincount(graph, minlength=len(ptr) - 1)
    store = GraphStore.from_arrays(ptr.diff(), counts, edge_index - ptr[:-1][graph])
    encode = RandomWalkSE(recorded["config"]["times"])
    torch.testing.assert_close(encode.exact(store)["landing"], recorded["out/RWSE_float64"], atol=1e-12, rtol=0)
    landing = encode(store)["landing"]
    assert landing.dtype == torch.float32
    torch.testing.assert_close(landing, recorded["out/RWSE"], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("times", [[1], [2], [3], [1, 2, 3, 4, 5], list(range(1, 17)), [7, 2, 2, 11], [20]], ids=str)
def test_equals_plain_matrix_powers(times: list[int]) -> None:
    store = sbm_cluster((8,), 0, base=BlockModel(3, 2, 5, 0.5, 0.2))
    out = RandomWalkSE(times).exact(store)["landing"]
    for graph, rows in enumerate(torch.arange(store.num_nodes).split(store.sizes.tolist())):
        walk = torch.zeros(len(rows), len(rows), dtype=torch.float64)
        walk[tuple(store.gather([graph]).edge_index)] = 1
        walk = walk / walk.sum(1, keepdim=True).clamp_min(1)
        expected = torch.stack([torch.linalg.matrix_power(walk, step).diagonal() for step in times], 1)
        torch.testing.assert_close(out[rows], expected, atol=1e-12, rtol=0)


def test_directed_edges_self_loops_and_isolated_nodes_by_hand() -> None:
    # 0 -> 1 -> 2 -> 0 is a cycle of three; node 3 has a self loop and an edge to 0; node 4 is isolated
    edges = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 3, 0]])
    out = RandomWalkSE([1, 2, 3]).exact(GraphStore.from_arrays([5], [5], edges))["landing"]
    expected = [[0, 0, 1], [0, 0, 1], [0, 0, 1], [0.5, 0.25, 0.125], [0, 0, 0]]
    torch.testing.assert_close(out, torch.tensor(expected, dtype=torch.float64))


def test_empty_graphs() -> None:
    store = GraphStore.from_arrays([0, 1], [0, 0], torch.empty(2, 0))
    assert RandomWalkSE([1, 4])(store)["landing"].tolist() == [[0, 0]]


@pytest.mark.parametrize("times", [[1], [2], [1, 2, 3, 4, 5], [20]], ids=str)
@pytest.mark.parametrize("cells", [1, 40, 1 << 22])
def test_large_graphs_give_the_same(times: list[int], cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_graphs, "_CELLS", cells)
    store = sbm_cluster((6,), 0, base=BlockModel(3, 2, 5, 0.5, 0.2))
    half = store.edge_index[:, store.edge_index.sum(0) % 3 > 0]  # directed, and a self loop and a repeated edge
    extra = torch.tensor([[1, 0, 0], [1, 1, 1]])
    directed = GraphStore.from_arrays([store.max_nodes()], [half.shape[1] + 3], torch.cat([half, extra], 1))
    for encode in (RandomWalkSE(times), RandomWalkEdgeSE(times)):
        for graphs in (store, directed):
            expected = encode.exact(graphs)["landing"]
            with monkeypatch.context() as patched:
                patched.setattr(type(encode), "large_from", 8)
                torch.testing.assert_close(encode.exact(graphs)["landing"], expected, atol=1e-12, rtol=0)


def test_what_cannot_happen_has_probability_zero() -> None:
    # no odd closed walk on a bipartite graph: the sum over its spectrum leaves rounding errors
    landing = RandomWalkSE(list(range(1, 21)))(undirected(6, (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)))["landing"]
    assert not landing[:, ::2].any()
    assert (landing[:, 1::2] > 0).all()


@pytest.mark.parametrize("times", [[], [0], [1, -2], [1.5]], ids=str)
def test_bad_times(times: list[int]) -> None:
    with pytest.raises(ValueError, match="each at least 1, received"):
        RandomWalkSE(times)
