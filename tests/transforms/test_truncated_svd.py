from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.transforms import truncated_svd
from graphbench.transforms.algorithms import dense_blocks
from graphbench.transforms.truncated_svd import TruncatedSVD
from tests.transforms.small_graphs import undirected

PATH = ((0, 1), (1, 2))


def vectors(store: GraphStore, rank: int, matrix: str = "adjacency") -> Tensor:
    return TruncatedSVD(rank, matrix).exact(store)["vectors"]


def test_the_adjacency_of_a_path_by_hand() -> None:
    # Singular values sqrt(2), sqrt(2), 0: the first two columns together are U S^(1/2) of one repeated value.
    out = vectors(undirected(3, *PATH), 3)
    # Diagonal of their projector: 1/2, 1, 1/2. The node in the middle is the first pivot, then the first end.
    ends = 2**-0.5
    expected = 2**0.25 * torch.tensor([[0, ends, 0], [1, 0, 0], [0, ends, 0]], dtype=torch.float64)
    torch.testing.assert_close(out, expected, atol=1e-12, rtol=0)


def test_the_distances_of_a_path_by_hand() -> None:
    near = torch.tensor([[1, 1 / 2, 1 / 3], [1 / 2, 1, 1 / 2], [1 / 3, 1 / 2, 1]], dtype=torch.float64)
    out = vectors(undirected(3, *PATH), 3, "distance")
    torch.testing.assert_close(out @ out.T, near, atol=1e-12, rtol=0)  # positive definite, so that U = V
    apart = vectors(undirected(4, (0, 1), (2, 3)), 4, "distance")
    assert not (apart @ apart.T)[:2, 2:].abs().max() > 1e-12


