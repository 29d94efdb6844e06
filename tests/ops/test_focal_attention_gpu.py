"""Triton kernels of focal attention compile for absent devices; what they compute: interpreted_focal_attention.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphbench.ops.focal_attention.scope import Scope
from graphbench.structures import PairBlocks, Ragged
from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    NAME,
    SHARED,
    UNSPILLED,
    check_machine_code,
    check_program,
    compile_kernel,
)

from graphbench.ops.focal_attention import gpu, gpu_kernels  # isort: skip
from graphbench.ops.gpu_launch import wide_of  # isort: skip

KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "forward": ("forward", {}),
    "forward-unlimited": ("forward", {"LIMITED": False}),
    "backward-queries": ("backward", {"OF_QUERIES": True, "GRAD_BIAS": True}),
    "backward-keys": ("backward", {"OF_QUERIES": False, "GRAD_BIAS": True}),
}
PAIR = PairBlocks(torch.zeros(4, dtype=torch.uint8), (2,))


def compiled(name: str, kind: torch.dtype, width: int, kinds: int, capability: int) -> Any:
    """The kernel as the launch in gpu.py would compile it for an NVIDIA device that need not be present."""
    kernel_name, flags = KERNELS[name]
    meta = torch.empty(1, 2, width, dtype=kind, device="meta")
    scope = Scope(Ragged.from_sizes([2]), PAIR, (None, 1), False)
    launch = gpu._Launch(scope, None, max(kinds, 1), kinds > 0, 0.5, torch.empty(1, device="meta"))
    constants = launch.constants(meta, meta, meta if kinds else None, meta) | flags
    options = {option: constants.pop(option) for option in ("num_warps", "num_stages", "enable_fp_fusion")}
    types = dict.fromkeys(("q", "k", "v", "grad", "out", "dq", "dk", "dv", "bias", "dbias"), f"*{NAME[kind]}")
    types |= {"ptr": "*i64", "pair_ptr": "*i64", "tiles": "*i64", "max_hops": "*i32"}
    types |= dict.fromkeys(("hops", "kinds"), "*i64") if kind == torch.float64 else {"hops": "*u8", "kinds": "*i16"}
    types |= {"seed": "*i64"}
    wide = f"*{NAME[wide_of(meta.dtype)]}"
    return compile_kernel(getattr(gpu_kernels, kernel_name), constants, types, wide, capability, options)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["forward-unlimited", "backward-queries"])
def test_compiles_for_a_gpu(name: str) -> None:
    check_program(compiled(name, torch.float32, 24, 40, 90), torch.float32, 90, tensor_cores=True)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize("width", [16, 128])
@pytest.mark.parametrize("kinds", [0, 128])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_for_every_block_size(name: str, kind: torch.dtype, kinds: int, width: int, capability: int) -> None:
    check_program(compiled(name, kind, width, kinds, capability), kind, capability, tensor_cores=True)


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["forward", "backward-queries", "backward-keys"])
@pytest.mark.parametrize(("kind", "width"), UNSPILLED, ids=str)
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=pytest.mark.exhaustive)])
def test_no_register_is_spilled(name: str, kind: torch.dtype, width: int, capability: int) -> None:
    allowed = 8 if (name, kind, width, capability) == ("forward", torch.float32, 64, 80) else 0  # no tile is smaller
    check_machine_code(compiled(name, kind, width, 0, capability), tensor_cores=True, allowed=allowed)
