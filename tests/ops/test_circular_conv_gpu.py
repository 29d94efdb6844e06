"""Triton kernels of direct circular convolutions: what they compute and what they compile to."""

from __future__ import annotations

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_compiles,
    fresh_compiler,
)

from graphbench.ops.circular_conv import gpu, gpu_kernels  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["forward", "rows_gradient", "taps_gradient"])
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(name: str, capability: int) -> None:
    kind = torch.float32
    constants = gpu.constants(81, kind, True)
    types = dict.fromkeys(("ptr", "tap_ptr", "tiles", "size_ptr", "graphs"), "*i64")
    types |= dict.fromkeys(("s_u", "s_taps", "s_gate", "s_grad"), "i32")
    kernel = getattr(gpu_kernels, name)
    check_compiles(kernel, constants, types, capability)
