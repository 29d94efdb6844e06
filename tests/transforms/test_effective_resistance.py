from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
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


def test_bad_accuracy() -> None:
    with pytest.raises(ValueError, match="accuracy must be more than 0, received 0"):
        EffectiveResistance(0)
