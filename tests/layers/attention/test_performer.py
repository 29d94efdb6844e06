"""Performer: parameters, random directions, redraws."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from graphbench.layers.attention.performer import Performer, directions
from graphbench.layers.blocks.performer import PerformerLayer
from graphbench.ops.softmax_attention import softmax_attention
from tests.contract import example_batch


def count(module: torch.nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())


def test_parameters_are_those_of_graphgps() -> None:
    """Heads are 64 wide whatever the model's width; no bias but that of the output; directions are no parameters."""
    layer = Performer(256, 8)
    assert count(layer) == 3 * 256 * 512 + 512 * 256 + 256
    assert layer.projection.shape == (int(64 * math.log(64)), 64)
    assert not layer.projection.requires_grad
    assert "projection" in layer.state_dict()


def test_maps_that_are_not_trained() -> None:
    assert not any(each.requires_grad for each in Performer(12, 2, trained=False).parameters())


def test_parameters_of_a_layer_of_the_performer_model() -> None:
    d = 96
    assert count(PerformerLayer(d, 4)) == 4 * d + 4 * d * (d + 1) + d * 4 * d + 4 * d + 4 * d * d + d


def test_published_count_of_ogbg_ppa() -> None:
    """GPS on ogbg-ppa, CustomGatedGCN+Performer, 3 layers of width 256: 3,434,533 parameters (arXiv 2205.12454)."""
    from graphbench.layers.gps import GPSBlock
    from graphbench.layers.local.gated_gcn import CustomGatedGCN

    block = GPSBlock(256, [CustomGatedGCN(256, 256, dim_edge=256), Performer(256, 8)])
    encoders, head = 256 + 7 * 256 + 256, 256 * 257 + 37 * 257
    assert 3 * count(block) + encoders + head == 3_434_533


def test_directions_are_orthogonal_in_groups_and_as_long_as_gaussian_ones() -> None:
    torch.manual_seed(0)
    drawn = directions(70, 32)
    assert drawn.shape == (70, 32)
    gram = drawn @ drawn.T
    for first, last in ((0, 32), (32, 64), (64, 70)):
        group = gram[first:last, first:last]
        assert (group - torch.diag(group.diagonal())).abs().max() < 1e-4
    assert gram[:32, 32:64].abs().max() > 1
    assert directions(2000, 32).norm(dim=1).mean().item() == pytest.approx(math.sqrt(32), rel=0.02)


def test_approximates_softmax_attention() -> None:
    torch.manual_seed(0)
    batch, layer = example_batch((40,)), Performer(12, 2, dim_head=8, nb_features=4096).double()
    q, k, v = (each(batch.x).unflatten(1, (2, 8)) for each in (layer.q, layer.k, layer.v))
    exact = layer.out(softmax_attention(q, k, v, batch.ragged).flatten(1))
    assert (layer(batch.x, None, batch) - exact).square().mean().sqrt() < 0.02
    few = Performer(12, 2, dim_head=8, nb_features=4).double()
    few.load_state_dict(layer.state_dict() | {"projection": layer.projection[:4]})
    assert (few(batch.x, None, batch) - exact).square().mean().sqrt() > 0.04


def test_seed_decides_the_directions() -> None:
    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return Performer(12, 2).projection

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_directions_are_redrawn_in_training_only() -> None:
    batch = example_batch()
    layer = PerformerLayer(12, 3, feature_redraw_interval=2).double()
    before = layer.attention.projection.clone()
    for _ in range(2):
        layer(batch.x, None, batch)
    layer.eval()
    for _ in range(5):
        layer(batch.x, None, batch)
    assert torch.equal(layer.attention.projection, before)
    layer.train()(batch.x, None, batch)
    assert not torch.equal(layer.attention.projection, before)
    assert layer.attention.projection.dtype == torch.float64


def test_a_restored_layer_redraws_when_the_first_would_have() -> None:
    batch = example_batch()
    first = PerformerLayer(12, 3, feature_redraw_interval=3).double()
    for _ in range(2):
        first(batch.x, None, batch)
    second = PerformerLayer(12, 3, feature_redraw_interval=3).double()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    outputs = []
    for layer in (first, second):
        torch.manual_seed(5)
        outputs.append([layer(batch.x, None, batch)[0] for _ in range(3)][-1])
    assert torch.equal(*outputs)
    assert first.calls == second.calls == 1


def test_a_layer_that_redraws_is_not_captured() -> None:
    assert PerformerLayer(12, 3).capture_obstacle() == "PerformerLayer draws new directions after some batches"
    assert PerformerLayer(12, 3, feature_redraw_interval=0).capture_obstacle() is None


def test_no_redraw_with_an_interval_of_0() -> None:
    batch, layer = example_batch(), PerformerLayer(12, 3, feature_redraw_interval=0).double()
    before = layer.attention.projection.clone()
    for _ in range(3):
        layer(batch.x, None, batch)
    assert torch.equal(layer.attention.projection, before)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="dim_head must be at least 2, received 1"):
        Performer(12, 2, dim_head=1)
    with pytest.raises(ValueError, match="nb_features must be at least 0, received -1"):
        Performer(12, 2, nb_features=-1)
    with pytest.raises(ValueError, match="dim=12, heads=5"):
        PerformerLayer(12, 5)
