"""The Triton kernel of pairs of eigenvectors compiles; what it computes: interpreted_eigen_pairs.py."""

from __future__ import annotations

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_compiles,
    fresh_compiler,
)

from graphbench.ops.eigen_pairs import gpu, gpu_kernels  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(capability: int) -> None:
    constants = gpu.constants(10, torch.float32, True)
    types = {"ptr": "*i64", "seed": "*i64", "s_vecs": "i32", "s_vals": "i32"}
    check_compiles(gpu_kernels.signed_pairs, constants, types, capability)
