"""Activation functions by name, as in GraphGPS's YAML files."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from graphbench.errors import check_one_of

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "selu": nn.SELU,
    "prelu": nn.PReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "swish": nn.SiLU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "lrelu_01": lambda: nn.LeakyReLU(0.1),
    "lrelu_025": lambda: nn.LeakyReLU(0.25),
    "lrelu_03": lambda: nn.LeakyReLU(0.3),
    "lrelu_05": lambda: nn.LeakyReLU(0.5),
    "identity": nn.Identity,
}


def activation(name: str) -> nn.Module:
    """An activation module (``prelu`` has one parameter, the others none).

    Args:
        name: a key of :data:`ACTIVATIONS`.

    Raises:
        ValueError: no such activation; the message lists the valid names and the nearest.
    """
    check_one_of(ACTIVATIONS, act=name)
    return ACTIVATIONS[name]()
