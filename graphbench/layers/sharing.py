"""Parameters that all layers of a model have in common."""

from __future__ import annotations

from torch import nn


def tie_layers(layers: nn.Module) -> None:
    """Calls ``layer.tie(first)`` wherever a part of the layers has that method; ``first`` is the first of its class.

    There a layer puts parameters of the first in place of its own, so that they are learned and counted as one.

    Args:
        layers: the blocks of a model, in order.
    """
    first: dict[type, nn.Module] = {}
    for module in list(layers.modules()):
        if hasattr(type(module), "tie"):
            leader = first.setdefault(type(module), module)
            if leader is not module:
                module.tie(leader)
