"""The Triton kernels of sums over graphs compile; what they compute: interpreted_segment.py."""

from __future__ import annotations

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    NAME,
    SHARED,
    check_machine_code,
    check_program,
    compile_kernel,
    fresh_compiler,
)

from graphbench.ops.segment import gpu, gpu_kernels  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["sum_rows", "spread_rows"])
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(name: str, capability: int) -> None:
    constants = gpu.constants(96, torch.float32, mean=True)
    options = {option: constants.pop(option) for option in ("num_warps", "enable_fp_fusion")}
    types = {"ptr": "*i64", "s_x": "i32", "s_grad": "i32"}
    other = f"*{NAME[torch.float32]}"
    program = compile_kernel(getattr(gpu_kernels, name), constants, types, other, capability, options)
    check_program(program, torch.float32, capability)
    check_machine_code(program)
