"""The Triton kernel of losses over entries compiles; what it computes: interpreted_entrywise_loss.py."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.entrywise_loss import KINDS
from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_compiles,
    fresh_compiler,
)

from graphbench.ops.entrywise_loss import gpu, gpu_kernels  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("kind", ["bce", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS[:3])])
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=pytest.mark.slow)])
def test_compiles_for_a_gpu(kind: str, capability: int) -> None:
    assert capability in SHARED
    pred = torch.empty(128, 10, device="meta")
    constants = gpu.constants(pred, kind, True, pred[:, 0], True) | {"GRADIENT": True}
    types = {"rows": "*i1", "size": "i32"}
    check_compiles(gpu_kernels.loss_and_gradient, constants, types, capability)
