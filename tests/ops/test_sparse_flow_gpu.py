"""Triton kernels of the sparse flow: what they compute (interpreted where there is no GPU) and what they compile to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from graphbench.ops.sparse_flow import sparse_flow
from graphbench.structures import Ragged

triton = pytest.importorskip("triton", reason="the GPU kernels need Triton (pip install 'graphbench-gt[test]')")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("TRITON_INTERPRET replaces the compiler that is tested here", allow_module_level=True)

from triton.backends.compiler import GPUTarget  # noqa: E402

from graphbench.ops.sparse_flow import gpu, gpu_backward, gpu_forward, gpu_whole  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
KERNELS = {
    "whole_rows": gpu_whole.whole_rows,
    "tiled_rows": gpu_forward.tiled_rows,
    "query_side": gpu_backward.query_side,
    "key_side": gpu_backward.key_side,
}
# Shared memory that one block may hold, by compute capability (CUDA programming guide, technical specifications).
SHARED = {80: 163 * 1024, 90: 227 * 1024}
NAME = {torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64"}


@pytest.mark.slow
def test_kernels_against_the_reference() -> None:
    """Runs interpreted_sparse_flow.py; a process of its own, because Triton interprets everything or nothing."""
    interpret = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    cases = Path(__file__).with_name("interpreted_sparse_flow.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", str(cases)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | interpret, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def blocks_of(kernel: str, kind: torch.dtype, width: int) -> list[tuple[int, int, int]]:
    """(rows, keys, warps) of every launch for tensors of this type and width."""
    operand = gpu._operand(torch.empty(0, dtype=kind))
    if kernel == "whole_rows":
        return [(rows, keys, warps) for keys, rows, warps in gpu.WHOLE[operand]]
    span = max(64, gpu._power(width))
    return [(gpu.KEY_SIDE if kernel == "key_side" else gpu.QUERY_SIDE)[operand][span]]


def compiled(
    name: str, kind: torch.dtype, width: int, capability: int, block: tuple[int, int, int], p: float = 0.5
) -> Any:
    """The kernel as the launch in gpu.py would compile it for an NVIDIA device that need not be present."""
    kernel = KERNELS[name]
    rows, keys, warps = block
    meta = torch.empty(1, 4, width, dtype=kind, device="meta")
    constants = gpu._constants(meta, meta, p)
    fusion = constants.pop("enable_fp_fusion")
    constants |= {"INV_ALPHA": 10.0, "ROWS": rows, "KEYS": keys}
    constants |= {"D_SPAN": gpu._power(width), "E_SPAN": gpu._power(width), "TIE": gpu._TIE.get(kind, 0.0)}
    types = dict.fromkeys(("lam", "state", "sums", "grad_lam"), f"*{NAME[gpu._accumulator(kind)]}")
    types |= {"ptr": "*i64", "tiles": "*i64", "num_rows": "i32", "row_length": "i32", "seed": "i64"}
    types |= dict.fromkeys(constants, "constexpr")
    source = triton.compiler.ASTSource(
        kernel,
        signature={argument: types.get(argument, f"*{NAME[kind]}") for argument in kernel.arg_names},
        constexprs={(i,): constants[a] for i, a in enumerate(kernel.arg_names) if a in constants},
    )
    options = {"num_warps": warps, "enable_fp_fusion": fusion}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def check(name: str, kind: torch.dtype, width: int, capability: int, block: tuple[int, int, int], p: float) -> None:
    program = compiled(name, kind, width, capability, block, p)
    code = program.asm["ptx"]
    assert len(program.asm["cubin"]) > 0
    assert program.metadata.shared <= SHARED[capability]
    assert not re.search(r"\b(atom|red)\.", code), "atomics would make the gradient depend on the order of arrival"
    assert "tf32" not in code
    if kind == torch.bfloat16:
        assert re.search(r"(wgmma\.mma_async|mma)\.sync.*f32\.bf16\.bf16", code), "bfloat16 misses the tensor cores"
    if kind != torch.float64:
        assert ".f64" not in code, "a constant or an argument widens the arithmetic"


@pytest.fixture
def _fresh_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_for_a_gpu(name: str) -> None:
    check(name, torch.bfloat16, 40, 90, blocks_of(name, torch.bfloat16, 40)[0], 0.5)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("_fresh_compiler")
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
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_in_double_precision(name: str) -> None:
    check(name, torch.float64, 20, 90, blocks_of(name, torch.float64, 20)[0], 0.0)


def test_tensors_must_lie_on_a_gpu() -> None:
    q = torch.ones(2, 1, 3)
    with pytest.raises(ValueError, match="backend 'gpu' of sparse_flow needs tensors on a GPU, received tensors on"):
        sparse_flow(q, q, q, q, q, Ragged.from_sizes([2]), lam=torch.tensor(1.0), backend="gpu")


def test_missing_triton_is_named() -> None:
    code = "import sys; sys.modules['triton'] = None; import graphbench.ops.sparse_flow.gpu"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "ImportError: backend 'gpu' of sparse_flow needs Triton: pip install triton" in done.stderr


def test_tiles_cover_every_row_once() -> None:
    sizes = [5, 0, 1, 70, 33, 64]
    ragged = Ragged.from_sizes(sizes)
    seen = []
    for smaller, largest, block in ((0, 5, 16), (5, 33, 16), (33, 70, 32)):
        for tiles in gpu._tiles(ragged, smaller, largest, block):
            for graph, first in tiles.tolist():
                assert smaller < sizes[graph] <= largest
                seen += [(graph, row) for row in range(first, min(first + block, sizes[graph]))]
    assert sorted(seen) == [(graph, row) for graph, size in enumerate(sizes) for row in range(size)]
    assert gpu._tiles(ragged, 70, 700, 32) == []
