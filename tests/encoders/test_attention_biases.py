"""Masks and proximities as biases of attention, alone and around a graph token."""

from __future__ import annotations

import pytest
import torch

from graphbench.data.store import GraphStore
from graphbench.encoders.positional.graph_token import GraphToken
from graphbench.encoders.positional.graphormer_bias import GraphormerBias
from graphbench.encoders.positional.hop_mask import HopMask
from graphbench.encoders.positional.proximity_bias import ProximityBias
from graphbench.layers.attention.biased_transformer import BiasedTransformer
from graphbench.structures import GraphBatch
from graphbench.transforms.adjacency_powers import ProximityPowers
from tests.contract import alone, example_batch, shaken

SIZES = (5, 1, 4)


def near(hops: int) -> GraphBatch:
    batch = example_batch(SIZES)
    graph = batch.ragged.graph_id[batch.edge_index[0]]
    edges = batch.edge_index - batch.ragged.ptr[graph]
    store = GraphStore.from_arrays(SIZES, torch.bincount(graph, minlength=3), edges)
    return batch.replace(pair_pe={"ProximityBias.powers": ProximityPowers(hops).exact(store)["powers"]})


def test_a_mask_leaves_attention_within_its_hops() -> None:
    batch = example_batch(SIZES)
    _, masked = HopMask(3, hops=[0, 1, 2])(batch.x, batch)
    weights = shaken(BiasedTransformer(12, 3).double()).attention_weights(batch.x, None, masked)
    for number, weight in enumerate(weights):
        distance = batch.pairs.block(number).long()
        for head in range(3):
            assert torch.equal(weight[head] > 0, distance <= head)


def test_a_mask_keeps_a_bias_and_shows_the_token() -> None:
    batch = example_batch(SIZES)
    h, tokened = GraphToken(12).double()(batch.x, batch)
    bias = torch.randn(tokened.ragged.num_pairs, 2, dtype=torch.float64)
    _, masked = HopMask(2, hops=[1])(h, tokened.with_state(pair_bias=bias))
    first = 0
    for number, size in enumerate(SIZES):
        block = masked.state.pair_bias[first : first + (size + 1) ** 2].view(size + 1, size + 1, 2)
        before = bias[first : first + (size + 1) ** 2].view_as(block)
        visible = torch.ones(size + 1, size + 1, dtype=torch.bool)
        visible[1:, 1:] = batch.pairs.block(number) <= 1
        assert torch.equal(block[visible], before[visible])
        assert (block[~visible] == -1e4).all()
        first += (size + 1) ** 2


@pytest.mark.parametrize("token", [False, True])
def test_proximities_are_mixed_and_those_of_the_token_are_one(token: bool) -> None:
    batch, encoder = near(3), ProximityBias(2, hops=3).double()
    h = batch.x
    tokened = GraphToken(12).double()(h, batch) if token else (h, batch)
    _, after = encoder(*tokened)
    first = 0
    for number, size in enumerate(SIZES):
        powers = alone(batch, number).pair_pe["ProximityBias.powers"].view(size, size, 3)
        around = torch.ones(size + token, size + token, 3, dtype=torch.float64)
        around[token:, token:] = powers
        block = after.state.pair_bias[first : first + (size + token) ** 2].view(size + token, size + token, 2)
        torch.testing.assert_close(block, around @ encoder.weight)
        first += (size + token) ** 2


def test_what_is_missing_or_wrong_is_named() -> None:
    batch = example_batch(SIZES, pairs=False)
    with pytest.raises(ValueError, match="HopMask reads hop distances"):
        HopMask(2)(batch.x, batch)
    with pytest.raises(ValueError, match=r"one number or 3, each 0 or more, received \[1, 2\]"):
        HopMask(3, hops=[1, 2])
    with pytest.raises(ValueError, match="reads 3 proximities of all pairs, received none"):
        ProximityBias(2)(batch.x, batch)


def test_graphormer_s_bias_without_degrees() -> None:
    batch = example_batch(SIZES)
    sizes = {"num_spatial_types": 4, "num_in_degrees": 20, "num_out_degrees": 20, "use_graph_token": False}
    with_degrees, without = (GraphormerBias(12, 2, degrees=kept, **sizes).double() for kept in (True, False))
    assert torch.equal(without(batch.x, batch)[0], batch.x)
    assert without(batch.x, batch)[1].state.pair_bias is not None
    assert set(with_degrees.state_dict()) - set(without.state_dict()) == {
        "in_degree_emb.weight",
        "out_degree_emb.weight",
    }
