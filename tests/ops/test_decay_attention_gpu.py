"""Triton kernels of decay attention compile for absent devices; what they compute: interpreted_decay_attention.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphbench.ops.decay_attention.mask import Decay
from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    NAME,
    SHARED,
    UNSPILLED,
    check_machine_code,
    check_program,
    compile_kernel,
)

from graphbench.ops.decay_attention import gpu, gpu_kernels  # isort: skip
from graphbench.ops.gpu_launch import wide_of  # isort: skip

KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "forward": ("forward", {}),
    "backward-queries": ("backward", {"OF_QUERIES": True}),
    "backward-keys": ("backward", {"OF_QUERIES": False}),
}


def compiled(name: str, kind: torch.dtype, width: int, mask: Decay, capability: int) -> Any:
    """The kernel as the launch in gpu.py would compile it for an NVIDIA device that need not be present."""
    kernel_name, flags = KERNELS[name]
    meta = torch.empty(1, 2, width, dtype=kind, device="meta")
    index = torch.empty(1, dtype=torch.uint8, device="meta")
    rows, keys, constants = gpu._constants(meta, meta, index, mask, 0.5)
    constants |= {"ROWS": rows, "KEYS": keys, **flags}
    options = {option: constants.pop(option) for option in ("num_warps", "num_stages", "enable_fp_fusion")}
    stored = f"*{NAME[kind]}"
    types = dict.fromkeys(("q", "k", "v", "grad", "out", "dq", "dk", "dv"), stored)
    types |= {"ptr": "*i64", "pair_ptr": "*i64", "tiles": "*i64", "seed": "*i64", "num_parts": "i32"}
    types["index"] = "*i64" if kind == torch.float64 else "*u8"
    wide = f"*{NAME[wide_of(meta.dtype)]}"
    return compile_kernel(getattr(gpu_kernels, kernel_name), constants, types, wide, capability, options)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["forward", "backward-keys"])
def test_compiles_for_a_gpu(name: str) -> None:
    check_program(compiled(name, torch.float32, 24, Decay(0.6, slope=0.1), 90), torch.float32, 90, tensor_cores=True)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize("width", [16, 128])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_for_every_block_size(name: str, kind: torch.dtype, width: int, capability: int) -> None:
    linear = Decay(0.6, kind="linear", end=6.0, mask_on="probs", unreachable="mask")
    for mask in (Decay(0.6), linear):
        check_program(compiled(name, kind, width, mask, capability), kind, capability, tensor_cores=True)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["forward", "backward-queries", "backward-keys"])
@pytest.mark.parametrize(("kind", "width"), UNSPILLED, ids=str)
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=pytest.mark.exhaustive)])
def test_no_register_is_spilled(name: str, kind: torch.dtype, width: int, capability: int) -> None:
    check_machine_code(compiled(name, kind, width, Decay(0.6, slope=0.1), capability), tensor_cores=True)
