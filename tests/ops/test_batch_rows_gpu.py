"""Kernels of batch_rows: what they compute (interpreted without a GPU), and that they compile as they are launched."""

from __future__ import annotations

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_machine_code,
    check_program,
    fresh_compiler,
    launches_compiled,
)

from graphbench.ops.batch_rows import Room, gpu  # isort: skip
from graphbench.ops.gpu_tiles import TRITON  # isort: skip
from tests.ops.batch_rows_cases import data  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_as_it_is_launched(capability: int) -> None:
    """Lists of tensors of several types are one argument."""
    ptr, fields = data()
    with launches_compiled(capability, gpu) as programs:
        gpu.batch_rows(torch.tensor([1, 0, -1]), ptr, fields, Room((9, 12, 9), 3, 3))
    assert len(programs) == (2 if TRITON >= gpu.OLDEST else 0)
    for program in programs.values():
        check_program(program, torch.float64, capability)
        check_machine_code(program)
