"""Triton kernels of attentions compile for absent GPUs as they are launched; what they compute: test_kernels_gpu.py."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    SHARED_OF_GEFORCE,
    UNSPILLED,
    check_machine_code,
    check_program,
    compiled_launches,
)

from graphbench.ops.decay_attention import gpu as decay_gpu  # isort: skip
from graphbench.ops.decay_attention.mask import Decay  # isort: skip
from graphbench.ops import gpu_launch
from graphbench.ops.gpu_blocks import tables_for

from graphbench.ops.focal_attention import Relation, gpu as focal_gpu  # isort: skip
from graphbench.ops.focal_attention.scope import Scope  # isort: skip
from graphbench.ops.linear_attention import gpu as linear_gpu  # isort: skip
from graphbench.ops.sparse_flow import gpu as flow_gpu  # isort: skip
from graphbench.structures import PairBlocks, Ragged  # isort: skip

pytestmark = pytest.mark.usefixtures("fresh_compiler")
# Tiles have no more rows than graphs on average.
RAGGED = Ragged.from_sizes([2, 300])
PAIRS = RAGGED.num_pairs
MASKS = (Decay(0.6), Decay(0.6, kind="linear", end=6.0, mask_on="probs", unreachable="mask"))
SLOPED = Decay(0.6, slope=0.1)
KEPT = {
    ("decay", "decay_attention_backward", torch.float32, 64, 90): 8,
    ("focal", "focal_attention_backward", torch.float32, 64, 90): 24,
    ("focal", "focal_attention_backward", torch.float32, 24, 90): 56,
    ("flow", "weighted_rows", torch.float32, 80, 80): 8,
    **{("focal", "focal_attention_forward", torch.bfloat16, 64, capability): 8 for capability in SHARED},
}
"""Bytes per thread that some kernels keep in memory, as more registers would leave room for fewer programs.

