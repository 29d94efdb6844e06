"""What Exphormer's attention works on: pairs, their features, virtual nodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphbench.encoders.expander import ExpanderEdges
from graphbench.structures import EdgeSet, GraphBatch, Ragged
from tests.contract import example_batch


def two_graphs() -> GraphBatch:
    """A path of three nodes and a pair, one-way edges; expander edges 2 -> 0 and 4 -> 3."""
    return GraphBatch(
        Ragged.from_sizes([3, 2]),
        torch.tensor([[0, 1, 3], [1, 2, 4]]),
        x=torch.zeros(5, 2),
        edge_attr=torch.tensor([[10.0], [11.0], [12.0]]),
        edge_sets={"expander": EdgeSet(torch.tensor([[2, 4], [0, 3]]), torch.tensor([0, 1, 2]))},
    )


def test_pairs_and_features_by_hand() -> None:
    batch, prepare = two_graphs(), ExpanderEdges(2, 1)
    seen = prepare(batch.x, batch.edge_attr, batch)
    pairs, feature = seen.edge_sets["exp"], prepare.expander.weight.item()
    assert pairs.index.tolist() == [[0, 1, 2, 3, 4], [1, 2, 0, 4, 3]]
    assert pairs.ptr.tolist() == [0, 3, 5]
    expected = torch.tensor([10.0, 11.0, feature, 12.0, feature])
    torch.testing.assert_close(seen.state.edge_states["exp"].flatten(), expected)
    assert dict(seen.state.tensors()).keys() == {"exp"}
    assert seen.edge_index is batch.edge_index


@pytest.mark.parametrize(
    ("expander", "add_edge_index", "expected"),
    [(True, False, [[2, 4], [0, 3]]), (False, True, [[0, 1, 3], [1, 2, 4]]), (False, False, [[], []])],
)
def test_what_takes_part(expander: bool, add_edge_index: bool, expected: list[list[int]]) -> None:
    batch = two_graphs()
    prepare = ExpanderEdges(2, 1, expander=expander, add_edge_index=add_edge_index, num_virtual_nodes=1)
    seen = prepare(batch.x, None if not add_edge_index else batch.edge_attr, batch)
    assert seen.edge_sets["exp"].index.tolist() == expected
    assert seen.state.edge_states["exp"].shape == (len(expected[0]), 1)
    assert prepare.needs_edges is add_edge_index


def test_virtual_nodes_and_their_edges() -> None:
    batch, prepare = two_graphs(), ExpanderEdges(2, 1, num_virtual_nodes=3)
    state = prepare(batch.x, batch.edge_attr, batch).state
    node, inwards, outwards = (prepare.virtual[name].weight for name in ("node", "edge_in", "edge_out"))
    torch.testing.assert_close(state.virtual_nodes, node.repeat_interleave(2, 0))  # row v * G + g
    torch.testing.assert_close(state.virtual_edges[0::2], inwards)
    torch.testing.assert_close(state.virtual_edges[1::2], outwards)


@pytest.mark.parametrize("name", ["attention_expander_edges_virtual2", "attention_edges_virtual1_dimedge"])
def test_pairs_are_those_of_released_code(name: str, golden: Any) -> None:
    arrays = golden(f"exphormer/{name}")
    config, sizes = arrays["config"], arrays["in/ptr"].diff()
    count = arrays["in/expander_edges_per_graph"]
    first = torch.repeat_interleave(arrays["in/ptr"][:-1], count)
    batch = GraphBatch(
        Ragged.from_sizes(sizes.tolist()),
        arrays["in/edge_index"],
        edge_sets={
            "expander": EdgeSet(
                arrays["in/expander_edges_local"].T + first, torch.cat([count.new_zeros(1), count.cumsum(0)])
            )
        },
    )
    prepare = ExpanderEdges(
        config["dim"],
        config["dim_edge"],
        expander=config["expander"],
        add_edge_index=config["add_edge_index"],
        num_virtual_nodes=config["num_virt_node"],
    )
    pairs = prepare(arrays["in/x"], arrays["in/edge_attr"], batch).edge_sets["exp"]
    assert sorted(pairs.index.T.tolist()) == sorted(arrays["out/edge_index"].T.tolist())
    graph = batch.ragged.graph_id[pairs.index[0]]
    assert torch.equal(graph, torch.repeat_interleave(pairs.ptr.diff()))  # a graph's pairs stand together


def test_pairs_are_found_once_per_batch_and_features_every_time() -> None:
    batch, prepare = two_graphs(), ExpanderEdges(2, 1)
    known = batch.with_state(extra={"known": torch.ones(1)})
    first, second = (prepare(batch.x, batch.edge_attr, each) for each in (known, batch))
    assert first.edge_sets["exp"] is second.edge_sets["exp"]
    assert "known" in first.state.extra
    assert "known" not in second.state.extra
    assert "exp" not in batch.state.edge_states
    assert first.state.edge_states["exp"] is not second.state.edge_states["exp"]


def test_parameters_are_those_of_released_code() -> None:
    """The feature of expander edges counts even where there are none."""
    d, de, v = 12, 8, 3
    for virtual, expected in ((v, de + v * (d + 2 * de)), (0, de)):
        module = ExpanderEdges(d, de, expander=False, num_virtual_nodes=virtual)
        assert sum(each.numel() for each in module.parameters()) == expected


def test_empty_batches() -> None:
    for sizes in ((), (0,), (0, 3, 0)):
        batch = example_batch(sizes, edges=False)
        seen = ExpanderEdges(12, 12, expander=False, num_virtual_nodes=2).double()(batch.x, batch.edge_attr, batch)
        assert seen.state.virtual_nodes.shape == (2 * len(sizes), 12)
        assert seen.edge_sets["exp"].ptr.tolist() == [0] * (len(sizes) + 1)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing to attend along"):
        ExpanderEdges(12, 12, expander=False, add_edge_index=False)
    with pytest.raises(ValueError, match="received -1"):
        ExpanderEdges(12, 12, num_virtual_nodes=-1)
    batch = example_batch()
    with pytest.raises(ValueError, match="no expander edges; its edge sets: none"):
        ExpanderEdges(12, 12)(batch.x, batch.edge_attr, batch)
    with pytest.raises(ValueError, match="add an edge encoder"):
        ExpanderEdges(12, 12, expander=False)(batch.x, None, batch)