def test_one_way_edges_stay_one_way() -> None:
    store = GraphStore.from_arrays([3], [2], torch.tensor([[0, 1], [1, 2]]))
    near = np.array([[1, 1 / 2, 1 / 3], [0, 1, 1 / 2], [0, 0, 1]])
    left, values, _ = np.linalg.svd(near)
    expected = torch.from_numpy(left * np.sqrt(values))
    expected = expected * expected.gather(0, expected.abs().argmax(0, keepdim=True)).sign()  # largest entries positive
    torch.testing.assert_close(vectors(store, 3, "distance"), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("matrix", truncated_svd.MATRICES)
def test_another_numbering_permutes_the_rows(matrix: str) -> None:
    store = sbm_cluster((1,), 0, base=BlockModel(3, 5, 9, 0.6, 0.2))  # without symmetries: no nodes tie
    order = torch.randperm(store.num_nodes, generator=torch.Generator().manual_seed(0))
    renumbered = GraphStore.from_arrays([store.num_nodes], [store.num_edges], order[store.edge_index.long()])
    torch.testing.assert_close(vectors(renumbered, 6, matrix)[order], vectors(store, 6, matrix), atol=1e-9, rtol=0)


BIPARTITE = undirected(9, (0, 4), (0, 5), (1, 4), (1, 6), (2, 6), (2, 7), (2, 8), (3, 7), (1, 8))
CYCLE = undirected(12, *((i, (i + 1) % 12) for i in range(12)))
TRIANGLES = undirected(12, *((i, j) for k in range(0, 12, 3) for i, j in ((k, k + 1), (k, k + 2), (k + 1, k + 2))))


@pytest.mark.parametrize("rank", [2, 5])
@pytest.mark.parametrize("graph", [BIPARTITE, CYCLE, TRIANGLES], ids=["bipartite", "cycle", "triangles"])
def test_repeated_singular_values_whatever_basis_lapack_returns(
    graph: GraphStore, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = vectors(graph, rank)
    original = torch.linalg.svd

    def other_basis(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The decomposition in orthonormal coordinates chosen at random, taken back."""
        random = torch.Generator().manual_seed(1)
        turn = torch.linalg.qr(torch.randn(matrix.shape[1], matrix.shape[1], generator=random, dtype=matrix.dtype))[0]
        left, values, right = original(turn @ matrix @ turn.T)
        return turn.T @ left, values, right @ turn

    monkeypatch.setattr(torch.linalg, "svd", other_basis)
    assert (original(matrix := _dense(graph))[0] - other_basis(matrix)[0]).abs().max() > 0.1
    torch.testing.assert_close(vectors(graph, rank), expected, atol=1e-12, rtol=0)


def _dense(graph: GraphStore) -> Tensor:
    matrix = torch.zeros(1, graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    matrix[0][tuple(graph.edge_index.long())] = 1
    return matrix


@pytest.mark.parametrize("matrix", truncated_svd.MATRICES)
def test_no_matrix_of_this_rank_is_closer(matrix: str) -> None:
    """Eckart and Young: what the rank leaves out of M M^T is the tail of the singular values."""
    store = sbm_cluster((3,), 0, base=BlockModel(3, 4, 9, 0.7, 0.2))
    for graph, rows in enumerate(torch.arange(store.num_nodes).split(store.sizes.tolist())):
        one = store.gather([graph])
        dense = torch.zeros(len(rows), len(rows), dtype=torch.float64)
        dense[tuple(one.edge_index)] = 1
        if matrix == "distance":
            hops, power = torch.eye(len(rows), dtype=torch.float64), torch.eye(len(rows), dtype=torch.float64)
            for number in range(1, len(rows)):
                power = ((power @ dense) > 0).double()
                hops = torch.where((hops == 0) & (power > 0), 1 / (1 + number), hops)
            dense = hops
        left, values, _ = torch.linalg.svd(dense)
        out = vectors(store, 4, matrix)[rows]
        square = out.T @ out  # (U S^1/2)^T (U S^1/2) = S
        torch.testing.assert_close(square, values[:4].diag(), atol=1e-9, rtol=0)
        projected = out @ torch.diag(1 / values[:4]) @ out.T @ dense
        best = left[:, :4] @ torch.diag(values[:4]) @ torch.linalg.svd(dense)[2][:4]
        torch.testing.assert_close(projected, best, atol=1e-9, rtol=0)


def test_small_graphs_are_filled_up_with_zeros() -> None:
    store = GraphStore.from_arrays([0, 1, 2], [0, 0, 2], torch.tensor([[0, 1], [1, 0]]))
    for matrix in truncated_svd.MATRICES:
        out = TruncatedSVD(5, matrix)(store)["vectors"]
        assert out.shape == (3, 5)
        assert out.dtype == torch.float32
        assert out.isfinite().all()
        assert not out[:, 2:].any()
    assert TruncatedSVD(2)(GraphStore.from_graphs([]))["vectors"].shape == (0, 2)


@pytest.mark.parametrize("stride", [1, 3], ids=["undirected", "directed"])
def test_large_graphs_agree_with_small_ones(stride: int, monkeypatch: pytest.MonkeyPatch) -> None:
    base = sbm_cluster((2,), 0, base=BlockModel(3, 20, 25, 0.6, 0.1))
    counts = [len(range(0, int(count), stride)) for count in base.edge_counts]
    ends = torch.cat([base.gather([graph]).edge_index[:, ::stride] for graph in range(2)], 1)
    store = GraphStore.from_arrays(base.sizes, counts, ends)
    dense = vectors(store, 5)
    monkeypatch.setattr(truncated_svd, "MAX_NODES", 10)
    large = vectors(store, 5)
    assert not torch.equal(dense, large)
    torch.testing.assert_close(large, dense, atol=1e-7, rtol=0)


def test_large_graphs_with_symmetries(monkeypatch: pytest.MonkeyPatch) -> None:
    path, empty = undirected(40, *((i, i + 1) for i in range(39))), undirected(40)
    dense = vectors(path, 4)
    monkeypatch.setattr(truncated_svd, "MAX_NODES", 10)
    torch.testing.assert_close(vectors(path, 4), dense, atol=1e-7, rtol=0)  # every singular value is there twice
    assert not vectors(empty, 4).any()


def test_distances_of_a_graph_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_blocks, "MAX_NODES", 2)
    with pytest.raises(UserError, match="TruncatedSVD needs a dense matrix per graph: the largest graph has 3 nodes"):
        vectors(undirected(3, *PATH), 2, "distance")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TruncatedSVD(0), "rank must be at least 1, received 0"),
        (lambda: TruncatedSVD(2, "paths"), "matrix must be one of adjacency, distance; received 'paths'"),
    ],
)
def test_wrong_arguments(make: Callable[[], TruncatedSVD], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
