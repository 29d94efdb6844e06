"""Triton kernels of batch normalisation with its surroundings compile for absent GPUs as they are launched."""

from __future__ import annotations

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    check_machine_code,
    check_program,
    compiled_launches,
)

from graphbench.ops.gpu_tiles import TRITON  # isort: skip
from graphbench.ops.residual_norm import NormInput, Normalization, Fusion, gpu  # isort: skip
from graphbench.structures.capacity import RealRows  # isort: skip


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.slow
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    ("together", "rows"),  # of which there is one share, or there are several
    [
        *(("alone", 700), ("summed", 20_000), ("listed", 20_000)),
        *(
            pytest.param(*case, marks=pytest.mark.exhaustive)
            for case in (("alone", 20_000), ("summed", 700), ("listed", 700))
        ),
    ],
)
def test_compiles_for_a_gpu(together: str, rows: int, capability: int) -> None:
    """One norm; local layer and attention of a block of GPS; nodes and edges of GatedGCN."""
    if together != "alone" and TRITON < gpu.OLDEST:
        pytest.skip("an older Triton is given one input after the other")
    if together == "summed":
        inputs = [_input(rows, Fusion()), _input(rows, Fusion(_rows(rows), 0.1))]
    else:
        sizes = [rows] if together == "alone" else [rows, 2 * rows]
        inputs = [_input(size, Fusion(_rows(size), 0.1, "relu", 0.1, _rows(size))) for size in sizes]
    programs = compiled_launches(capability, gpu, lambda: torch.cat(gpu.residual_norms(inputs, together == "summed")))
    staged = {"share_moments", "share_gradient_sums"} if rows > gpu.FEW else set()
    module = gpu.gpu_kernels if together == "alone" else gpu.gpu_lists
    assert {getattr(module, name).fn for name in {"residual_norm_forward", "residual_norm_backward"} | staged} <= {
        kernel for kernel, _ in programs
    }
    for _, program in programs:
        check_program(program, torch.float32, capability)
        check_machine_code(program)


def _rows(rows: int) -> torch.Tensor:
    return torch.empty(rows, 96, requires_grad=True)


def _input(rows: int, fused: Fusion) -> NormInput:
    norm = Normalization(*(torch.empty(96, requires_grad=i < 2) for i in range(4)), training=True)
    return NormInput(_rows(rows), norm, fused, RealRows(torch.ones(rows, dtype=torch.bool), torch.tensor(rows)))
