"""SAN's layers against GraphGPS, and which pairs count."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from graphbench.layers.blocks.san import SAN2Layer, SANLayer, non_edges
from graphbench.structures import GraphBatch, Ragged
from tests.contract import example_batch
from tests.layers.recorded import batch_of, close

PREFIXES = (("attn.", ""), ("ffn.in.", "feed_forward.lin_in."), ("ffn.out.", "feed_forward.lin_out."))


def ours(name: str) -> str:
    name = name.replace("norm_attn.", "norm_attention.")
    return next((own + name.removeprefix(theirs) for theirs, own in PREFIXES if name.startswith(theirs)), name)


def recorded_layer(arrays: dict[str, Any]) -> SANLayer:
    config = arrays["config"]
    keys = ("full_graph", "norm", "use_bias", "residual")
    own = {key: config[key] for key in keys}
    if config["cls"] == "SANLayer":
        layer: SANLayer = SANLayer(config["dim"], config["heads"], gamma=config["gamma"], **own)
    else:
        layer = SAN2Layer(config["dim"], config["heads"], **own)
    weights = {ours(key[2:]): value.double() for key, value in arrays.items() if key.startswith("w/")}
    missing, unexpected = layer.double().load_state_dict(weights, strict=False)
    assert not unexpected
    assert all(name.endswith("num_batches_tracked") for name in missing)
    return layer.eval()


@pytest.mark.parametrize(
    "name", ["san_full_batch", "san_full_bias", "san_sparse_layer", "san2_full_batch", "san2_sparse_layer"]
)
def test_equals_graphgps(golden, name: str) -> None:
    arrays = golden(f"graphgps/{name}")
    layer, batch = recorded_layer(arrays), batch_of(arrays)
    close(layer.attend(batch.x, batch.edge_attr, batch).flatten(1), arrays["out/attention"], "attention")
    h, e, same = layer(batch.x, batch.edge_attr, batch)
    assert e is batch.edge_attr
    assert same is batch
    close(h, arrays["out/x"], "nodes")
    (h * arrays["in/grad_seed.x"]).sum().backward()
    expected = {ours(key[5:]): value for key, value in arrays.items() if key.startswith("grad/")}
    close(batch.x.grad, expected.pop("in.x"), "nodes of the input")
    close(batch.edge_attr.grad, expected.pop("in.edge_attr"), "edges of the input")
    for parameter_name, parameter in layer.named_parameters():
        if parameter_name in expected:
            close(parameter.grad, expected.pop(parameter_name), parameter_name)
        else:
            assert parameter.grad is None, parameter_name
    assert not expected


def test_pairs_that_are_no_edges() -> None:
    """Sizes far enough apart for two buckets, one of them padded, an empty graph, a repeated edge and a self loop.

    The last node of the last graph hears all others: counted from the cells of small graphs, some of these edges lie
    among them.
    """
    sizes = [40, 3, 0, 1, 35]
    source = torch.tensor([0, 1, 0, 40, 41, 42, 42, *range(44, 78)])
    target = torch.tensor([1, 0, 1, 41, 40, 42, 40, *[78] * 34])
    batch = GraphBatch(Ragged.from_sizes(sizes), torch.stack([source, target]))
    expected = {}
    for graph, n in enumerate(sizes):
        first = int(batch.ragged.ptr[graph])
        pairs = ~torch.eye(n, dtype=torch.bool)
        for s, t in zip(source.tolist(), target.tolist()):
            if first <= s < first + n:
                pairs[t - first, s - first] = False
        expected[graph] = pairs
    seen = set()
    for bucket, mask in zip(batch.ragged.buckets, non_edges(batch), strict=True):
        for graph, block in zip(bucket.graphs, mask[:, 0], strict=True):
            n = sizes[graph]
            assert torch.equal(block[:n, :n], expected[graph])
            assert not block[n:].any()
            assert not block[:, n:].any()
            seen.add(graph)
    assert seen == {0, 1, 3, 4}
    assert len(batch.ragged.buckets) == 2


@pytest.mark.parametrize("layer", [SANLayer, SAN2Layer])
def test_pairs_are_found_once_per_batch(layer: type[SANLayer], monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("graphbench.layers.blocks.san.non_edges", lambda batch: calls.append(batch) or non_edges(batch))
    batch = example_batch()
    for each in (layer(12, 3).double(), layer(12, 3).double()):
        each(batch.x, batch.edge_attr, batch)
    assert len(calls) == 1


def test_a_complete_graph_has_no_other_pairs() -> None:
    """gamma says nothing where every pair is an edge."""
    n = 5
    pairs = torch.stack([torch.arange(n).repeat_interleave(n), torch.arange(n).repeat(n)])
    batch = GraphBatch(Ragged.from_sizes([n]), pairs[:, pairs[0] != pairs[1]])
    h, e = torch.randn(n, 12), torch.randn(n * (n - 1), 12)
    layer = SANLayer(12, 3, gamma=0.1)
    before = layer.attend(h, e, batch)
    nn.init.zeros_(layer.fake_edge_emb.weight)
    torch.testing.assert_close(before, layer.attend(h, e, batch))
    second = SAN2Layer(12, 3)
    half = second.attend(h, e, batch)
    nn.init.zeros_(second.gamma)
    torch.testing.assert_close(1.5 * half, second.attend(h, e, batch))


def test_without_residual_and_norm() -> None:
    batch, layer = example_batch(), SANLayer(12, 3, residual=False, norm="none").double()
    x = layer.out(layer.attend(batch.x, batch.edge_attr, batch).flatten(1))
    torch.testing.assert_close(layer(batch.x, batch.edge_attr, batch)[0], layer.feed_forward(x))


def test_the_result_of_the_feed_forward_part_is_not_dropped() -> None:
    layer = SANLayer(12, 3, dropout=1.0, norm="none", residual=False).double().train()
    batch = example_batch()
    expected = layer.feed_forward.lin_out.bias.expand(batch.num_nodes, 12)
    torch.testing.assert_close(layer(batch.x, batch.edge_attr, batch)[0], expected)


def test_edge_features_are_needed() -> None:
    batch = example_batch(edge_dim=0)
    for layer in (SANLayer(12, 3), SAN2Layer(12, 3)):
        with pytest.raises(ValueError, match=f"{type(layer).__name__} reads edge features"):
            layer.double()(batch.x, None, batch)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="dim=10, heads=4"):
        SANLayer(10, 4)
