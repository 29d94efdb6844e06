"""Triton kernels of message passing: what they compute (interpreted without a GPU) and what they compile to."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_compiles,
    fresh_compiler,
)

from graphbench.ops.propagate import gpu, gpu_kernels  # isort: skip

# Every kernel with the flags that select its code.
KERNELS: dict[str, dict[str, Any]] = {
    "inverse_roots": {},
    "sum_with_loops": {},
    "relu_sum": {"OWN": True},
    "relu_sum_backward": {"OWN": True, "EDGES": True},
    "gated_mean": {"EPS": 1e-6, "OWN": True},
    "gated_mean_at_target": {"EDGES": True, "OWN": True},
    "gated_mean_at_source": {},
}
__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(name: str, capability: int) -> None:
    kind = torch.float32
    constants = gpu.constants(96, kind) | KERNELS[name]
    kernel = getattr(gpu_kernels, name)
    types = dict.fromkeys(("ptr", "entry", "other"), "*i64") | {"num_nodes": "i32"}
    types |= {argument: "i32" for argument in kernel.arg_names if argument.startswith("s_")}
    check_compiles(kernel, constants, types, capability)
