"""Triton kernels of batch normalisation with its surroundings: what they compute and what they compile to."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_compiles,
    check_machine_code,
    check_program,
    fresh_compiler,
    launches_compiled,
)

from graphbench.ops.gpu_tiles import TRITON  # isort: skip
from graphbench.ops.residual_norm import NormInput, Normalization, Surroundings, gpu, gpu_kernels  # isort: skip
from graphbench.structures.capacity import RealRows  # isort: skip

__all__ = ["fresh_compiler"]  # a fixture

COMMON: dict[str, Any] = {"ADDED": True, "P": 0.1, "MASKED": True}
FLAGS: dict[str, dict[str, Any]] = {
    "share_moments": COMMON,
    "forward": COMMON
    | {"TRAINING": True, "EPS": 1e-5, "MOMENTUM": 0.1, "RESIDUAL": True, "RELU": True, "Q": 0.1, "STAGED": True},
    "share_gradient_sums": {"ADDED": True, "P": 0.1, "RELU": True, "Q": 0.1},
    "backward": COMMON | {"RELU": True, "Q": 0.1, "STAGED": True, "APART": True},
}
QUICK = ("backward", 700, 90)
# Rows of one share, and of several.
CASES = [
    pytest.param(name, rows, capability, marks=() if (name, rows, capability) == QUICK else pytest.mark.slow)
    for name in FLAGS
    for rows in (700, 20_000)
    if rows > gpu.FEW or "STAGED" in FLAGS[name]
    for capability in SHARED
]


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize(("name", "rows", "capability"), CASES)
def test_compiles_for_a_gpu(name: str, rows: int, capability: int) -> None:
    kind = torch.float32
    constants = gpu.constants(96, kind, rows) | FLAGS[name]
    if "STAGED" in constants:
        constants["STAGED"] = rows > gpu.FEW
    kernel = getattr(gpu_kernels, name)
    types = {"real": "*i1", "seed": "*i64", "num_rows": "i32", "share": "i32"}
    types |= {argument: "i32" for argument in kernel.arg_names if argument.startswith("s_")}
    check_compiles(kernel, constants, types, capability)


@pytest.mark.skipif(TRITON < gpu.OLDEST, reason="an older Triton is given one input after the other")
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rows", [700, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("summed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_lists_compile_as_they_are_launched(rows: int, capability: int, summed: bool) -> None:
    """Local layer and attention of a block of GPS, nodes and edges of GatedGCN."""
    rest = Surroundings(_rows(rows), 0.1) if summed else Surroundings(None, 0.0, "relu", 0.1, _rows(2 * rows))
    own = Surroundings() if summed else Surroundings(_rows(rows), 0.0, "relu", 0.1, _rows(rows))
    inputs = [_input(rows, own), _input(rows if summed else 2 * rows, rest)]
    with launches_compiled(capability, gpu) as programs:
        torch.cat(gpu.residual_norms(inputs, summed)).sum().backward()
    staged = {"share_moments", "share_gradient_sums"} if rows > gpu.FEW else set()
    assert {f"gpu_lists.{name}" for name in {"forward", "backward"} | staged} <= set(programs)
    for program in programs.values():
        check_program(program, torch.float32, capability)
        check_machine_code(program)


def _rows(rows: int) -> torch.Tensor:
    return torch.empty(rows, 96, requires_grad=True)


def _input(rows: int, around: Surroundings) -> NormInput:
    norm = Normalization(*(torch.empty(96, requires_grad=i < 2) for i in range(4)), training=True)
    return NormInput(_rows(rows), norm, around, RealRows(torch.ones(rows, dtype=torch.bool), torch.tensor(rows)))
