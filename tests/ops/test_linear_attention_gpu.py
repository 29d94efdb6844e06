"""Triton kernels of linear attention: what they compute (interpreted without a GPU) and what they compile to."""

from __future__ import annotations

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

from graphbench.ops.linear_attention import gpu, gpu_kernels  # isort: skip
from graphbench.ops.gpu_launch import wide_of  # isort: skip

# Every kernel with the flags that select its code.
KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "totals": ("totals", {}),
    "cross": ("cross", {"CENTRED": True}),
    "cross-backward": ("cross", {"CENTRED": False}),
    "attend": ("attend", {"FORWARD": True, "BASE": "self"}),
    "attend-backward": ("attend", {"FORWARD": False, "BASE": "none"}),
    "row_gradient-q": ("row_gradient", {"CENTRED": False}),
    "row_gradient-k": ("row_gradient", {"CENTRED": True}),
    "value_gradient": ("value_gradient", {"BASE": "uniform"}),
}


def compiled(name: str, kind: torch.dtype, width: int, capability: int) -> Any:
    """The kernel as the launch in gpu.py would compile it for an NVIDIA device that need not be present."""
    kernel_name, flags = KERNELS[name]
    kernel = getattr(gpu_kernels, kernel_name)
    meta = torch.empty(1, 2, width, dtype=kind, device="meta")
    make = {"cross": gpu._cross_constants, "totals": gpu._totals_constants}.get(kernel_name, gpu._constants)
    constants = make(meta, meta) | {"B_HEADS": 2} | flags
    options = {option: constants.pop(option) for option in ("num_warps", "num_stages", "enable_fp_fusion")}
    wide, stored = f"*{NAME[wide_of(meta.dtype)]}", f"*{NAME[kind]}"
    types = dict.fromkeys(("q", "k", "v", "x", "a", "b", "grad"), stored) | {"ptr": "*i64", "tiles": "*i64"}
    types["out"] = wide if kernel_name in ("cross", "totals") or flags.get("FORWARD") is False else stored
    return compile_kernel(kernel, constants, types, wide, capability, options)


def check(name: str, kind: torch.dtype, width: int, capability: int) -> None:
    program, multiplies = compiled(name, kind, width, capability), name != "totals" and kind != torch.float64
    check_program(program, kind, capability, tensor_cores=multiplies)
    if multiplies:
        check_machine_code(program, tensor_cores=True)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_for_a_gpu(name: str) -> None:
    check(name, torch.bfloat16, 40, 90)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("kind", "width"), [(torch.float32, 100), (torch.float32, 235), (torch.float64, 235)], ids=str)
def test_compiles_for_every_block_size(name: str, kind: torch.dtype, width: int, capability: int) -> None:
    check(name, kind, width, capability)


def test_tiles_cover_every_row_once_in_the_order_of_the_graphs() -> None:
    sizes = [5, 0, 1, 70, 33, 64]
    tiles = gpu.row_tiles(Ragged.from_sizes(sizes), 32)
    assert gpu._tile_counts(Ragged.from_sizes(sizes), 32).sizes == (1, 0, 1, 3, 2, 2)
    assert tiles[:, 0].tolist() == sorted(tiles[:, 0].tolist())
    seen = [(graph, row) for graph, first in tiles.tolist() for row in range(first, min(first + 32, sizes[graph]))]
    assert seen == [(graph, row) for graph, size in enumerate(sizes) for row in range(size)]
