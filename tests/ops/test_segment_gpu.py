"""The Triton kernels of sums over graphs compile; what they compute: interpreted_segment.py."""

from __future__ import annotations

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_compiles,
    fresh_compiler,
)

from graphbench.ops.segment import gpu, gpu_kernels  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["sum_rows", "spread_rows", "flip_rows"])
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(name: str, capability: int) -> None:
    constants = gpu.constants(96, torch.float32, mean=True)
    types = {"ptr": "*i64", "coin": "*i64", "s_x": "i32", "s_grad": "i32"}
    check_compiles(getattr(gpu_kernels, name), constants, types, capability)
