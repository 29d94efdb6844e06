"""Diagonals of wavelets against the matrix exponential."""

from __future__ import annotations

import math

import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms.wavelets import Wavelets
from tests.transforms.small_graphs import undirected


def test_equals_the_matrix_exponential() -> None:
    store = sbm_cluster((8,), 0, base=BlockModel(3, 2, 5, 0.4, 0.1))
    scales = [0, 0.5, 1, 8]
    out = Wavelets(scales).exact(store)["wavelets"]
    for graph, rows in enumerate(torch.arange(store.num_nodes).split(store.sizes.tolist())):
        adjacency = torch.zeros(len(rows), len(rows), dtype=torch.float64)
        adjacency[tuple(store.gather([graph]).edge_index)] = 1
        root = torch.where(adjacency.sum(1) > 0, adjacency.sum(1) ** -0.5, 0)
        matrix = torch.eye(len(rows), dtype=torch.float64) - root[:, None] * adjacency * root
        for column, scale in enumerate(scales):
            expected = torch.linalg.matrix_exp(-scale * matrix).diagonal()
            torch.testing.assert_close(out[rows, column], expected, atol=1e-12, rtol=0)


def test_an_edge_and_a_single_node_by_hand() -> None:
    out = Wavelets([1.0])(undirected(3, (0, 1)))["wavelets"]
    assert out.dtype == torch.float32
    pair = (1 + math.exp(-2)) / 2  # eigenvalues 0 and 2
    torch.testing.assert_close(out[:, 0], torch.tensor([pair, pair, math.exp(-1)]))
    one_way = GraphStore.from_arrays([3], [1], torch.tensor([[0], [1]]))
    torch.testing.assert_close(Wavelets([1.0])(one_way)["wavelets"], out)


@pytest.mark.parametrize("scales", [[], [-1.0], [math.inf]])
def test_bad_scales(scales: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one scale, each at least 0"):
        Wavelets(scales)
