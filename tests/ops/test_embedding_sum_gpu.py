"""Triton kernels of sums of embeddings: what they compute (interpreted without a GPU) and what they compile to."""

from __future__ import annotations

from typing import Any

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

from graphbench.ops.embedding_sum import gpu, gpu_kernels  # isort: skip
from graphbench.ops.gpu_launch import wide_of  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


def compiled(name: str, kind: torch.dtype, width: int, capability: int) -> Any:
    """The kernel as the launch in gpu.py would compile it for an NVIDIA device that need not be present."""
    constants = gpu.constants(9, width, kind)
    if name == "backward":
        constants |= {"VOCABULARY": gpu.VOCABULARY, "SHARE": gpu.SHARE}
    options = {option: constants.pop(option) for option in ("num_warps", "enable_fp_fusion")}
    types = dict.fromkeys(("index", "first"), "*i64") | dict.fromkeys(("num_rows", "total", "stride"), "i32")
    types["parts"] = f"*{NAME[wide_of(kind)]}"
    return compile_kernel(getattr(gpu_kernels, name), constants, types, f"*{NAME[kind]}", capability, options)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(name: str, capability: int) -> None:
    program = compiled(name, torch.float32, 96, capability)
    check_program(program, torch.float32, capability, tensor_cores=name == "backward")
    check_machine_code(program, tensor_cores=name == "backward")
