"""Triton kernels of the sparse flow: what they compute (interpreted where there is no GPU) and what they compile to."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from graphbench.structures import Ragged
from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    NAME,
    SHARED,
    check_machine_code,
    check_program,
    compile_kernel,
)

from graphbench.ops.sparse_flow import gpu, gpu_backward, gpu_forward, gpu_whole  # isort: skip
from graphbench.ops.gpu_launch import blocks_on, operand_bytes, span_of, wide_of  # isort: skip

KERNELS = {
    "whole_rows": gpu_whole.whole_rows,
    "tiled_rows": gpu_forward.tiled_rows,
    "query_side": gpu_backward.query_side,
    "key_side": gpu_backward.key_side,
}
BLOCKS = {name: f"flow_{name.removesuffix('_rows')}" for name in KERNELS}


def blocks_of(kernel: str, kind: torch.dtype, width: int) -> list[tuple[int, int, int]]:
    """(rows, keys, warps) of every launch for tensors of this type and width."""
    table = blocks_on(torch.device("meta"), BLOCKS[kernel])[operand_bytes(kind)]
    return list(table.values()) if kernel == "whole_rows" else [table[max(64, span_of(width))]]


def compiled(
    name: str, kind: torch.dtype, width: int, capability: int, block: tuple[int, int, int], p: float = 0.5
) -> Any:
    """The kernel as the launch in gpu.py would compile it for an NVIDIA device that need not be present."""
    kernel = KERNELS[name]
    rows, keys, warps = block
    meta = torch.empty(1, 4, width, dtype=kind, device="meta")
    constants = gpu._constants(meta, meta, p)
    fusion = constants.pop("enable_fp_fusion")
    precision = gpu.PRECISION["whole" if name == "whole_rows" else "tiles"]
    constants |= {"INV_ALPHA": 10.0, "ROWS": rows, "KEYS": keys, "PRECISION": precision}
    constants |= {"D_SPAN": span_of(width), "E_SPAN": span_of(width), "TIE": gpu._TIE.get(kind, 0.0)}
    types = dict.fromkeys(("lam", "state", "sums", "grad_lam"), f"*{NAME[wide_of(kind)]}")
    types |= {"ptr": "*i64", "tiles": "*i64", "num_rows": "i32", "seed": "*i64"}
    options = {"num_warps": warps, "enable_fp_fusion": fusion}
    return compile_kernel(kernel, constants, types, f"*{NAME[kind]}", capability, options)


def check(name: str, kind: torch.dtype, width: int, capability: int, block: tuple[int, int, int], p: float) -> None:
    program = compiled(name, kind, width, capability, block, p)
    in_parts = kind == torch.float32 and name != "whole_rows"
    code = check_program(program, kind, capability, tensor_cores=in_parts)
    if in_parts and capability == 90:  # for which the tables are made
        check_machine_code(program, tensor_cores=True, allowed=32 if p else 0)
    if kind == torch.bfloat16:
        assert re.search(r"(wgmma\.mma_async|mma)\.sync.*f32\.bf16\.bf16", code), "bfloat16 misses the tensor cores"


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_for_a_gpu(name: str) -> None:
    check(name, torch.bfloat16, 40, 90, blocks_of(name, torch.bfloat16, 40)[0], 0.5)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    ("kind", "width", "p"),
    [(torch.float32, 68, 0.5), (torch.bfloat16, 235, 0.0)],
    ids=["float32-68", "bfloat16-235"],
)
def test_compiles_for_every_block_size(name: str, kind: torch.dtype, width: int, p: float, capability: int) -> None:
    check(name, kind, width, capability, blocks_of(name, kind, width)[-1], p)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_in_double_precision(name: str) -> None:
    check(name, torch.float64, 20, 90, blocks_of(name, torch.float64, 20)[0], 0.0)


def test_tiles_cover_every_row_once() -> None:
    sizes = [5, 0, 1, 70, 33, 64]
    ragged = Ragged.from_sizes(sizes)
    seen = []
    for smaller, largest, block in ((0, 5, 16), (5, 33, 16), (33, 70, 32)):
        for graph, first in gpu._tiles(ragged, smaller, largest, block).tolist():
            assert smaller < sizes[graph] <= largest
            seen += [(graph, row) for row in range(first, min(first + block, sizes[graph]))]
    assert sorted(seen) == [(graph, row) for graph, size in enumerate(sizes) for row in range(size)]
    assert len(gpu._tiles(ragged, 70, 700, 32)) == 0
