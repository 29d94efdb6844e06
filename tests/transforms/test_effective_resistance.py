from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.errors import RunFailed
from graphbench.transforms.algorithms import krylov
from graphbench.transforms.effective_resistance import EdgeResistance, EffectiveResistance
from tests.transforms.small_graphs import undirected

CYCLE = ((0, 1), (1, 2), (2, 3), (3, 0))


def test_resistances_by_hand() -> None:
    # a cycle of four: one way of length 1 beside one of length 3; node 4 hangs on node 0
    out = EdgeResistance().exact(undirected(5, *CYCLE, (0, 4)))["resistance"]
    torch.testing.assert_close(out[:, 0], torch.tensor([0.75, 0.75, 0.75, 0.75, 1] * 2, dtype=torch.float64))
    assert EdgeResistance()(undirected(2, (0, 1)))["resistance"].dtype == torch.float32


def test_repeated_edges_lie_side_by_side_and_self_loops_have_none() -> None:
    out = EdgeResistance().exact(undirected(2, (0, 1), (0, 1), (1, 1)))["resistance"]
    torch.testing.assert_close(out[:, 0], torch.tensor([0.5, 0.5, 0] * 2, dtype=torch.float64), atol=1e-12, rtol=0)


def test_resistances_of_a_connected_graph_add_up_to_its_nodes_minus_one() -> None:  # Foster's theorem
    store = sbm_cluster((8,), 0, base=BlockModel(3, 2, 5, 0.9, 0.8))
    for rows, nodes in zip(
        torch.arange(store.num_edges).split(store.edge_counts.tolist()), store.sizes.tolist(), strict=True
    ):
        total = float(EdgeResistance().exact(store)["resistance"][rows].sum()) / 2
        assert total == pytest.approx(nodes - 1)


def _exact(store: GraphStore, graph: int) -> tuple[np.ndarray, np.ndarray]:
    """C^(1/2) B L^+ and the effective resistances of all pairs, one entry at a time."""
    nodes, edges = int(store.sizes[graph]), store.gather([graph]).edge_index.T.tolist()
    matrix = np.zeros((nodes, nodes))
    for source, target in edges:
        matrix[source, source] += source != target
        matrix[source, target] -= source != target
    inverse = np.linalg.pinv(matrix)
    drop = np.stack([math.sqrt(0.5) * (inverse[t] - inverse[s]) for s, t in edges])
    diagonal = inverse.diagonal()
    return drop, diagonal[:, None] + diagonal - 2 * inverse


def test_the_embedding_keeps_the_first_edges_of_small_graphs() -> None:
    store = sbm_cluster((4,), 0, base=BlockModel(3, 2, 6, 0.9, 0.8))
    out = EffectiveResistance().exact(store)["embedding"]
    kept = store.max_nodes() // 2
    assert out.shape == (store.num_nodes, kept)
    for graph, rows in enumerate(torch.arange(store.num_nodes).split(store.sizes.tolist())):
        drop, resistance = _exact(store, graph)
        first = torch.from_numpy(drop[:kept].T)
        torch.testing.assert_close(out[rows, : first.shape[1]], first, atol=1e-10, rtol=0)
        assert not out[rows, first.shape[1] :].any()
        whole = ((drop[:, :, None] - drop[:, None, :]) ** 2).sum(0)  # what the embedding would be with all edges
        np.testing.assert_allclose(whole, resistance, atol=1e-10)


def test_the_sketch_keeps_distances_and_repeats() -> None:
    store = sbm_cluster((1,), 0, base=BlockModel(4, 40, 40, 0.4, 0.1))
    encode = EffectiveResistance(accuracy=1.0)
    wanted = math.ceil(8 * math.log(store.num_edges))
    assert wanted < store.max_nodes() / 2, "or this graph would not be sketched"
    out = encode.exact(store)["embedding"]
    assert out.shape == (store.num_nodes, wanted)
    assert torch.equal(out, encode.exact(store)["embedding"])
    _, resistance = _exact(store, 0)
    distance = torch.cdist(out, out).square().numpy()
    pairs = ~np.eye(store.num_nodes, dtype=bool)
    ratio = distance[pairs] / resistance[pairs]
    assert abs(ratio.mean() - 1) < 0.1
    assert ((ratio > 0.4) & (ratio < 1.9)).all()


