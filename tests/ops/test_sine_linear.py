"""Sines of linear maps: gradients, what is refused, and what the kernels compute and compile to."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.sine_linear import sine_linear
from tests.ops.ragged_inputs import normal
from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_machine_code,
    check_missing_triton,
    compile_kernel,
    fresh_compiler,
    run_interpreted,
)

from graphbench.ops.sine_linear import gpu, gpu_kernels  # isort: skip

# Where sine and cosine of the CUDA library put the digits of an argument above 1e5 (Payne and Hanek).
ARGUMENT_REDUCTION = 32
__all__ = ["fresh_compiler"]  # a fixture


def test_gradient() -> None:
    assert torch.autograd.gradcheck(sine_linear, [normal(5, 3), normal(4, 3), normal(4), normal(4)])


def test_wrong_shapes_are_refused() -> None:
    x = torch.ones(2, 3)
    message = r"weight must be \(w, 3\), bias and frequency \(w,\), received \(2, 3\), \(3,\) and \(3,\) for x \(2, 3\)"
    with pytest.raises(ValueError, match=message):
        sine_linear(x, x, x[0], x[0])


@pytest.mark.slow
def test_kernels_against_the_equation() -> None:
    run_interpreted("interpreted_sine_linear.py")


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(name: str, capability: int) -> None:
    constants = gpu.constants(64, torch.float32)
    options = {option: constants.pop(option) for option in ("num_warps", "enable_fp_fusion")}
    kernel = getattr(gpu_kernels, name)
    program = compile_kernel(kernel, constants, {"num_rows": "i32"}, "*fp32", capability, options)
    code = program.asm["ptx"]  # the argument reduction multiplies in fp64
    assert "sin.approx" not in code
    assert "cos.approx" not in code
    check_machine_code(program, allowed=ARGUMENT_REDUCTION)


def test_missing_triton_is_named() -> None:
    check_missing_triton("sine_linear")
