"""Parameters shared by all layers of a model."""

from __future__ import annotations

from typing import Any

from torch import nn

from graphbench.contract import TiesParameters


def tie_layers(layers: nn.Module) -> None:
    """Calls ``module.tie(first)`` on every module that :class:`~graphbench.contract.TiesParameters`.

    Args:
        layers: the blocks of a model, in order; ``first`` is the first module of the same class in them.
    """
    first_of: dict[type, Any] = {}
    for module in list(layers.modules()):
        if isinstance(module, TiesParameters):
            first = first_of.setdefault(type(module), module)
            if first is not module:
                module.tie(first)
