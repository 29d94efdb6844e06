"""NodeFormer's layer against its dense formula, with the same noise, and its edge regularisation."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from graphbench.contract import take_auxiliary_loss
from graphbench.layers.attention.nodeformer import EPS, NodeFormer, released_seed
from graphbench.structures import GraphBatch
from tests.contract import alone, example_batch

DIM, HEADS = 12, 2


def features(rows: Tensor, projection: Tensor, top: Tensor | None = None) -> Tensor:
    """(n, heads, m) of the released code, without its factor m^-1/2, which cancels."""
    rows = rows / DIM**0.25
    along = torch.einsum("nhd,md->nhm", rows, projection)
    top = along.amax(2, keepdim=True) if top is None else top
    return torch.exp(along - rows.square().sum(2, keepdim=True) / 2 - top) + EPS


def dense(layer: NodeFormer, graph: GraphBatch, noise: Tensor | None) -> tuple[Tensor, Tensor]:
    """Output, and the (heads, n, n) weights without noise."""
    h, n = graph.x, graph.num_nodes
    q, k, v = (each(h).view(n, layer.heads, DIM) for each in (layer.q, layer.k, layer.v))
    scaled = k / layer.tau**0.5 / DIM**0.25
    top = torch.einsum("nhd,md->nhm", scaled, layer.projection).amax((0, 2)).view(1, -1, 1)
    phi_q = features(q / layer.tau**0.5, layer.projection)
    phi_k = features(k / layer.tau**0.5, layer.projection, top)
    weights = torch.einsum("ihm,jhm->hij", phi_q, phi_k)
    plain = weights / weights.sum(2, keepdim=True)
    if noise is None:
        z = torch.einsum("hij,jhd->ihd", plain, v)
    else:
        noisy = weights.unsqueeze(3) * torch.exp(noise / layer.tau).permute(1, 0, 2).unsqueeze(1)
        z = torch.einsum("hijs,jhd->ihsd", noisy / noisy.sum(2, keepdim=True), v).mean(2)
    reach = torch.eye(n, dtype=h.dtype)
    reach[graph.edge_index[1], graph.edge_index[0]] = 1
    powers = [reach]
    for _ in range(2):  # squared, and that squared
        powers.append((powers[-1] @ powers[-1] > 0).to(h.dtype))
    for order in range(0 if layer.bias is None else len(layer.bias)):
        strength = layer.bias[order].sigmoid() if layer.bias_act == "sigmoid" else layer.bias[order]
        scale = powers[order].sum(1).rsqrt()
        near = torch.einsum("ij,jhd->ihd", scale[:, None] * powers[order] * scale, v)
        z = z + strength.view(1, -1, 1) * near
    return (z.mean(1) if layer.out is None else layer.out(z.flatten(1))), plain


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"bias_order": 1, "bias_act": "identity"},
        {"bias_order": 0, "combine": "mean", "tau": 1.0},
        {"bias_order": 3},
    ],
    ids=["two", "one", "none", "three"],
)
def test_evaluation_equals_the_dense_formula(own: dict[str, Any]) -> None:
    layer, batch = NodeFormer(DIM, HEADS, **own).double().eval(), example_batch((9, 4))
    if layer.bias is not None:
        torch.nn.init.normal_(layer.bias)
    expected = torch.cat([dense(layer, alone(batch, graph), None)[0] for graph in range(2)])
    torch.testing.assert_close(layer(batch.x, None, batch), expected, rtol=1e-10, atol=1e-11)


def test_training_equals_the_dense_formula_with_the_same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, batch = NodeFormer(DIM, HEADS, gumbel_samples=3).double(), example_batch((9, 4))
    drawn: list[Tensor] = []
    inside = Tensor.exponential_
    monkeypatch.setattr(Tensor, "exponential_", lambda self: drawn.append(inside(self).clone()) or self)
    out = layer(batch.x, None, batch)
    (exponential,) = drawn
    noise = -exponential.log()
    assert noise.shape == (13, HEADS, 3)
    graphs = zip((alone(batch, 0), alone(batch, 1)), noise.split((9, 4)), strict=True)
    expected = torch.cat([dense(layer, graph, own)[0] for graph, own in graphs])
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-10)


def test_directions_are_drawn_in_training_and_kept_for_evaluation() -> None:
    layer, batch = NodeFormer(DIM, HEADS, gumbel_samples=0).double(), example_batch()
    first = layer(batch.x, None, batch)
    buffer, kept = layer.projection, layer.projection.clone()
    assert not torch.equal(layer(batch.x, None, batch), first)
    assert layer.projection is buffer  # whoever records steps keeps its address
    layer.projection.copy_(kept)
    layer.eval()
    torch.testing.assert_close(layer(batch.x, None, batch), first)
    assert torch.equal(layer.projection, kept)


def test_edge_regularisation_is_an_auxiliary_loss() -> None:
    """Value and gradient against the sum over the dense weights; the output and evaluation know nothing of it."""
    batch = example_batch((9, 4))
    batch = batch.replace(edge_index=torch.cat([batch.edge_index, torch.tensor([[2], [2]])], 1), edge_attr=None)
    layers = [NodeFormer(DIM, HEADS, gumbel_samples=0, edge_loss=weight).double() for weight in (0.5, 0.0)]
    layers[1].load_state_dict(layers[0].state_dict())
    outs = []
    for layer in layers:
        torch.manual_seed(7)
        outs.append(layer(batch.x, None, batch))
    assert torch.equal(*outs)
    assert layers[1].auxiliary_loss is None
    auxiliary_loss = take_auxiliary_loss(layers)
    assert auxiliary_loss is not None
    (outs[0].square().sum() + auxiliary_loss).backward()

    explicit = layers[1]
    penalty, pairs = 0.0, 0
    for graph in (alone(batch, 0), alone(batch, 1)):
        _, plain = dense(explicit, graph, None)
        reach = torch.eye(graph.num_nodes, dtype=torch.float64)
        reach[graph.edge_index[1], graph.edge_index[0]] = 1
        penalty = penalty - (plain.log() * reach / reach.sum(1, keepdim=True)).sum()
        pairs += int(reach.sum())
    expected_loss = 0.5 * penalty / (pairs * HEADS)
    torch.testing.assert_close(auxiliary_loss, expected_loss, rtol=1e-10, atol=1e-12)
    (outs[1].square().sum() + expected_loss).backward()
    for (name, found), expected in zip(layers[0].named_parameters(), explicit.parameters(), strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-8, atol=1e-10, msg=name)
    layers[0].eval()
    layers[0](batch.x, None, batch)
    assert layers[0].auxiliary_loss is None


def test_no_n_by_n_tensor_is_kept() -> None:
    layer, batch = NodeFormer(DIM, HEADS, edge_loss=1.0), example_batch((1000,), dtype=torch.float32, pairs=False)
    largest = 0

    def look(each: Tensor) -> Tensor:
        nonlocal largest
        largest = max(largest, each.numel())
        return each

    with torch.autograd.graph.saved_tensors_hooks(look, lambda each: each):
        layer(batch.x, None, batch)
    assert largest < 1000 * 1000


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"bias_order": 4}, "bias_order must be one of 0, 1, 2, 3; received 4"),
        ({"bias_act": "tanh"}, "received 'tanh'"),
        ({"combine": "sum"}, "received 'sum'"),
        ({"nb_features": 0}, "nb_features must be at least 1, received 0"),
        ({"gumbel_samples": -1}, "gumbel_samples must be at least 0, received -1"),
        ({"tau": 0.0}, "tau must be positive, received 0.0"),
        ({"edge_loss": -0.5}, "edge_loss must be at least 0, received -0.5"),
        ({"noise": "none"}, "noise must be one of step, released; received 'none'"),
    ],
)
def test_refused_arguments(argument: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NodeFormer(DIM, HEADS, **argument)


@pytest.mark.parametrize("noise", ["step", "released"])
@pytest.mark.parametrize("training", [True, False])
def test_noise_of_two_passes(noise: Literal["step", "released"], training: bool) -> None:
    layer, batch = NodeFormer(DIM, HEADS, noise=noise).double().train(training), example_batch()
    passes = []
    for _ in range(2):
        out = layer(batch.x, None, batch)
        passes.append((out, layer.projection.clone(), torch.nn.functional.dropout(out.detach())))  # of a later layer
    same = [torch.equal(first, second) for first, second in zip(*passes, strict=True)]
    assert same == (3 * [True] if noise == "released" else [not training, not training, False])
    obstacle = layer.capture_obstacle(one_batch=True)
    assert obstacle == (None if noise == "step" else "NodeFormer seeds the generators in every pass (noise: released)")


def test_released_seed_overflows_to_one_number() -> None:
    assert released_seed(torch.tensor([3.0, -2.5])) == 50_000_000
    assert released_seed(torch.tensor([-21.0])) == 2_100_000_000
    assert released_seed(torch.tensor([21.5])) == released_seed(torch.tensor([-4000.0])) == -(2**31)
