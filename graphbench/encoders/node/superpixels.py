"""Superpixels of images: PascalVOC-SP and COCO-SP of the Long Range Graph Benchmark, https://arxiv.org/abs/2206.08164.

Fourteen columns per node: mean, standard deviation, largest and smallest value of the three colours, and two
coordinates in pixels, which are a thousand times larger than the rest.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.encoders.node.linear import LinearNode
from graphbench.errors import ArgumentError
from graphbench.registry import FromContext, register
from graphbench.structures import Features, as_dense

NODE_COLUMNS = 14


@register("VOCNode")
class VOCNode(LinearNode):
    """Linear map of the superpixel features of PascalVOC-SP, standardised or not.

    h_i = W x_i + b, or W (x_i - mean) / std + b.

    Args:
        dim: width of the result.
        node_in: columns of ``batch.x``, which must be 14.
        standardize: by the mean and standard deviation over all nodes of the data set, as in the re-tuned baselines
            of https://arxiv.org/abs/2309.00367 (Toenshoff et al.); plain in GraphGPS.

    Shape:
        x (N, 14) -> (N, dim)
    """

    capturable: ClassVar[bool] = True

    # Statistics of the training split, published with https://arxiv.org/abs/2309.00367.
    mean: ClassVar[tuple[float, ...]] = (
        *(0.45824501, 0.43857411, 0.40561178, 0.067938097, 0.065604292, 0.065742709, 0.65212941),
        *(0.62894762, 0.60173863, 0.27769071, 0.26425251, 0.23729359, 193.44997, 234.72206),
    )
    std: ClassVar[tuple[float, ...]] = (
        *(0.25952947, 0.25716761, 0.27130592, 0.054822665, 0.05442927, 0.054474957, 0.26238337),
        *(0.2660054, 0.2775068, 0.25197381, 0.24986187, 0.26069802, 117.68297, 140.07195),
    )

    def __init__(
        self, dim: FromContext[int], node_in: FromContext[int] = NODE_COLUMNS, *, standardize: FromContext[bool] = False
    ) -> None:
        if node_in != NODE_COLUMNS:
            raise ArgumentError(
                "node_in", f"{type(self).__name__} reads {NODE_COLUMNS} columns, received node_in = {node_in}"
            )
        super().__init__(dim, node_in)
        self.shift: Tensor | None
        self.scale: Tensor | None
        self.register_buffer("shift", torch.tensor(self.mean) if standardize else None, persistent=False)
        self.register_buffer("scale", torch.tensor(self.std) if standardize else None, persistent=False)

    def prepared(self, x: Features) -> Tensor:
        """The features, standardised with ``standardize``."""
        x = as_dense(x)
        if self.shift is None or self.scale is None:
            return x
        return (x - self.shift) / self.scale


@register("COCONode")
class COCONode(VOCNode):
    """Linear map of the superpixel features of COCO-SP: :class:`VOCNode` with their statistics."""

    mean: ClassVar[tuple[float, ...]] = (
        *(0.46977347, 0.44679317, 0.40790915, 0.070808627, 0.068686441, 0.068498217, 0.67777938),
        *(0.65244222, 0.62096798, 0.27554795, 0.25910738, 0.22901227, 242.61935, 289.85367),
    )
    std: ClassVar[tuple[float, ...]] = (
        *(0.26218116, 0.25831082, 0.27416739, 0.057440419, 0.056832556, 0.057100497, 0.25929087),
        *(0.26201612, 0.27675411, 0.25456995, 0.2514092, 0.2618233, 151.52475, 176.30779),
    )
