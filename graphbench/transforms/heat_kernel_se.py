"""Diagonals of heat kernels, with GraphGPS's conventions.

Paper: Rethinking Graph Transformers with Spectral Attention, https://arxiv.org/abs/2106.03893; conventions: GraphGPS,
https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms.algorithms.dense_blocks import Stack, StackTransform

ZERO = 1e-8
"""Eigenvalues below this count as 0."""


@register("HeatKernelSE")
class HeatKernelSE(StackTransform):
    r"""Heat that is left at a node after some time, if all of it started there.

    .. math:: s_{it} = \sum_{k: \lambda_k > 0} e^{-t \lambda_k} u_{ki}^2, \qquad L u_k = \lambda_k u_k, \quad L = D - A

    A: adjacency without self loops, repeated edges counted; D: degrees. Modes of eigenvalue 0 (one per component, what
    is left after infinite time) are taken off, so that an isolated node has 0 at all times. The sum does not depend on
    the signs of eigenvectors, nor on the basis inside a repeated eigenvalue.

    Args:
        times: diffusion times t, each at least 0.

    Returns:
        ``heat`` (N, len(times)) float32.

    Conventions (ours): each directed graph is made undirected, see :class:`LaplacianPE`.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("heat",)

    def __init__(self, times: list[float]) -> None:
        if not times or any(not math.isfinite(time) or time < 0 for time in times):
            raise ValueError(f"times must list at least one time, each at least 0, received {list(times)}")
        self.times = list(times)

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0."""
        return {"heat": torch.zeros(store.num_nodes, len(self.times), dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        spectrum, basis = stack.eigen("none")
        times = torch.tensor(self.times, dtype=spectrum.dtype)
        decay = torch.exp(-spectrum.unsqueeze(2) * times) * (spectrum >= ZERO).unsqueeze(2)  # (B, n, times)
        out["heat"][stack.rows] = (basis.square() @ decay).to(out["heat"].dtype)