def test_graphs_without_edges_and_directed_ones() -> None:
    store = GraphStore.from_arrays([0, 1, 4], [0, 0, 3], torch.tensor([[0, 1, 2], [1, 2, 3]]))
    out = EffectiveResistance()(store)["embedding"]
    assert out.shape == (5, 2)
    assert out.isfinite().all()
    assert not out[0].any()
    torch.testing.assert_close(EdgeResistance().exact(store)["resistance"], torch.ones(3, 1, dtype=torch.float64))
    assert EffectiveResistance()(GraphStore.from_graphs([]))["embedding"].shape == (0, 1)


@pytest.mark.parametrize("transform", [EdgeResistance, EffectiveResistance])
def test_bad_accuracy(transform) -> None:
    with pytest.raises(ValueError, match="accuracy must be more than 0, received 0"):
        transform(0)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every graph is treated as one that is too large for a dense matrix."""
    for transform in (EdgeResistance, EffectiveResistance):
        monkeypatch.setattr(transform, "large_from", 1)


def _uneven() -> GraphStore:
    """A graph with a hub, double edges, loops, components and isolated nodes, and a directed one."""
    star = [(0, leaf) for leaf in range(1, 20)] + [(1, 2), (1, 2), (20, 21), (21, 22), (23, 23)]
    both = [*star, *((b, a) for a, b in star if a != b)]
    return GraphStore.from_arrays([26, 5], [len(both), 3], torch.tensor([*both, (0, 1), (1, 2), (3, 1)]).T)


def _budget(store: GraphStore, graph: int) -> float:
    """Of an entry of L^+ b for b of length 2 at most: residual over the smallest eigenvalue, and rounding."""
    matrix = torch.zeros(int(store.sizes[graph]), int(store.sizes[graph]), dtype=torch.float64)
    for source, target in store.gather([graph]).edge_index.T.tolist():
        matrix[source, target] = matrix[target, source] = float(source != target)
    values = torch.linalg.eigvalsh(torch.diag(matrix.sum(1)) - matrix)
    smallest = float(values[values > 1e-9].min())
    return 4 * (krylov.RESIDUAL + len(values) * torch.finfo(values.dtype).eps * float(values.max())) / smallest


@pytest.mark.parametrize("make", [_uneven, lambda: sbm_cluster((3,), 0, base=BlockModel(3, 5, 8, 0.9, 0.4))])
@pytest.mark.parametrize("transform", [EdgeResistance, EffectiveResistance])
def test_large_graphs_have_the_same(make, transform, request: pytest.FixtureRequest) -> None:
    store, encode, (name,) = make(), transform(), transform.outputs
    dense = encode.exact(store)[name]
    request.getfixturevalue("large")
    budget = max(_budget(store, graph) for graph in range(store.num_graphs))
    torch.testing.assert_close(encode.exact(store)[name], dense, atol=budget, rtol=0)


def test_sketches_of_large_graphs_have_the_error_they_state(large: None) -> None:
    """Squares of k normal numbers, nearly: relative deviation sqrt(2 / k); bounds are six of them."""
    store = sbm_cluster((1,), 0, base=BlockModel(4, 60, 60, 0.4, 0.1))
    accuracy = 0.9
    rows = math.ceil(8 * math.log(store.num_edges) / accuracy**2)
    assert rows < store.max_nodes() / 2, "or this graph would not be sketched"
    _, resistance = _exact(store, 0)
    source, target = store.gather([0]).edge_index
    embedding = EffectiveResistance(accuracy).exact(store)["embedding"]
    assert embedding.shape == (store.num_nodes, rows)
    for estimate in (
        EdgeResistance(accuracy).exact(store)["resistance"][:, 0],
        (embedding[source] - embedding[target]).square().sum(1),
    ):
        ratio = estimate.numpy() / resistance[source, target]
        assert abs(ratio - 1).max() < 6 * (2 / rows) ** 0.5
        assert 0.5 * (2 / rows) ** 0.5 < ratio.std() < 2 * (2 / rows) ** 0.5


def test_what_does_not_converge_says_so(large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(krylov, "RESIDUAL", -1.0)
    with pytest.raises(RunFailed, match="of a Laplacian of 5 nodes do not converge to -1"):
        EdgeResistance()(undirected(5, *CYCLE, (0, 4)))
