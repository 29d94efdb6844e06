"""DeepNorm: how its maps begin; its equation is checked in tests/models/test_deep_graph.py."""

from __future__ import annotations

import pytest
import torch

from graphbench.layers.blocks.deep_norm import DeepNorm

DIM = 16


def at_first(depth: int) -> DeepNorm:
    torch.manual_seed(0)
    return DeepNorm(DIM, 4, depth=depth, ffn_dim=24)


def test_maps_begin_smaller_the_deeper_the_model_is() -> None:
    one, many = at_first(1), at_first(48)
    smaller = 48**-0.25
    assert many.scale == pytest.approx(one.scale / smaller)
    torch.testing.assert_close(many.attention.qkv.weight[: 2 * DIM], one.attention.qkv.weight[: 2 * DIM])
    torch.testing.assert_close(many.attention.qkv.weight[2 * DIM :], smaller * one.attention.qkv.weight[2 * DIM :])
    for name in ("attention.out", "feed_forward.lin_in", "feed_forward.lin_out"):
        ours, expected = many.get_submodule(name), one.get_submodule(name)
        for parameter, usual in zip(ours.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(parameter, smaller * usual)
    assert many.feed_forward.lin_in.out_features == 24


def test_a_model_has_layers() -> None:
    with pytest.raises(ValueError, match="depth must be at least 1, received 0"):
        DeepNorm(DIM, 4, depth=0)
