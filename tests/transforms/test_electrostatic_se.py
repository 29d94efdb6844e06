from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.encoders.positional.kernel_se import POTENTIAL_COLUMNS
from graphbench.transforms.electrostatic_se import ElectrostaticSE
from tests.transforms.small_graphs import store_of, undirected


def test_equals_graphgps_on_connected_graphs(golden: Callable[[str], dict[str, Any]]) -> None:
    recorded = golden("graphgps/stats_ElstaticSE_connected")
    store = store_of(recorded["in/edge_index"], recorded["in/ptr"])
    expected = recorded["out/ElstaticSE_float64"]
    torch.testing.assert_close(ElectrostaticSE().exact(store)["potential"], expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("name", ["isolated", "one_node"])
def test_finite_where_the_original_is_not(name: str, golden: Callable[[str], dict[str, Any]]) -> None:
    recorded = golden(f"graphgps/stats_ElstaticSE_{name}")
    assert recorded["out/ElstaticSE_float64"].isnan().any()
    out = ElectrostaticSE().exact(store_of(recorded["in/edge_index"], recorded["in/ptr"]))["potential"]
    assert out.isfinite().all()


def test_a_path_and_an_isolated_node_by_hand() -> None:
    # L^+ of the edge is [[1, -1], [-1, 1]] / 4, and 0 for the isolated node 2
    out = ElectrostaticSE().exact(undirected(3, (0, 1)))["potential"]
    potential = np.array([[0, -0.5, 0], [-0.5, 0, 0], [-0.25, -0.25, 0]])  # entry (i, j)
    walk = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    columns = []
    for j in range(3):
        of, to = potential[:, j], potential[j]
        statistics = [of.min(), of.max(), of.mean(), of.std(ddof=1), to.min(), of.max(), to.mean(), to.std(ddof=1)]
        columns.append([*statistics, (walk[:, j] * of).sum(), (walk[j] * to).sum()])
    torch.testing.assert_close(out, torch.tensor(columns, dtype=torch.float64), atol=1e-12, rtol=0)


def test_column_5_repeats_column_1_because_models_have_weights_for_it() -> None:
    out = ElectrostaticSE()(sbm_cluster((8,), 0, base=BlockModel(3, 2, 5, 0.4, 0.1)))["potential"]
    assert out.shape[1] == ElectrostaticSE.columns == POTENTIAL_COLUMNS
    assert out.dtype == torch.float32
    assert torch.equal(out[:, 5], out[:, 1])
    assert out[:, 1].abs().sum() > 0


def test_components_are_inverted_each_for_itself() -> None:
    # the largest entry of a column is over all nodes; a triangle alone and beside another one differ in nothing else
    pairs = ((0, 1), (1, 2), (2, 0))
    alone = ElectrostaticSE().exact(undirected(3, *pairs))["potential"]
    beside = ElectrostaticSE().exact(undirected(6, *pairs, *((a + 3, b + 3) for a, b in pairs)))["potential"]
    torch.testing.assert_close(beside[:3], beside[3:], atol=1e-12, rtol=0)
    torch.testing.assert_close(beside[:3, 8:], alone[:, 8:], atol=1e-12, rtol=0)
    # sum over i of L^+_ij is 0, so the mean of V_ij is -L^+_jj; of a triangle 2/9
    torch.testing.assert_close(beside[:, 2], torch.full((6,), -2 / 9, dtype=torch.float64), atol=1e-12, rtol=0)


def test_directed_graphs_are_made_undirected_and_empty_ones_legal() -> None:
    directed = GraphStore.from_arrays([0, 3, 1], [0, 2, 0], torch.tensor([[0, 1], [1, 2]]))
    out = ElectrostaticSE().exact(directed)["potential"]
    torch.testing.assert_close(out[:3], ElectrostaticSE().exact(undirected(3, (0, 1), (1, 2)))["potential"])
    assert out[3].tolist() == [0] * 10
