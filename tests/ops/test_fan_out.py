"""One tensor for several consumers: gradients are sums, in kernels as in autograd."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.fan_out import fan_out
from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_compiles,
    fresh_compiler,
)

from graphbench.ops.fan_out import gpu, gpu_kernels  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


def test_on_the_host_it_is_the_tensor_itself() -> None:
    x = torch.ones(2)
    assert all(y is x for y in fan_out(x, 4))


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(capability: int) -> None:
    constants = {"COUNT": 4, "ENTRIES": gpu.ENTRIES, "ACC": gpu.triton_type(torch.float32)}
    constants |= {"num_warps": 4, "enable_fp_fusion": True}
    check_compiles(gpu_kernels.add_all, constants, {"size": "i32"}, capability)
