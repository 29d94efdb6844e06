"""Triton kernels without a GPU: run by its interpreter in a process of their own, or compiled for absent devices."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from tests.paths import ROOT

triton = pytest.importorskip("triton", reason="the GPU kernels need Triton (pip install 'graphbench-gt[test]')")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("TRITON_INTERPRET replaces the compiler that is tested here", allow_module_level=True)

from triton.runtime import JITFunction, driver  # noqa: E402

from graphbench.ops.gpu_tiles import TRITON  # noqa: E402
from tests.ops.absent_gpu import AbsentGPU  # noqa: E402

# Shared memory that one block may hold, by compute capability (CUDA programming guide, technical specifications).
SHARED = {80: 163 * 1024, 90: 227 * 1024}
SHARED_OF_GEFORCE = {86: 99 * 1024, 120: 99 * 1024}
"""Consumer GPUs, which have less than the data centre GPUs of their generation."""

# What compilers up to that of PyTorch 2.11 make of the kernels is right, but they may keep four registers in memory.
_SPILLED_BY_OLD_COMPILERS = 16 if TRITON < (3, 7) else 0

UNSPILLED = [
    (torch.float32, 64),
    *(pytest.param(torch.float32, width, marks=pytest.mark.exhaustive) for width in (24, 128)),
    pytest.param(torch.bfloat16, 128, marks=pytest.mark.exhaustive),
    *(pytest.param(torch.bfloat16, width, marks=pytest.mark.exhaustive) for width in (16, 32, 64)),
]
"""Type and head width at which attentions with biases of pairs are looked at: they spill no register."""


def run_interpreted(*cases: str, marked: str = "not exhaustive") -> None:
    """Runs files of tests beside this one; a process of its own, because Triton interprets everything or nothing."""
    settings = {"GRAPHBENCH_TEST_KERNELS": "1"} | ({} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"})
    paths = [str(Path(__file__).parent / name) for name in cases]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-m", marked, *paths]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def compiled_launches(capability: int, operator: ModuleType, call: Callable[[], Any]) -> list[tuple[Any, Any]]:
    """(function, program) of every kernel that a call launches, compiled for a device and not run, in their order.

    Args:
        capability: of the device, which need not be present.
        operator: its module ``gpu``, which is told that tensors of the CPU lie on a GPU.
        call: one call of the operator, whose results are differentiated.
    """
    programs: list[tuple[Any, Any]] = []
    run = JITFunction.run

    def compiled(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        kernel.device_caches.clear()  # what it has compiled for this device before, which may have been another GPU
        program = run(kernel, *args, grid=grid, warmup=True, **kwargs)
        programs.append((kernel.fn, program))
        return program

    with (
        mock.patch.dict(vars(driver)),  # which puts the driver back
        mock.patch.object(JITFunction, "run", compiled),
        mock.patch.object(operator, "has_kernels", return_value=True),
    ):
        driver.set_active(AbsentGPU(capability))
        made = call()
        results = [each for each in ((made,) if isinstance(made, Tensor) else made or ()) if each.requires_grad]
        if results:
            torch.autograd.backward(results, [torch.ones_like(each) for each in results])
    return programs


def check_program(
    program: Any, kind: torch.dtype, capability: int, *, tensor_cores: bool = False, parts: bool = True
) -> str:
    """What holds for every kernel: it fits, is deterministic and keeps its precision. Returns its PTX.

    ``tensor_cores``: fp32 is multiplied in ``parts`` of tf32, three products for one, or where torch's products may be
    of tf32 as it is; half precision has no parts.
    """
    code: str = program.asm["ptx"]
    assert len(program.asm["cubin"]) > 0
    assert program.metadata.shared <= SHARED[capability]
    assert not re.search(r"\b(atom|red)\.", code), "atomics would make the gradient depend on the order of arrival"
    if tensor_cores:
        products = re.findall(
            r"(%\w+) = tt\.dot (%\w+), (%\w+), (%\w+)(?:, inputPrecision = (\w+))?.* : tensor<[0-9x]+x(\w+)>",
            program.asm["ttir"],
        )
        assert products
        in_parts = [product for product in products if product[5] == "f32"]
        assert {product[4] for product in in_parts} <= {"tf32"}
        if not parts:
            operands = [{product[1], product[2]} for product in in_parts]
            assert not any(a & b for a, b in itertools.pairwise(operands))
            in_parts = []
        assert len(in_parts) % 3 == 0
        for first, second, third in zip(in_parts[::3], in_parts[1::3], in_parts[2::3], strict=True):
            # Upper parts a and b, which are multiplied last, have met each other's lower parts.
            _, upper_a, upper_b, *_ = third
            assert (first[1], second[2]) == (upper_a, upper_b)
            assert len({upper_a, upper_b, first[2], second[1]}) == 4
            assert (second[3], third[3]) == (first[0], second[0])
    else:
        assert "tf32" not in code
    if kind != torch.float64:
        assert ".f64" not in code, "a constant or an argument widens the arithmetic"
    return code


def check_machine_code(program: Any, *, tensor_cores: bool = False, allowed: int = 0) -> None:
    """No register is spilled to memory, and products run on tensor cores where that is promised.

    ``allowed``: bytes per thread that a function of the CUDA library takes.
    """
    tools = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(program.asm["cubin"])
        file.flush()
        usage = _tool(tools / "cuobjdump", "--dump-resource-usage", file.name)
        code = _tool(tools / "nvdisasm", "-c", file.name)
    stack = re.search(r"STACK:(\d+)", usage)
    assert stack, usage
    assert int(stack[1]) <= allowed + _SPILLED_BY_OLD_COMPILERS, (
        f"{stack[1]} bytes per thread of stack, for spilled registers"
    )
    if tensor_cores:
        assert re.search(r"\b(HMMA|HGMMA)\b", code), "no product runs on tensor cores"


def _tool(program: Path, *arguments: str) -> str:
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=True).stdout
