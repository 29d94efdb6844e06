"""Which features become sparse rows, and stores that hold them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor

from graphbench.blockwise.stored import StoredBlocks
from graphbench.data.files.tensor_cache import cached_tensors
from graphbench.data.large.partition import Partition
from graphbench.data.large.subgraph import subgraph
from graphbench.data.single_graph import node_store, prepared
from graphbench.data.sparse_features import sparse_rows, with_sparse_features
from graphbench.data.store import GraphStore
from graphbench.structures import SparseRows, as_dense


def matrix(nodes: int = 50, columns: int = 80, share: float = 0.05) -> Tensor:
    return torch.rand(nodes, columns).add(0.1) * (torch.rand(nodes, columns) < share)


def one_graph(x: Tensor | SparseRows) -> GraphStore:
    edges = torch.randint(0, max(len(x), 1), (2, 120 if len(x) else 0))
    return node_store(x, edges, torch.zeros(len(x), dtype=torch.int64))


def two_graphs(x: Tensor) -> GraphStore:
    half = len(x) // 2
    return GraphStore.from_arrays([half, len(x) - half], [0, 0], torch.empty(2, 0), x=x, y=torch.zeros(2))


@pytest.mark.parametrize(
    ("store", "becomes_sparse"),
    [
        (one_graph(matrix()), True),
        (one_graph(matrix().double()), True),
        (one_graph(matrix(columns=63)), False),
        (one_graph(matrix(share=0.2)), False),
        (one_graph(matrix().half()), False),
        (one_graph(matrix().long()), False),
        (one_graph(matrix(nodes=0)), False),
        (two_graphs(matrix()), False),
    ],
    ids=["float32", "float64", "few_columns", "many_nonzeros", "half", "categories", "no_nodes", "two_graphs"],
)
def test_the_rule(store: GraphStore, becomes_sparse: bool) -> None:
    chosen = with_sparse_features(store)
    assert isinstance(chosen.x, SparseRows) == becomes_sparse
    assert torch.equal(as_dense(chosen.x), store.x)
    assert becomes_sparse or chosen is store


def test_what_a_loader_leaves_sparse_is_judged_alike() -> None:
    for share, stays in ((0.05, True), (0.4, False)):
        x = matrix(share=share)
        chosen = with_sparse_features(one_graph(SparseRows.of(x)))
        assert isinstance(chosen.x, SparseRows) == stays
        assert torch.equal(as_dense(chosen.x), x)


def test_always_and_never() -> None:
    for store in (one_graph(matrix()), two_graphs(matrix(columns=3, share=0.9))):
        always = with_sparse_features(store, "always")
        assert isinstance(always.x, SparseRows)
        never = with_sparse_features(always, "never")
        assert torch.equal(never.x, store.x)
        assert with_sparse_features(store, "never") is store
    with pytest.raises(ValueError, match="sparse_features must be one of auto, always, never; received 'yes'"):
        with_sparse_features(store, "yes")


def test_a_known_fingerprint_stays() -> None:
    store = one_graph(matrix()).with_fingerprint("f" * 64)
    assert with_sparse_features(store).fingerprint == "f" * 64


def test_matrices_of_scipy() -> None:
    x = matrix()
    for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        rows = sparse_rows(kind(x.double().numpy()))
        assert rows.dtype == torch.float32
        assert torch.equal(rows.dense(), x)


def test_rows_divided_by_their_sums() -> None:
    x = matrix()
    x[3] = 0
    expected = prepared(one_graph(x), normalize_features=True).x
    found = prepared(one_graph(SparseRows.of(x)), normalize_features=True).x
    assert isinstance(found, SparseRows)
    torch.testing.assert_close(found.dense(), expected)


def test_batches_of_many_graphs() -> None:
    store = two_graphs(matrix())
    rows = with_sparse_features(store, "always")
    for graphs in ([0, 1], [1], [1, 0, 1], []):
        assert torch.equal(as_dense(rows.gather(graphs).x), store.gather(graphs).x)
    whole = one_graph(SparseRows.of(matrix()))
    assert whole.gather([0]).x is whole.x


def test_a_store_survives_the_cache(tmp_path: Path) -> None:
    store = one_graph(SparseRows.of(matrix()))
    tensors = cached_tensors(tmp_path, "store", {"key": 1}, store.tensors)
    read = GraphStore.from_tensors(tensors)
    assert isinstance(read.x, SparseRows)
    assert read.x.shape == store.x.shape
    assert torch.equal(read.x.dense(), store.x.dense())
    assert read.fingerprint == store.fingerprint != one_graph(store.x.dense()).fingerprint
    assert store.to("cpu").x.shape == store.x.shape
    entries = store.x.value.numel()
    dense = store.replace(x=torch.zeros(50, 0))
    assert store.nbytes - dense.nbytes == entries * (4 + 8) + 51 * 8 + 8


def test_parts_and_blocks_of_one_graph() -> None:
    x = matrix()
    store, dense = one_graph(SparseRows.of(x)), one_graph(x)
    nodes = torch.tensor([7, 3, 49])
    assert torch.equal(as_dense(subgraph(store, nodes, torch.empty(2, 0), None).x), x[nodes])
    drawn = Partition.draw(50, 3, np.random.default_rng(0))
    for ours, theirs in zip(drawn.batches(store), drawn.batches(dense), strict=True):
        assert torch.equal(as_dense(ours.x), theirs.x)
    blocks = StoredBlocks(store, max_nodes=20)
    assert torch.equal(torch.cat([as_dense(blocks.nodes(block).x) for block in range(3)]), x)
    assert blocks.cast(torch.float64).nodes(1).x.dtype == torch.float64


def test_graphs_of_a_user_may_hold_sparse_tensors() -> None:
    x = matrix()
    none = torch.empty(2, 0, dtype=torch.int64)
    graphs = [{"edge_index": none, "x": part.to_sparse_coo(), "y": torch.tensor([0])} for part in x.split(20)]
    store = GraphStore.from_graphs(graphs)
    assert isinstance(store.x, SparseRows)
    assert torch.equal(store.x.dense(), x)
    assert store.sizes.tolist() == [20, 20, 10]
