"""Arguments that GraphGPS and its forks choose differently for the same keys, by the value of ``compat``.

Combinations that are not listed have the components' defaults, as mostly for ``graphgps``. Sources: GraphGPS 2801570,
Exphormer 1b43962, LRGB re-tuning c3500cb.
"""

from __future__ import annotations

from typing import Any

from graphbench.config import Config

_RELU = {"act": "relu"}
"""Layers with a fixed activation there, which do not read ``gnn.act``."""

_STANDARDIZED = {"standardize": True}

VARIANTS: dict[tuple[str, str, str], dict[str, Any]] = {
    ("lrgb", "encoders/node", "VOCNode"): _STANDARDIZED,
    ("lrgb", "encoders/node", "COCONode"): _STANDARDIZED,
    ("lrgb", "encoders/edge", "VOCEdge"): _STANDARDIZED,
    ("lrgb", "encoders/edge", "COCOEdge"): _STANDARDIZED,
    ("exphormer", "layers", "GPSBlock"): _RELU,
    ("exphormer", "layers/local", "GINE"): _RELU,
    ("exphormer", "layers/local", "CustomGatedGCN"): _RELU,
    ("exphormer", "layers/local", "gatedgcnconv"): _RELU,
    ("lrgb", "layers/local", "GINE"): {"mlp": "norm_and_map"},
    ("lrgb", "layers/local", "gatedgcnconv"): {"edge_residual": True},
    ("graphgps", "layers/blocks", "gatedgcnconv"): _RELU,
    ("graphgps", "layers/blocks", "gineconv"): _RELU,
    ("exphormer", "layers/blocks", "gatedgcnconv"): _RELU,
    ("exphormer", "layers/blocks", "gineconv"): _RELU,
    ("lrgb", "layers/blocks", "gatedgcnconv"): _RELU | {"edge_residual": True},
    ("lrgb", "layers/blocks", "gineconv"): {"dropout_inside": True},
}
"""(compat, namespace, name) -> fields of the namespace's context."""


def variant(config: Config, namespace: str, name: str) -> dict[str, Any]:
    """Fields of the context that the configuration's ``compat`` chooses for a component."""
    return VARIANTS.get((config.tree.compat, namespace, name), {})
