"""Co-GNN: the likelier choice of every node in evaluation, Gumbel noise in training, messages edge by edge."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench import registry
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.models.co_gnn import CoGNN
from graphbench.structures import GraphBatch
from tests.contract import example_batch, shaken

DIM = 8


def build(**own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(None, {}, 12, batch_norm=False),
        "dim_encoded": 12,
        "dim": DIM,
        "layers": 3,
        "head": lambda width: NodeHead(width, 3),
    }
    return shaken(registry.construct(CoGNN, {**arguments, **own}).double()).eval()


def heard(layer: Any, x: Tensor, batch: GraphBatch, mean: bool, weight: list[float] | None = None) -> Tensor:
    total = torch.zeros_like(x)
    for number, (s, t) in enumerate(batch.edge_index.t().tolist()):
        total[t] += x[s] * (1.0 if weight is None else weight[number])
    if mean:
        total = total / torch.bincount(batch.edge_index[1], minlength=len(x)).clamp(min=1).unsqueeze(1)
    return layer.lin(torch.cat([x, total], 1))


def logits(network: Any, x: Tensor, batch: GraphBatch, mean: bool) -> Tensor:
    *hidden, last = network.layers
    for layer in hidden:
        x = heard(layer, x, batch, mean).relu()
    return heard(last, x, batch, mean)


@pytest.mark.parametrize(
    ("own", "mean", "action_mean"),
    [
        ({}, True, True),
        ({"aggregate": "sum", "action_layers": 2, "action_dim": 4, "skip": True, "layer_norm": True}, False, True),
        ({"action_aggregate": "sum", "temperature": None}, True, False),
    ],
)
def test_model_is_its_equations(own: dict[str, Any], mean: bool, action_mean: bool) -> None:
    model, batch = build(**own), example_batch((7, 1, 5))

    def normed(x: Tensor) -> Tensor:
        return F.layer_norm(x, (DIM,), model.norm.weight, model.norm.bias) if "layer_norm" in own else x

    x = model.lin_in(batch.x).relu()
    for layer in model.layers:
        x = normed(x)
        listens, broadcasts = (
            logits(net, x, batch, action_mean).argmax(1) == 0 for net in (model.listens, model.broadcasts)
        )
        weight = [float(broadcasts[s] and listens[t]) for s, t in batch.edge_index.t().tolist()]
        new = heard(layer, x, batch, mean, weight).relu()
        x = x + new if "skip" in own else new
    torch.testing.assert_close(model(batch), model.head.mlp(normed(x)))


@pytest.mark.parametrize("temperature", [0.5, None])
def test_choices_are_those_of_gumbels_softmax(temperature: float | None) -> None:
    model = build(temperature=temperature).train()
    x = torch.randn(40, DIM, dtype=torch.float64)
    values = torch.randn(40, 2, dtype=torch.float64, requires_grad=True)
    torch.manual_seed(3)
    chosen = model._chosen(values, x)
    torch.manual_seed(3)
    tau = 0.5 if temperature else 1 / (F.softplus(model.lin_temperature(x)) + 0.5)
    noise = (F.gumbel_softmax(values, tau=1.0).log() - values).detach()  # up to a number per node, of the same draws
    soft = ((values + noise) / tau).softmax(1)[:, :1]
    assert torch.equal(chosen, (soft > 0.5).double())
    assert set(chosen.flatten().tolist()) == {0.0, 1.0}
    ours, expected = (torch.autograd.grad(each.sum(), values, retain_graph=True)[0] for each in (chosen, soft))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"aggregate": "max"}, "received 'max', 'mean' and 0.01"),
        ({"temperature": -1.0}, "received 'mean', 'mean' and -1.0"),
        ({"action_layers": 0}, "action_layers must be at least 1, received 0"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**own)
