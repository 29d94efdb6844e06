from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data

from graphbench.data.store import GraphStore, digest


def _graphs(sizes: list[int], seed: int = 0) -> list[Data]:
    rng = np.random.default_rng(seed)
    graphs = []
    for size in sizes:
        edges = rng.integers(0, size, (2, 3 * size)) if size else np.empty((2, 0), dtype=np.int64)
        graphs.append(
            Data(
                x=torch.from_numpy(rng.standard_normal((size, 4)).astype(np.float32)),
                edge_index=torch.from_numpy(edges),
                edge_attr=torch.from_numpy(rng.integers(0, 5, (edges.shape[1], 2))),
                y=torch.tensor([int(rng.integers(0, 3))]),
            )
        )
    return graphs


SIZES = [3, 0, 5, 1, 4, 0]


@pytest.mark.parametrize(
    "chosen", [[0], [2], [1], [0, 1, 2, 3, 4, 5], [2, 3], [5, 2, 0], [4, 4, 2], [3, 2, 1], [], [1, 5]], ids=str
)
def test_gather_equals_pyg_batching(chosen: list[int]) -> None:
    graphs = _graphs(SIZES)
    batch = GraphStore.from_graphs(graphs).gather(chosen)
    assert batch.ragged.sizes == tuple(SIZES[i] for i in chosen)
    if not chosen:
        assert batch.num_nodes == batch.num_edges == 0
        return
    expected = Batch.from_data_list([graphs[i] for i in chosen])
    torch.testing.assert_close(batch.edge_index, expected.edge_index)
    torch.testing.assert_close(batch.x, expected.x)
    torch.testing.assert_close(batch.edge_attr, expected.edge_attr)
    torch.testing.assert_close(batch.y, expected.y)
    torch.testing.assert_close(batch.ragged.ptr, expected.ptr)
    assert batch.edge_index.dtype == torch.int64


@pytest.mark.parametrize("indices", [[1, 2], (1, 2), np.array([1, 2]), torch.tensor([1, 2]), range(1, 3)], ids=type)
def test_any_list_of_numbers_is_an_index(indices: Any) -> None:
    assert GraphStore.from_graphs(_graphs(SIZES)).gather(indices).ragged.sizes == (0, 5)


def test_neighbouring_graphs_are_views_and_equal_the_copies() -> None:
    store = GraphStore.from_graphs(_graphs(SIZES))
    view = store.gather([2, 3, 4])
    assert view.x is not None
    assert view.x.data_ptr() == store.x[3:].data_ptr()
    copy = store.gather([4, 2, 3, 4])  # its last two graphs are 3 and 4
    torch.testing.assert_close(view.x[5:], copy.x[-5:])


def test_narrow_integers_are_widened_in_batches() -> None:
    store = GraphStore.from_arrays([2, 1], [2, 0], [[0, 1], [1, 0]], x=torch.tensor([0, 2, 1], dtype=torch.uint8))
    assert store.x.dtype == torch.uint8
    assert store.x.shape == (3, 1)
    assert store.edge_index.dtype == torch.int32
    batch = store.gather([1, 0])
    assert batch.x.dtype == batch.edge_index.dtype == torch.int64
    assert batch.x.tolist() == [[1], [0], [2]]
    assert batch.edge_index.tolist() == [[1, 2], [2, 1]]


def test_encodings_and_node_targets_follow_their_nodes() -> None:
    store = GraphStore.from_arrays([2, 3], [0, 0], torch.empty(2, 0), y=torch.arange(5), y_level="node")
    store = store.with_encodings(pe={"LapPE.eigvecs": torch.arange(10.0).view(5, 2)})
    batch = store.gather([1, 0])
    assert batch.y.tolist() == [2, 3, 4, 0, 1]
    assert batch.pe["LapPE.eigvecs"][:, 0].tolist() == [4, 6, 8, 0, 2]


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (torch.tensor(1), (2,)),
        (torch.tensor([1]), (2,)),
        (torch.tensor([[1]]), (2,)),
        (torch.tensor([0.5]), (2, 1)),
        (torch.tensor([0.5, 1.0]), (2, 2)),
        (torch.tensor([[0, 1, 1]]), (2, 3)),
    ],
)
def test_graph_targets_become_one_row_per_graph(y: torch.Tensor, expected: tuple[int, ...]) -> None:
    graph = {"num_nodes": 2, "edge_index": torch.empty(2, 0), "y": y}
    assert GraphStore.from_graphs([graph, graph]).y.shape == expected


def test_dicts_and_data_give_the_same_store() -> None:
    graphs = _graphs([3, 2])
    dicts = [{name: graph[name] for name in ("x", "edge_index", "edge_attr", "y")} for graph in graphs]
    assert GraphStore.from_graphs(dicts).fingerprint == GraphStore.from_graphs(graphs).fingerprint


def test_one_dimensional_features_become_one_column() -> None:
    graph = {"x": torch.tensor([1, 2]), "edge_index": torch.tensor([[0], [1]]), "edge_attr": torch.tensor([3])}
    batch = GraphStore.from_graphs([graph]).gather([0])
    assert batch.x.shape == (2, 1)
    assert batch.edge_attr.shape == (1, 1)


def test_measurements() -> None:
    store = GraphStore.from_arrays([3, 1, 2], [3, 0, 1], [[0, 1, 2, 0], [1, 2, 1, 1]])
    assert (store.num_graphs, store.num_nodes, store.num_edges) == (3, 6, 4)
    assert store.max_nodes() == 3
    assert store.max_nodes([1, 2]) == 2
    assert store.degree_histogram() == (3, 2, 1)  # in-degrees 0, 2, 1 | 0 | 0, 1
    assert store.degree_histogram([2]) == (1, 1)
    empty = GraphStore.from_graphs([])
    assert empty.max_nodes() == 0
    assert empty.degree_histogram() == ()


