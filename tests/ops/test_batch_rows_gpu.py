"""Kernels of batch_rows: what they compute (interpreted without a GPU), and that they compile as they are launched."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_machine_code,
    check_program,
    fresh_compiler,
)

from triton.backends.compiler import GPUTarget  # isort: skip
from triton.runtime import JITFunction, driver  # isort: skip

from graphbench.ops.batch_rows import Room, gpu  # isort: skip
from graphbench.ops.gpu_tiles import TRITON  # isort: skip
from tests.ops.batch_rows_cases import data  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


class _Driver:
    """Of a GPU that need not be present."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_as_it_is_launched(capability: int) -> None:
    """Lists of tensors of several types are one argument."""
    programs, run = [], JITFunction.run

    def compiled(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        programs.append(run(kernel, *args, grid=grid, warmup=True, **kwargs))
        return programs[-1]

    ptr, fields = data()
    with (
        mock.patch.dict(vars(driver)),  # which puts the driver back
        mock.patch.object(JITFunction, "run", compiled),
        mock.patch.object(gpu, "has_kernels", return_value=True),
    ):
        driver.set_active(_Driver(capability))
        gpu.batch_rows(torch.tensor([1, 0, -1]), ptr, fields, Room((9, 12, 9), 3, 3))
    assert len(programs) == (2 if TRITON >= gpu.OLDEST else 0)
    for program in programs:
        check_program(program, torch.float64, capability)
        check_machine_code(program)
