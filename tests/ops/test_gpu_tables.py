"""The Triton kernel of tile tables compiles; what it computes: interpreted_gpu_tables.py."""

from __future__ import annotations

import pytest

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_machine_code,
    compile_kernel,
    fresh_compiler,
)

from graphbench.ops import gpu_launch, gpu_tables  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("capability", SHARED)
def test_compiles_for_a_gpu(capability: int) -> None:
    constants = {"ROWS": 32, "BLOCK": gpu_launch.TABLE_BLOCK}
    types = dict.fromkeys(("graphs", "room", "smaller", "largest"), "i32")
    options = {"num_warps": 1, "enable_fp_fusion": True}
    program = compile_kernel(gpu_tables.tile_table, constants, types, "*i64", capability, options)
    check_machine_code(program)
    constants = {"ROWS": 64, "KEYS": 32, "BLOCK": gpu_launch.TABLE_BLOCK}
    types = dict.fromkeys(("graphs", "room", "of_keys"), "i32")
    program = compile_kernel(gpu_tables.two_tile_tables, constants, types, "*i64", capability, options)
    check_machine_code(program)
