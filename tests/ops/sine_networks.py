"""Networks of sines for the tests of their operator."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.sine_network import sine_network
from tests.ops.ragged_inputs import normal


def parameters(columns: int, width: int, layers: int, channels: int) -> list[Tensor]:
    """Weight and bias of every hidden layer, the last weight, frequencies."""
    shapes = [(width, columns), (width,)] + [(width, width), (width,)] * (layers - 1) + [(channels, width), (width,)]
    return [normal(*shape) for shape in shapes]


def call(z: Tensor, *values: Tensor, backend: str = "auto") -> Tensor:
    *hidden, out, frequency = values
    return sine_network(z, list(zip(hidden[::2], hidden[1::2], strict=True)), out, frequency, backend=backend)
