"""Triton kernels of the layer normalisation of graphs: what they compute and what they compile to."""

from __future__ import annotations

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    NAME,
    SHARED,
    check_compiles,
    fresh_compiler,
)

from graphbench.ops.graph_layer_norm import gpu, gpu_kernels  # isort: skip
from graphbench.ops.gpu_launch import wide_of  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("width", [64, 235])
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(name: str, width: int, capability: int) -> None:
    kind = torch.float32
    constants = gpu.constants(width, kind) | ({"EPS": 1e-5} if name == "forward" else {})
    types = {"ptr": "*i64", "statistics": f"*{NAME[wide_of(kind)]}", "parts": f"*{NAME[wide_of(kind)]}"}
    kernel = getattr(gpu_kernels, name)
    check_compiles(kernel, constants, types, capability)
