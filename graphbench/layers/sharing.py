"""Parameters that all layers of a model have in common."""

from __future__ import annotations

from torch import nn

from graphbench.contract import TiesParameters


def tie_layers(layers: nn.Module) -> None:
    """Calls ``module.tie(first)`` on every module that :class:`~graphbench.contract.TiesParameters`.

    Args:
        layers: the blocks of a model, in order; ``first`` is the first module of the same class in them.
    """
    first: dict[type, TiesParameters] = {}
    for module in list(layers.modules()):
        if isinstance(module, TiesParameters):
            leader = first.setdefault(type(module), module)
            if leader is not module:
                module.tie(leader)
