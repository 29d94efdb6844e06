"""The Triton kernels of blend compile; what they compute: interpreted_blend.py."""

from __future__ import annotations

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_compiles,
    fresh_compiler,
)

from graphbench.ops.blend import gpu, gpu_kernels  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", [pytest.param("forward", marks=pytest.mark.slow), "backward"])
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=pytest.mark.slow)])
def test_compiles_for_a_gpu(name: str, capability: int) -> None:
    assert capability in SHARED
    constants = gpu.constants(torch.float32)
    types = {"size": "i32"}
    check_compiles(getattr(gpu_kernels, name), constants, types, capability)