That of width 24 has a bias and reaches besides; without them, which is softmax attention, it keeps none, and smaller
tiles took 1.1 times as long on an H100 (docs/LOG.md, 2026-11-26).
"""
exhaustive = pytest.mark.exhaustive


def rows(kind: torch.dtype, *shape: int) -> Tensor:
    return torch.zeros(shape, dtype=kind, requires_grad=True)


def qkv(ragged: Ragged, kind: torch.dtype, width: int, number: int = 3) -> list[Tensor]:
    return [rows(kind, ragged.num_rows, 2, width) for _ in range(number)]


def decay(kind: torch.dtype, width: int, mask: Decay) -> tuple[ModuleType, Callable[[], Tensor]]:
    index, start = torch.zeros(PAIRS, dtype=torch.uint8), rows(torch.promote_types(kind, torch.float32), 2)
    inputs = (*qkv(RAGGED, kind, width), RAGGED, index, start, mask, 0.5)
    return decay_gpu, functools.partial(decay_gpu.decay_attention, *inputs)


def focal(kind: torch.dtype, width: int, kinds: int, reach: Any = (None, 1)) -> tuple[ModuleType, Callable[[], Tensor]]:
    scope = Scope(RAGGED, PairBlocks(torch.zeros(PAIRS, dtype=torch.uint8), RAGGED.sizes), reach, False)
    index, tables = torch.zeros(PAIRS, dtype=torch.int16), [rows(kind, kinds, 2, width) for _ in range(3)]
    relations = (Relation(index, *tables),) if kinds else ()
    inputs = (*qkv(RAGGED, kind, width), scope, relations, rows(kind, PAIRS, 2), 0.5)
    return focal_gpu, functools.partial(focal_gpu.focal_attention, *inputs)


def linear(kind: torch.dtype, width: int, base: str) -> tuple[ModuleType, Callable[[], Tensor]]:
    inputs = (*qkv(RAGGED, kind, width), RAGGED, "frobenius", base)
    return linear_gpu, functools.partial(linear_gpu.linear_attention, *inputs)


def flow(kind: torch.dtype, width: int, sizes: list[int], p: float) -> tuple[ModuleType, Callable[[], Tensor]]:
    ragged = Ragged.from_sizes(sizes)
    inputs = (*qkv(ragged, kind, width, 5), ragged, rows(torch.float32, len(sizes)), 0.1, p)
    return flow_gpu, functools.partial(flow_gpu.sparse_flow, *inputs)


def check_pairs(call: tuple[ModuleType, Callable[[], Tensor]], kind: torch.dtype, capability: int = 90) -> None:
    """Forward, backward, and the sum of what learned start points have from every tile."""
    programs = compiled_launches(capability, *call)
    names = [kernel.__name__.rpartition("attention_")[2] for kernel, _ in programs]
    assert names in (["forward", "backward"], ["forward", "backward", "add_shares"])
    for name, (_, program) in zip(names, programs, strict=True):
        check_program(program, kind, capability, tensor_cores=name != "add_shares")


@pytest.mark.slow
def test_decay_attention() -> None:
    check_pairs(decay(torch.float32, 24, SLOPED), torch.float32)


@pytest.mark.slow
def test_focal_attention() -> None:
    check_pairs(focal(torch.float32, 24, 40, (None, None)), torch.float32)


@pytest.mark.slow
@exhaustive
@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize("width", [16, 128])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_pair_attentions_of_every_block_size(kind: torch.dtype, width: int, capability: int) -> None:
    for call in (*(decay(kind, width, mask) for mask in MASKS), *(focal(kind, width, kinds) for kinds in (0, 128))):
        check_pairs(call, kind, capability)


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["decay", "focal"])
@pytest.mark.parametrize(("kind", "width"), UNSPILLED, ids=str)
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=exhaustive)])
def test_pair_attentions_spill_no_register(
    operator: str, kind: torch.dtype, width: int, capability: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the tiles that are shipped for that architecture; without a GPU those of the newest would be taken."""
    shipped = tables_for((capability // 10, capability % 10))
    monkeypatch.setattr(gpu_launch, "blocks_on", lambda device, kernels: shipped[kernels].blocks)
    call = decay(kind, width, SLOPED) if operator == "decay" else focal(kind, width, 0)
    for kernel, program in compiled_launches(capability, *call):
        kept = KEPT.get((operator, kernel.__name__, kind, width, capability), 0)
        check_machine_code(program, tensor_cores=kernel.__name__ != "add_shares", allowed=kept)


@pytest.mark.slow
@pytest.mark.usefixtures("tf32_allowed")
@pytest.mark.parametrize("operator", [pytest.param("decay", marks=exhaustive), "focal", "linear_attention"])
@pytest.mark.parametrize("width", [24, pytest.param(64, marks=exhaustive), pytest.param(128, marks=exhaustive)])
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=exhaustive)])
def test_one_product_of_tf32_needs_no_more_registers(
    operator: str, width: int, capability: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tables_for((capability // 10, capability % 10))
    for module in (gpu_launch, linear_gpu):
        monkeypatch.setattr(module, "blocks_on", lambda device, kernels: shipped[kernels].blocks)
    if operator == "linear_attention":
        call = linear(torch.float32, width, "self")
    else:
        call = decay(torch.float32, width, SLOPED) if operator == "decay" else focal(torch.float32, width, 0)
    for kernel, program in compiled_launches(capability, *call):
        multiplies = kernel.__name__ not in ("add_shares", "totals")
        check_program(program, torch.float32, capability, tensor_cores=multiplies, parts=False)
        if multiplies:
            kept = KEPT.get((operator, kernel.__name__, torch.float32, width, capability), 0)
            check_machine_code(program, tensor_cores=True, allowed=kept)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("capability", "kind", "width"),
    [(120, torch.float32, 64), pytest.param(86, torch.float64, 128, marks=exhaustive)],
    ids=str,
)
def test_kernels_fit_where_shared_memory_is_small(
    capability: int, kind: torch.dtype, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tables_for(divmod(capability, 10))
    monkeypatch.setattr(gpu_launch, "blocks_on", lambda device, kernels: shipped[kernels].blocks)
    calls = [decay(kind, width, SLOPED), focal(kind, width, 0)]
    if kind == torch.float32:
        calls.append(flow(kind, width, [500, 600], 0.5))  # graphs whose rows are held as a whole, and larger ones
    for call in calls:
        for kernel, program in compiled_launches(capability, *call):
            assert program.metadata.shared <= SHARED_OF_GEFORCE[capability], kernel.__name__


def check_linear(kind: torch.dtype, width: int, base: str, capability: int = 90) -> None:
    programs = compiled_launches(capability, *linear(kind, width, base))
    launched = ["totals", "cross", "attend", "attend", "cross", "value_gradient", "row_gradient", "row_gradient"]
    assert [kernel.__name__ for kernel, _ in programs] == launched
    for kernel, program in programs:
        multiplies = kernel.__name__ != "totals" and kind != torch.float64
        check_program(program, kind, capability, tensor_cores=multiplies)
        if multiplies:
            check_machine_code(program, tensor_cores=True)


@pytest.mark.slow
def test_linear_attention() -> None:
    check_linear(torch.bfloat16, 40, "none")


@pytest.mark.slow
@exhaustive
@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize("base", ["self", "uniform", "none"])
@pytest.mark.parametrize(("kind", "width"), [(torch.float32, 100), (torch.float32, 235), (torch.float64, 235)], ids=str)
def test_linear_attention_of_every_block_size(kind: torch.dtype, width: int, base: str, capability: int) -> None:
    check_linear(kind, width, base, capability)


def check_flow(kind: torch.dtype, width: int, largest: int, p: float, capability: int = 90) -> None:
    """Graphs up to some size are solved in registers, the last one is not."""
    programs = compiled_launches(capability, *flow(kind, width, [largest, 600], p))
    assert [kernel.__name__ for kernel, _ in programs] == ["whole_rows", "tiled_rows", "query_side", "key_side"]
    for kernel, program in programs:
        in_parts = kind == torch.float32 and kernel.__name__ != "whole_rows"
        code = check_program(program, kind, capability, tensor_cores=in_parts)
        if in_parts and capability == 90:  # for which the tables are made
            check_machine_code(program, tensor_cores=True, allowed=32 if p else 0)
        if kind == torch.bfloat16:
            assert re.search(r"(wgmma\.mma_async|mma)\.sync.*f32\.bf16\.bf16", code), "bfloat16 misses tensor cores"


@pytest.mark.slow
def test_sparse_flow() -> None:
    check_flow(torch.bfloat16, 40, 20, 0.5)


def check_wide_flow(kind: torch.dtype, width: int, p: float, capability: int = 90) -> None:
    """Small graphs with wide heads: products on the tensor cores, and rows."""
    programs = compiled_launches(capability, *flow(kind, width, [100, 20], p))
    backward = [*["pair_products"] * 2, "gradient_rows", *["weighted_rows"] * 3]
    assert [kernel.__name__ for kernel, _ in programs] == ["pair_products", "solve_rows", "weighted_rows", *backward]
    for kernel, program in programs:
        multiplies = kernel.__name__ in ("pair_products", "weighted_rows")
        check_program(program, kind, capability, tensor_cores=multiplies)
        kept = KEPT.get(("flow", kernel.__name__, kind, width, capability), 0)
        check_machine_code(program, tensor_cores=multiplies, allowed=kept)


@pytest.mark.slow
def test_sparse_flow_of_wide_heads() -> None:
    check_wide_flow(torch.float32, 235, 0.5)


@pytest.mark.slow
@exhaustive
@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize(("kind", "width", "p"), [(torch.bfloat16, 235, 0.5), (torch.float32, 80, 0.0)], ids=str)
def test_sparse_flow_of_every_wide_head(kind: torch.dtype, width: int, p: float, capability: int) -> None:
    check_wide_flow(kind, width, p, capability)


@pytest.mark.slow
@exhaustive
@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize(("kind", "width", "p"), [(torch.float32, 68, 0.5), (torch.bfloat16, 235, 0.0)], ids=str)
def test_sparse_flow_of_every_block_size(kind: torch.dtype, width: int, p: float, capability: int) -> None:
    check_flow(kind, width, 500, p, capability)


@pytest.mark.slow
@exhaustive
def test_sparse_flow_in_double_precision() -> None:
    check_flow(torch.float64, 20, 20, 0.0)


def test_tiles_of_linear_attention_cover_every_row_once_in_the_order_of_the_graphs() -> None:
    sizes = [5, 0, 1, 70, 33, 64]
    tiles = linear_gpu.row_tiles(Ragged.from_sizes(sizes), 32)
    assert linear_gpu._tile_counts(Ragged.from_sizes(sizes), 32).sizes == (1, 0, 1, 3, 2, 2)
    assert tiles[:, 0].tolist() == sorted(tiles[:, 0].tolist())
    seen = [(graph, row) for graph, first in tiles.tolist() for row in range(first, min(first + 32, sizes[graph]))]
    assert seen == [(graph, row) for graph, size in enumerate(sizes) for row in range(size)]


def test_tiles_of_sparse_flow_cover_every_row_once() -> None:
    sizes = [5, 0, 1, 70, 33, 64]
    ragged = Ragged.from_sizes(sizes)
    seen = []
    for smaller, largest, block in ((0, 5, 16), (5, 33, 16), (33, 70, 32)):
        for graph, first in flow_gpu.tiles_of(ragged, smaller, largest, block).tolist():
            assert smaller < sizes[graph] <= largest
            seen += [(graph, row) for row in range(first, min(first + block, sizes[graph]))]
    assert sorted(seen) == [(graph, row) for graph, size in enumerate(sizes) for row in range(size)]
    assert len(flow_gpu.tiles_of(ragged, 70, 700, 32)) == 0
