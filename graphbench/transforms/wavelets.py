"""Diagonals of graph wavelets: Ngo, Hy, Kondor, https://arxiv.org/abs/2302.08647, and their code's conventions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms.algorithms.dense_blocks import Stack, StackTransform


@register("Wavelets")
class Wavelets(StackTransform):
    r"""The wavelet of every node at the node itself, for some scales.

    .. math:: w_{is} = (e^{-s L})_{ii}, \qquad L = I - D^{-1/2} A D^{-1/2}

    A: adjacency without self loops, repeated edges counted; D: degrees. A node without edges has 1 on the diagonal of
    L, and a wavelet of :math:`e^{-s}`. ``HeatKernelSE`` has the other Laplacian, D - A, without modes of eigenvalue 0.

    Args:
        scales: s, each at least 0.

    Returns:
        ``wavelets`` (N, len(scales)) float32.

    Conventions (ours): each directed graph is made undirected, see
    :class:`~graphbench.transforms.laplacian_pe.LaplacianPE`.
    """

    version: ClassVar[int] = 1
    by_graph = True
    outputs: ClassVar[tuple[str, ...]] = ("wavelets",)

    def __init__(self, scales: list[float]) -> None:
        if not scales or any(not math.isfinite(scale) or scale < 0 for scale in scales):
            raise ValueError(f"scales must list at least one scale, each at least 0, received {list(scales)}")
        self.scales = list(scales)

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0."""
        return {"wavelets": torch.zeros(store.num_nodes, len(self.scales), dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        spectrum, basis = stack.eigen("sym")
        scales = torch.tensor(self.scales, dtype=spectrum.dtype)
        left = torch.exp(-spectrum.unsqueeze(2) * scales)  # (B, n, scales)
        out["wavelets"][stack.rows] = (basis.square() @ left).to(out["wavelets"].dtype)
