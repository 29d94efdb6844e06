"""Where forks of GraphGPS give one key different meanings: the argument that each of them stands for.

``compat`` chooses the column. ``graphgps`` is what the components' own defaults say, so it needs no rows. Sources:
GraphGPS 2801570, Exphormer 1b43962, LRGB re-tuning c3500cb.
"""

from __future__ import annotations

from typing import Any

from graphbench.config import Config

_EXPHORMER_RELU = {"act": "relu"}  # its layers have no activation argument, whatever gnn.act says

VARIANTS: dict[tuple[str, str, str], dict[str, Any]] = {
    ("exphormer", "layers", "GPSBlock"): _EXPHORMER_RELU,
    ("exphormer", "layers/local", "GINE"): _EXPHORMER_RELU,
    ("exphormer", "layers/local", "CustomGatedGCN"): _EXPHORMER_RELU,
}
"""(compat, room, name) -> constructor arguments."""


def variant(config: Config, room: str, name: str) -> dict[str, Any]:
    """Arguments that a component gets under the configuration's ``compat``."""
    return VARIANTS.get((config.tree.compat, room, name), {})
