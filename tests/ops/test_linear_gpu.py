"""The Triton kernel of the gradients of linear maps: what it computes and what it compiles to."""

from __future__ import annotations

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_compiles,
    fresh_compiler,
)

from graphbench.ops.linear import gpu, gpu_kernels  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("width", [(64, 128), pytest.param((96, 20), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=pytest.mark.slow)])
def test_compiles_for_a_gpu(width: tuple[int, int], capability: int) -> None:
    assert capability in SHARED
    kind = torch.float32
    constants = gpu.constants(*width, kind) | {"RELU": True, "OF_ROWS": True, "PLUS": True}
    types = {"num_rows": "i32", "s_h": "i32", "s_grad": "i32", "s_plus": "i32"}
    check_compiles(gpu_kernels.backward, constants, types, capability, tensor_cores=True)
