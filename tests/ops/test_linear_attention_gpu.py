"""Triton kernels of linear attention: what they compute (interpreted without a GPU) and what they compile to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from graphbench.ops.linear_attention import linear_attention
from graphbench.structures import Ragged

triton = pytest.importorskip("triton", reason="the GPU kernels need Triton (pip install 'graphbench-gt[test]')")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("TRITON_INTERPRET replaces the compiler that is tested here", allow_module_level=True)

from triton.backends.compiler import GPUTarget  # noqa: E402

from graphbench.ops.linear_attention import gpu, gpu_kernels  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
# Every kernel with the flags that select its code.
KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "cross": ("cross", {"CENTRED": True}),
    "cross-backward": ("cross", {"CENTRED": False}),
    "attend": ("attend", {"FORWARD": True, "BASE": "self"}),
    "attend-backward": ("attend", {"FORWARD": False, "BASE": "none"}),
    "row_gradient-q": ("row_gradient", {"CENTRED": False}),
    "row_gradient-k": ("row_gradient", {"CENTRED": True}),
    "value_gradient": ("value_gradient", {"BASE": "uniform"}),
}
# Shared memory that one block may hold, by compute capability (CUDA programming guide, technical specifications).
SHARED = {80: 163 * 1024, 90: 227 * 1024}
NAME = {torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64"}


@pytest.mark.slow
def test_kernels_against_the_reference() -> None:
    """Runs interpreted_linear_attention.py; a process of its own: Triton interprets everything or nothing."""
    interpret = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    cases = Path(__file__).with_name("interpreted_linear_attention.py")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", str(cases)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | interpret, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def compiled(name: str, kind: torch.dtype, width: int, capability: int) -> Any:
    """The kernel as the launch in gpu.py would compile it for an NVIDIA device that need not be present."""
    kernel_name, flags = KERNELS[name]
    kernel = getattr(gpu_kernels, kernel_name)
    meta = torch.empty(1, 2, width, dtype=kind, device="meta")
    make = gpu._cross_constants if kernel_name == "cross" else gpu._constants
    constants = make(meta, meta) | {"B_HEADS": 2} | flags
    options = {option: constants.pop(option) for option in ("num_warps", "num_stages", "enable_fp_fusion")}
    wide, stored = f"*{NAME[gpu._wide(meta)]}", f"*{NAME[kind]}"
    types = dict.fromkeys(("q", "k", "v", "x", "a", "b", "grad"), stored) | {"ptr": "*i64", "tiles": "*i64"}
    types["out"] = wide if kernel_name == "cross" or flags.get("FORWARD") is False else stored
    types |= dict.fromkeys(constants, "constexpr")
    source = triton.compiler.ASTSource(
        kernel,
        signature={argument: types.get(argument, wide) for argument in kernel.arg_names},
        constexprs={(i,): constants[a] for i, a in enumerate(kernel.arg_names) if a in constants},
    )
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def check(name: str, kind: torch.dtype, width: int, capability: int) -> None:
    program = compiled(name, kind, width, capability)
    code = program.asm["ptx"]
    assert len(program.asm["cubin"]) > 0
    assert program.metadata.shared <= SHARED[capability]
    assert not re.search(r"\b(atom|red)\.", code), "atomics would make the gradient depend on the order of arrival"
    assert "tf32" not in code
    if kind != torch.float64:
        assert ".f64" not in code, "a constant or an argument widens the arithmetic"


@pytest.fixture
def _fresh_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("name", KERNELS)
def test_compiles_for_a_gpu(name: str) -> None:
    check(name, torch.bfloat16, 40, 90)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.usefixtures("_fresh_compiler")
@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("kind", "width"), [(torch.float32, 100), (torch.float32, 235), (torch.float64, 235)], ids=str)
def test_compiles_for_every_block_size(name: str, kind: torch.dtype, width: int, capability: int) -> None:
    check(name, kind, width, capability)


def test_tensors_must_lie_on_a_gpu() -> None:
    q = torch.ones(2, 1, 3)
    with pytest.raises(ValueError, match="backend 'gpu' of linear_attention needs tensors on a GPU, received tensors"):
        linear_attention(q, q, q, Ragged.from_sizes([2]), backend="gpu")


def test_missing_triton_is_named() -> None:
    code = "import sys; sys.modules['triton'] = None; import graphbench.ops.linear_attention.gpu"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "ImportError: backend 'gpu' of linear_attention needs Triton: pip install triton" in done.stderr


def test_tiles_cover_every_row_once_in_the_order_of_the_graphs() -> None:
    sizes = [5, 0, 1, 70, 33, 64]
    tiles, counts = gpu._tiles(Ragged.from_sizes(sizes), 32)
    assert counts.sizes == (1, 0, 1, 3, 2, 2)
    assert tiles[:, 0].tolist() == sorted(tiles[:, 0].tolist())
    seen = [(graph, row) for graph, first in tiles.tolist() for row in range(first, min(first + 32, sizes[graph]))]
    assert seen == [(graph, row) for graph, size in enumerate(sizes) for row in range(size)]
