from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms.heat_kernel_se import HeatKernelSE
from tests.transforms.small_graphs import store_of, undirected


def test_equals_graphgps(golden: Callable[[str], dict[str, Any]]) -> None:
    recorded = golden("graphgps/stats_HKdiagSE")
    store = store_of(recorded["in/edge_index"], recorded["in/ptr"])
    encode = HeatKernelSE(recorded["config"]["times"])
    torch.testing.assert_close(encode.exact(store)["heat"], recorded["out/HKdiagSE_float64"], atol=1e-12, rtol=0)
    heat = encode(store)["heat"]
    assert heat.dtype == torch.float32
    torch.testing.assert_close(heat, recorded["out/HKdiagSE"], atol=1e-6, rtol=1e-5)


def test_equals_the_matrix_exponential_without_what_is_left_in_the_end() -> None:
    store = sbm_cluster((8,), 0, base=BlockModel(3, 2, 5, 0.4, 0.1))
    out = HeatKernelSE([0.5, 1, 3]).exact(store)["heat"]
    for graph, rows in enumerate(torch.arange(store.num_nodes).split(store.sizes.tolist())):
        adjacency = torch.zeros(len(rows), len(rows), dtype=torch.float64)
        adjacency[tuple(store.gather([graph]).edge_index)] = 1
        matrix = torch.diag(adjacency.sum(1)) - adjacency
        # After a long time the heat of a component is spread evenly over it.
        limit = torch.linalg.matrix_exp(-1e3 * matrix).diagonal()
        for column, time in enumerate((0.5, 1, 3)):
            expected = torch.linalg.matrix_exp(-time * matrix).diagonal() - limit
            torch.testing.assert_close(out[rows, column], expected, atol=1e-9, rtol=0)


def test_an_edge_by_hand() -> None:
    # eigenvalue 2, eigenvector (1, -1) / sqrt 2; the third node is isolated
    heat = HeatKernelSE([0, 1.5]).exact(undirected(3, (0, 1)))["heat"]
    expected = [[0.5, math.exp(-3) / 2]] * 2 + [[0, 0]]
    torch.testing.assert_close(heat, torch.tensor(expected, dtype=torch.float64))


def test_directed_graphs_are_made_undirected_and_self_loops_left_out() -> None:
    directed = GraphStore.from_arrays([3], [3], torch.tensor([[0, 1, 1], [1, 2, 1]]))
    expected = HeatKernelSE([1, 2]).exact(undirected(3, (0, 1), (1, 2)))["heat"]
    torch.testing.assert_close(HeatKernelSE([1, 2]).exact(directed)["heat"], expected)


def test_empty_graphs() -> None:
    store = GraphStore.from_arrays([0, 1], [0, 0], torch.empty(2, 0))
    assert HeatKernelSE([1, 4])(store)["heat"].tolist() == [[0, 0]]


@pytest.mark.parametrize("times", [[], [-1], [1, math.inf]], ids=str)
def test_bad_times(times: list[float]) -> None:
    with pytest.raises(ValueError, match="each at least 0, received"):
        HeatKernelSE(times)
