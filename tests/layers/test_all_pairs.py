from __future__ import annotations

from graphbench.layers.all_pairs import all_pairs
from tests.contract import example_batch


def test_pairs_are_listed_graph_by_graph_and_row_by_row() -> None:
    batch = example_batch((3, 0, 1, 10))
    pairs = batch.derived(all_pairs)
    expected = [(i, j) for nodes in (range(3), range(3, 4), range(4, 14)) for i in nodes for j in nodes]
    assert list(zip(pairs.query.tolist(), pairs.key.tolist())) == expected
    assert [expected[pair] for pair in pairs.of_node.tolist()] == [(i, i) for i in range(14)]
    edges = [(target, source) for source, target in batch.edge_index.t().tolist()]
    assert [expected[pair] for pair in pairs.of_edge.tolist()] == edges
    by_key = pairs.adjacency.by_source
    assert by_key.entry.tolist() == [expected.index((key, query)) for query, key in expected]
    assert by_key.other.tolist() == [query for query, _ in (expected[pair] for pair in by_key.entry.tolist())]
    assert pairs.of_query.sizes == (3, 3, 3, 1, *[10] * 10)
