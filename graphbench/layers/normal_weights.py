"""First weights of Graphormer as released (https://arxiv.org/abs/2106.05234), which later Transformers took over."""

from __future__ import annotations

from torch import nn


def draw_normal_weights(module: nn.Module, layers: int) -> None:
    """Draws all linear maps from N(0, 0.02^2 / layers), without bias, and all embeddings from N(0, 0.02^2)."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=0.02 * layers**-0.5)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=0.02)
