"""First weights of Graphormer: deviations, and which parameters stay as they are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphbench.layers.normal_weights import draw_normal_weights


def test_maps_and_embeddings_have_their_deviations() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(200, 200), nn.LayerNorm(200), nn.Embedding(200, 200), nn.Linear(2, 3, bias=False))
    draw_normal_weights(model, 4)
    lin, norm, table = model[0], model[1], model[2]
    assert not lin.bias.any()
    assert lin.weight.std().item() == pytest.approx(0.01, rel=0.05)  # 40,000 numbers: 14 deviations
    assert table.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert bool((norm.weight == 1).all())
