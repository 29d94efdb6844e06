"""Graphormer's encodings against GraphGPS, and the graph token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.encoders.positional.graphormer_bias import GraphormerBias
from graphbench.structures import EdgeSet, GraphBatch, PairBlocks, Ragged

NAMES = {
    "bias.graph_token": "bias.token",
    "bias.spatial_emb.weight": "bias.spatial_emb",
    "bias.edge_distance_emb.weight": "bias.edge_distance",
    "bias.edge_type_emb.weight": "bias.edge_type_emb",
    "node.graph_token": "token",
    "node.in_degree_emb.weight": "in_degree_emb.weight",
    "node.out_degree_emb.weight": "out_degree_emb.weight",
}


def recorded_encoder(arrays: dict[str, Any]) -> GraphormerBias:
    config = arrays["config"]
    encoder = GraphormerBias(
        config["dim"],
        config["heads"],
        num_spatial_types=config["num_spatial_types"],
        num_in_degrees=20,
        num_out_degrees=20,
        use_graph_token=config["use_graph_token"],
        edge_types=config["num_edge_types"],
    ).double()
    like = encoder.state_dict()
    weights = {NAMES[key[2:]]: value.double() for key, value in arrays.items() if key.startswith("w/")}
    encoder.load_state_dict({name: value.view_as(like[name]) for name, value in weights.items()})
    return encoder


def recorded_batch(arrays: dict[str, Any]) -> GraphBatch:
    sizes, spatial = arrays["in/ptr"].diff().tolist(), arrays["in/spatial_types"]
    distance = spatial.masked_fill(spatial == arrays["config"]["num_spatial_types"], 255).byte()
    types = arrays.get("in/shortest_path_edge_types")
    return GraphBatch(
        Ragged.from_sizes(sizes),
        arrays["in/edge_index"],
        pairs=PairBlocks(distance, tuple(sizes)),
        pair_pe={} if types is None else {"GraphormerBias.edge_types": types.byte()},
    )


def flat(padded: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """(G, heads, n, n) -> (sum n_g^2, heads)."""
    return torch.cat([block[:, :n, :n].permute(1, 2, 0).flatten(0, 1) for block, n in zip(padded, sizes, strict=True)])


def recorded_rows(h: Tensor, recorded: Tensor, graph: Tensor) -> Tensor:
    """Row of ours behind every recorded row: GraphGPS sorts tokens in with a sort that does not keep the order."""
    distance = torch.cdist(recorded, h.detach()).masked_fill(graph[:, None] != graph, torch.inf)
    assert distance.amin(1).max() < 1e-12
    return distance.argmin(1)


@pytest.mark.parametrize("name", ["notoken_noedges", "notoken_edges", "token_edges"])
def test_equals_graphgps(golden, name: str) -> None:
    arrays = golden(f"graphgps/graphormer_bias_{name}")
    encoder, batch = recorded_encoder(arrays), recorded_batch(arrays)
    x = arrays["in/x"].double().requires_grad_()
    h, after = encoder(x, batch)
    bias = after.state.pair_bias
    torch.testing.assert_close(bias, flat(arrays["out/attn_bias"], after.ragged.sizes), rtol=0, atol=1e-14)
    assert torch.equal(after.ragged.graph_id, arrays["out/batch"])
    rows = recorded_rows(h, arrays["out/x"], arrays["out/batch"])
    assert torch.equal(rows.sort()[0], torch.arange(len(h)))

    seed = arrays["in/grad_seed.attn_bias"].double().view(arrays["out/attn_bias"].shape)
    loss = (h[rows] * arrays["in/grad_seed.x"]).sum() + (bias * flat(seed, after.ragged.sizes)).sum()
    if arrays["config"]["use_graph_token"]:  # theirs writes the token's bias onto padding, too
        for block, n in zip(seed, after.ragged.sizes, strict=True):
            beyond = block[:, 0, n:].sum(1) + block[:, n:, 0].sum(1)
            loss = loss + (encoder.bias.token * beyond).sum()
    loss.backward()
    parameters = dict(encoder.named_parameters())
    for key, expected in arrays.items():
        if key.startswith("grad/"):
            found = x.grad if key == "grad/in.x" else parameters.pop(NAMES[key[5:]]).grad
            error = (found.reshape(expected.shape) - expected).abs().max() / expected.abs().max()
            assert error < 1e-13, key
    assert all(parameter.grad is None for parameter in parameters.values())


def chain(**changes: Any) -> GraphBatch:
    """Graphs of 3 and 1 nodes: 0 -> 1 -> 2 and 3."""
    hops = torch.tensor([0, 1, 2, 255, 0, 1, 255, 255, 0, 0], dtype=torch.uint8)
    batch = GraphBatch(
        Ragged.from_sizes([3, 1]),
        torch.tensor([[0, 1], [1, 2]]),
        x=torch.ones(4, 1),
        edge_attr=torch.ones(2, 1),
        y=torch.zeros(2),
        edge_sets={"label": EdgeSet(torch.tensor([[2, 3], [0, 3]]), torch.tensor([0, 1, 2]))},
        pairs=PairBlocks(hops, (3, 1)),
    )
    return batch.replace(**changes)


def encoder(**changes: Any) -> GraphormerBias:
    sizes = {"num_spatial_types": 2, "num_in_degrees": 3, "num_out_degrees": 3, "use_graph_token": False}
    return GraphormerBias(4, 2, **{**sizes, **changes})


def test_spatial_bias_by_hand() -> None:
    one = encoder()
    with torch.no_grad():
        one.bias.spatial_emb.copy_(torch.tensor([[0.0, 1], [2, 3], [4, 5]]))
    bias = one(torch.zeros(4, 4), chain())[1].state.pair_bias
    assert bias[:, 0].tolist() == [0, 2, 2, 4, 0, 2, 4, 4, 0, 0]  # 1 and 2 hops alike; no path: 4
    assert bias[:, 1].tolist() == (bias[:, 0] + 1).tolist()


def test_degrees_by_hand_count_distinct_edges_and_leave_other_columns() -> None:
    one = encoder()
    with torch.no_grad():
        one.in_degree_emb.weight.copy_(torch.arange(3.0)[:, None].expand(3, 4))
        one.out_degree_emb.weight.copy_(10 * torch.arange(3.0)[:, None].expand(3, 4))
    repeated = chain(edge_index=torch.tensor([[0, 1, 0, 1, 0], [1, 2, 1, 0, 0]]))
    h, _ = one(torch.zeros(4, 6), repeated)
    # 0: from 1 and itself, to 1 and itself; 1: from 0, to 2 and 0; 2: from 1
    assert h[:, 0].tolist() == [22, 21, 1, 0]
    assert torch.equal(h[:, 3], h[:, 0])
    assert not h[:, 4:].any()


def test_the_graph_token_comes_first_and_everything_moves_with_the_nodes() -> None:
    one, batch = encoder(use_graph_token=True), chain()
    h, after = one(torch.arange(4.0)[:, None].expand(4, 6), batch)
    assert after.ragged.sizes == (4, 2)
    assert after.edge_index.tolist() == [[1, 2], [2, 3]]
    assert after.edge_sets["label"].index.tolist() == [[3, 5], [1, 5]]
    assert after.edge_attr is batch.edge_attr
    assert after.y is batch.y
    assert after.x is None
    assert after.pairs.block(1).tolist() == [[0, 254], [254, 0]]
    assert torch.equal(h[[0, 4], :4], one.token.expand(2, 4))
    assert h[:, 5].tolist() == [0, 0, 1, 2, 0, 3]  # columns of encodings named later: 0 for the token
    bias = after.state.pair_bias
    assert bias.shape == (16 + 4, 2)
    for block, n in ((bias[:16].view(4, 4, 2), 4), (bias[16:].view(2, 2, 2), 2)):
        assert torch.equal(block[0], one.bias.token.expand(n, 2))
        assert torch.equal(block[:, 0], one.bias.token.expand(n, 2))
    assert torch.equal(bias[:16].view(4, 4, 2)[1:, 1:].flatten(0, 1), one.bias.spatial_emb[[0, 1, 1, 2, 0, 1, 2, 2, 0]])


def test_an_empty_graph_gets_a_token() -> None:
    batch = GraphBatch(
        Ragged.from_sizes([0, 1]),
        torch.zeros(2, 0, dtype=torch.int64),
        pairs=PairBlocks(torch.zeros(1, dtype=torch.uint8), (0, 1)),
    )
    h, after = encoder(use_graph_token=True)(torch.ones(1, 4), batch)
    assert after.ragged.sizes == (1, 2)
    assert h.shape == (3, 4)
    assert after.state.pair_bias.shape == (5, 2)


def test_what_was_learned_before_stays() -> None:
    _, after = encoder(use_graph_token=True)(torch.ones(4, 4), chain().with_state(extra={"other": torch.ones(9)}))
    assert torch.equal(after.state.extra["other"], torch.ones(9))


def test_degrees_only_owns_no_bias() -> None:
    one = encoder(node_degrees_only=True, num_spatial_types=None)
    _, after = one(torch.ones(4, 4), chain(pairs=None))
    assert after.state.pair_bias is None
    assert {name for name, _ in one.named_parameters()} == {"in_degree_emb.weight", "out_degree_emb.weight"}


def test_parameters_of_the_published_zinc_model() -> None:
    one = GraphormerBias(80, 8, num_spatial_types=20, num_in_degrees=64, num_out_degrees=64, edge_types=4)
    spatial, along, token = 21 * 8, 20 * 8 * 8 + 4 * 8, 8 + 80
    assert sum(each.numel() for each in one.parameters()) == spatial + along + token + 2 * 64 * 80


def test_input_dropout_acts_in_training_only() -> None:
    one, h = encoder(input_dropout=0.5), torch.ones(4, 6)
    kept = one.train()(h, chain())[0]
    assert (kept[:, :4] == 0).any()
    assert torch.equal(kept[:, 4:], h[:, 4:])
    assert torch.equal(one.eval()(h, chain())[0], one(h, chain())[0])


def test_wrong_values_are_named() -> None:
    with pytest.raises(ValueError, match="num_in_degrees must be 1 or more, received None"):
        encoder(num_in_degrees=None)
    with pytest.raises(ValueError, match="num_spatial_types must be 1 or more, received None"):
        encoder(num_spatial_types=None)
    with pytest.raises(ValueError, match=r"\(num_in_degrees\) has a vocabulary of 1 categor.* from 0 to 1"):
        encoder(num_in_degrees=1)(torch.ones(4, 4), chain())
    with pytest.raises(ValueError, match="reads hop distances"):
        encoder()(torch.ones(4, 4), chain(pairs=None))
    typed = chain(pair_pe={"GraphormerBias.edge_types": torch.full((10, 1), 3, dtype=torch.uint8)})
    with pytest.raises(ValueError, match=r"2 edge types \(0 to 1\), received type 3"):
        encoder(edge_types=2)(torch.ones(4, 4), typed)
