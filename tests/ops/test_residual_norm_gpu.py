"""Triton kernels of batch normalisation with its surroundings: what they compute and what they compile to."""

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

from graphbench.ops.residual_norm import gpu, gpu_kernels  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture

COMMON: dict[str, Any] = {"ADDED": True, "P": 0.1, "MASKED": True}
FLAGS: dict[str, dict[str, Any]] = {
    "share_moments": COMMON,
    "forward": COMMON
    | {"TRAINING": True, "EPS": 1e-5, "MOMENTUM": 0.1, "RESIDUAL": True, "RELU": True, "Q": 0.1, "STAGED": True},
    "share_gradient_sums": {"ADDED": True, "P": 0.1, "RELU": True, "Q": 0.1},
    "backward": COMMON | {"RELU": True, "Q": 0.1, "STAGED": True, "APART": True},
}
QUICK = ("backward", 700, 90)
# Rows of one share, and of several.
CASES = [
    pytest.param(name, rows, capability, marks=() if (name, rows, capability) == QUICK else pytest.mark.slow)
    for name in FLAGS
    for rows in (700, 20_000)
    if rows > gpu.FEW or "STAGED" in FLAGS[name]
    for capability in SHARED
]


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize(("name", "rows", "capability"), CASES)
def test_compiles_for_a_gpu(name: str, rows: int, capability: int) -> None:
    kind = torch.float32
    constants = gpu.constants(96, kind, rows) | FLAGS[name]
    if "STAGED" in constants:
        constants["STAGED"] = rows > gpu.FEW
    options = {option: constants.pop(option) for option in ("num_warps", "enable_fp_fusion")}
    kernel = getattr(gpu_kernels, name)
    types = {"real": "*i1", "seed": "*i64", "num_rows": "i32", "share": "i32"}
    types |= {argument: "i32" for argument in kernel.arg_names if argument.startswith("s_")}
    program = compile_kernel(kernel, constants, types, f"*{NAME[kind]}", capability, options)
    check_program(program, kind, capability)
    check_machine_code(program)