def test_fingerprint_depends_on_content_and_not_on_encodings() -> None:
    def build(**changes: Any) -> GraphStore:
        parts: dict[str, Any] = {
            "nodes": [2, 1],
            "edges": [1, 0],
            "edge_index": [[0], [1]],
            "x": torch.ones(3, 1),
            "y": torch.tensor([0, 1]),
        } | changes
        return GraphStore.from_arrays(
            parts.pop("nodes"), parts.pop("edges"), torch.tensor(parts.pop("edge_index")), **parts
        )

    base = build()
    assert base.fingerprint == build().fingerprint
    assert base.with_encodings(pe={"a": torch.ones(3)}).fingerprint == base.fingerprint
    others = [
        build(edge_index=[[1], [0]]),
        build(x=torch.zeros(3, 1)),
        build(x=torch.ones(3, 1, dtype=torch.float64)),
        build(y=torch.tensor([1, 1])),
        build(nodes=[3, 0]),
        build(edge_attr=torch.ones(1, 1)),
    ]
    assert len({base.fingerprint, *(other.fingerprint for other in others)}) == 7


@pytest.mark.parametrize("level", ["graph", "node"])
def test_saved_tensors_give_the_store_back(level: Any) -> None:
    graphs = _graphs([2, 3])
    if level == "node":
        for graph in graphs:
            graph.y = torch.arange(graph.num_nodes)
    store = GraphStore.from_graphs(graphs, level)
    again = GraphStore.from_tensors(store.tensors())
    assert again.fingerprint == store.fingerprint
    assert again.y_level == level


def test_digest_sees_names_types_and_shapes() -> None:
    ones = torch.ones(4)
    variants = [{"a": ones}, {"b": ones}, {"a": ones.view(2, 2)}, {"a": ones.to(torch.float64)}, {"a": ones[:0]}, {}]
    assert len({digest(tensors) for tensors in variants}) == len(variants)


def test_numbers_of_pairs_follow_their_graphs() -> None:
    store = GraphStore.from_arrays([2, 0, 3], [0, 0, 0], torch.empty(2, 0))
    store = store.with_encodings(pairs=torch.arange(13).byte(), pair_pe={"a": torch.arange(26).view(13, 2)})
    batch = store.gather([2, 1, 0, 2])
    rows = [*range(4, 13), *range(4), *range(4, 13)]
    assert batch.pairs.distance.tolist() == rows
    assert batch.pair_pe["a"][:, 1].tolist() == [2 * row + 1 for row in rows]
    with pytest.raises(ValueError, match="encoding 'b' must have 13 rows, received 5"):
        store.with_encodings(pair_pe={"b": torch.zeros(5)})


def test_graph_numbers_out_of_range_are_refused() -> None:
    store = GraphStore.from_graphs(_graphs([2, 2]))
    with pytest.raises(IndexError, match=r"0 \.\. 1, received 1 \.\. 2"):
        store.gather([1, 2])
    with pytest.raises(IndexError, match="received -1"):
        store.gather([-1])


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([{"edge_index": torch.tensor([[0], [2]]), "num_nodes": 2}], r"graph 0 has 2 nodes, but an edge \[0, 2\]"),
        ([{"edge_index": torch.tensor([[-1], [0]]), "num_nodes": 2}], r"an edge \[-1, 0\]"),
        ([{"edge_index": torch.tensor([[0, 1]])}], r"shape \(2, edges\), received \(1, 2\)"),
        ([{"edge_index": torch.empty(2, 0)}], "neither 'x' nor 'num_nodes'"),
        ([{"x": torch.ones(1, 1)}, {"num_nodes": 1}], "'x' is missing in 1 of 2 graphs, first in 1"),
        ([{"x": torch.ones(2, 1), "edge_attr": torch.ones(3)}], "edge_attr must have 0 rows, received 3"),
    ],
)
def test_graphs_that_contradict_themselves_are_refused(graphs: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphStore.from_graphs(graphs)


def test_lengths_that_disagree_are_refused() -> None:
    with pytest.raises(ValueError, match="y must have 1 rows, one per graph, received 2"):
        GraphStore.from_arrays([2], [0], torch.empty(2, 0), y=torch.ones(2))
    with pytest.raises(ValueError, match="do not describe the same graphs"):
        GraphStore.from_arrays([2], [3], torch.zeros(2, 2))
    with pytest.raises(ValueError, match="encoding 'a' must have 2 rows"):
        GraphStore.from_arrays([2], [0], torch.empty(2, 0)).with_encodings(pe={"a": torch.ones(3)})


def test_a_known_fingerprint_belongs_to_the_copy_and_to_stores_of_the_same_graphs() -> None:
    store = GraphStore.from_arrays([2], [1], torch.tensor([[0], [1]]))
    known = store.with_fingerprint("known")
    assert known.with_encodings(pe={"a": torch.zeros(2, 1)}).fingerprint == known.to("cpu").fingerprint == "known"
    assert store.fingerprint == known.replace(y=None).fingerprint != "known"


def test_printed_it_has_counts_and_shapes_not_contents() -> None:
    graph = {"x": torch.zeros(3, 2), "edge_index": torch.tensor([[0], [1]]), "y": torch.tensor(0)}
    printed = repr(GraphStore.from_graphs([graph]))
    assert printed == "GraphStore(graphs=1, nodes=3, edges=1, edge_index=(2, 1), x=(3, 2), y_graph=(1,))"
