"""Networks of sines: gradients, what is refused, and what the kernels compute and compile to."""

from __future__ import annotations

import pytest
import torch

from tests.ops.sine_networks import call, parameters
from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_machine_code,
    compile_kernel,
    fresh_compiler,
)

from graphbench.ops.sine_network import gpu, gpu_kernels  # isort: skip

# Where sine and cosine of the CUDA library each put the digits of an argument above 1e5 (Payne and Hanek).
ARGUMENT_REDUCTION = 2 * 28
__all__ = ["fresh_compiler"]  # a fixture


def test_gradient() -> None:
    z = torch.randn(5, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *values: call(z, *values), parameters(3, 4, 2, 6))


def test_wrong_arguments_are_refused() -> None:
    z, values = torch.ones(2, 3), [x.float() for x in parameters(3, 4, 2, 6)]
    with pytest.raises(ValueError, match=r"hidden layers must have shapes \[\(\(4, 5\), \(4,\)\), .* received"):
        call(torch.ones(2, 5), *values)
    with pytest.raises(ValueError, match="z gets no gradient from backend gpu, received a tensor that requires one"):
        call(z.requires_grad_(), *values, backend="gpu")


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(name: str, capability: int) -> None:
    constants = gpu.constants(5, 64, 2, 128, torch.float32)
    options = {option: constants.pop(option) for option in ("num_warps", "num_stages", "enable_fp_fusion")}
    kernel = getattr(gpu_kernels, name)
    types = {"num_rows": "i32", "total": "i32"}
    program = compile_kernel(kernel, constants, types, "*fp32", capability, options)
    code = program.asm["ptx"]  # the argument reduction multiplies in fp64
    assert "sin.approx" not in code
    assert "cos.approx" not in code
    assert program.metadata.shared <= SHARED[capability]
    check_machine_code(program, tensor_cores=True, allowed=ARGUMENT_REDUCTION)
