"""The layer of Dwivedi and Bresson against its equations, node by node."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.layers.blocks.graph_transformer import GraphTransformerLayer
from tests.contract import CHECKS, Subject, check_corner_cases, example_batch, shaken


def finished(part: Any, old: Tensor, new: Tensor) -> Tensor:
    x = part.norm_attention(old + new @ part.out.weight.t() + part.out.bias)
    ffn = part.feed_forward
    return part.norm_ffn(x + ffn.lin_out(torch.relu(ffn.lin_in(x))))


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("edge_states", [True, False])
def test_layer_is_its_equations(norm: str, edge_states: bool) -> None:
    layer = GraphTransformerLayer(12, 3, dim_edge=12, edge_states=edge_states, norm=norm)  # type: ignore[arg-type]
    layer = shaken(layer.double()).eval()
    batch = example_batch((6, 1, 4))
    q, k, v = (batch.x @ weight.t() for weight in layer.qkv.weight.chunk(3))
    new, scores = torch.zeros_like(batch.x), torch.zeros(batch.num_edges, 12, dtype=torch.float64)
    for t in range(batch.num_nodes):
        arriving = (batch.edge_index[1] == t).nonzero().view(-1).tolist()
        for head in range(3):
            columns = slice(4 * head, 4 * head + 4)
            weights = []
            for edge in arriving:
                u = q[t, columns] * k[batch.edge_index[0, edge], columns] / math.sqrt(4)
                if edge_states:
                    u = u * (layer.edge_lin.weight @ batch.edge_attr[edge])[columns]
                scores[edge, columns] = u
                weights.append(u.sum().clamp(-5, 5).exp())
            for edge, weight in zip(arriving, weights, strict=True):
                source = batch.edge_index[0, edge]
                new[t, columns] += weight / (sum(weights) + 1e-6) * v[source, columns]
    h, e, _ = layer(batch.x, batch.edge_attr, batch)
    torch.testing.assert_close(h, finished(layer.nodes, batch.x, new))
    expected = finished(layer.edges, batch.edge_attr, scores) if edge_states else batch.edge_attr
    torch.testing.assert_close(e, expected)


def test_contract_without_edge_states() -> None:
    subject = Subject(
        shaken(GraphTransformerLayer(12, 3, edge_states=False).double()),
        lambda module, batch: {"h": module(batch.x, None, batch)[0]},
        {"h": "node"},
        {"h": 12},
    )
    for check in CHECKS.values():
        check(subject, example_batch())
    check_corner_cases(subject)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"heads": 5}, "dim=12, heads=5"),
        ({"dim_edge": 8}, "dim=12 and dim_edge=8"),
        ({"norm": "graph"}, "norm must be one of batch, layer; received 'graph'"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphTransformerLayer(**{"dim": 12, "heads": 3, "dim_edge": 12, **own})


def test_missing_edge_states_are_named() -> None:
    batch = example_batch()
    with pytest.raises(ValueError, match="edge_states to false"):
        GraphTransformerLayer(12, 3, dim_edge=12).double()(batch.x, None, batch)
