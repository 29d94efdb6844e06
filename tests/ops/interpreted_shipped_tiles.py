"""Error in float32 of kernels with the tiles that are shipped, and with larger ones that would be faster on a GPU.

Other tests have small tiles, so that small inputs have several. A compiler takes other instructions for large ones: on
Hopper those of a group of warps, from 64 rows on.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops import gpu_launch
from graphbench.ops.decay_attention import decay_attention
from graphbench.ops.embedding_sum import embedding_sum
from graphbench.ops.gpu_blocks import Block
from graphbench.ops.linear import gpu as linear_gpu
from graphbench.ops.linear import linear
from graphbench.ops.linear_attention import linear_attention
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.sparse_flow import sparse_flow
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import DEVICE, INTERPRETED, assert_within_budget, normal

# The interpreter is numpy, which warns about lanes that are computed and thrown away.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

HEADS = 1  # the interpreter takes its time for each; that heads are kept apart others show
SIZES = [70, 9] if INTERPRETED else [150, 20]  # a second tile of 64 rows; of 128, where a compiler is at work


def inputs_of(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [normal(*shape).detach().to(DEVICE).requires_grad_() for shape in shapes]


def assert_precise(using: Callable[[str], Callable[..., Tensor]], inputs: list[Tensor]) -> None:
    assert_within_budget(using("gpu"), using("reference"), inputs)


@pytest.mark.parametrize(
    "spans", [(linear_gpu.SPAN_IN, linear_gpu.SPAN_OUT), (64, 64), (128, 32)], ids=lambda x: "x".join(map(str, x))
)
def test_linear_maps(spans: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_gpu, "SPAN_IN", spans[0])
    monkeypatch.setattr(linear_gpu, "SPAN_OUT", spans[1])
    inputs = inputs_of((300, 96), (64, 96), (64,))
    assert_precise(lambda backend: lambda *x: linear(*x, act="relu", backend=backend), inputs)


@pytest.mark.parametrize("block", [None, (32, 16, 4), (64, 16, 4), (64, 64, 4), (128, 32, 8)], ids=str)
@pytest.mark.parametrize("operator", ["softmax", "decay"])
def test_attention(operator: str, block: Block | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if block is not None:
        every = {operand: dict.fromkeys((16, 32), block) for operand in (2, 4, 8)}
        monkeypatch.setattr(gpu_launch, "blocks_on", lambda device, kernels: every)
    ragged = Ragged.from_sizes(SIZES, DEVICE)
    inputs = inputs_of(*[(sum(SIZES), HEADS, 24)] * 3)
    if operator == "softmax":
        assert_precise(lambda backend: lambda *x: softmax_attention(*x, ragged, backend=backend), inputs)
        return
    index = torch.randint(9, (ragged.num_pairs,), dtype=torch.uint8, device=DEVICE)
    start = torch.tensor([0.5], device=DEVICE)
    assert_precise(
        lambda backend: lambda *x: decay_attention(*x, ragged, index, start.to(x[0].dtype), decay=0.6, backend=backend),
        inputs,
    )


def test_embedding_sum() -> None:
    sizes = [100, 40, 5]
    index = torch.stack([torch.randint(size, (300,)) for size in sizes], dim=1).to(DEVICE)
    assert_precise(
        lambda backend: lambda *tables: embedding_sum(index, tables, backend=backend),
        inputs_of(*((size, 96) for size in sizes)),
    )


def test_linear_attention() -> None:
    ragged = Ragged.from_sizes(SIZES, DEVICE)
    inputs = inputs_of(*[(sum(SIZES), HEADS, 64)] * 3)
    assert_precise(lambda backend: lambda *x: linear_attention(*x, ragged, backend=backend), inputs)


def test_sparse_flow() -> None:
    sizes = [40, 9] if INTERPRETED else [70, 20]
    ragged = Ragged.from_sizes(sizes, DEVICE)
    lam = torch.tensor(1 / 70, dtype=torch.float64, device=DEVICE)

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda *x: sparse_flow(*x, ragged, lam=lam.to(x[0].dtype), backend=backend)

    assert_precise(using, inputs_of(*[(sum(sizes), HEADS, 68)] * 5))
