"""Triton kernels compile for absent GPUs as their operators launch them; what they compute: test_kernels_gpu.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.ops.triton_compiler import (  # first: it skips where there is no Triton
    SHARED,
    check_machine_code,
    check_program,
    compiled_launches,
)

from graphbench.ops import gpu_launch, gpu_shares  # isort: skip
from graphbench.ops.adam_update import AdamRule, gpu as adam_update  # isort: skip
from graphbench.ops.batch_rows import RowCapacity, gpu as batch_rows  # isort: skip
from graphbench.ops.blend import gpu as blend  # isort: skip
from graphbench.ops.circular_conv import gpu as circular_conv  # isort: skip
from graphbench.ops.eigen_pairs import gpu as eigen_pairs  # isort: skip
from graphbench.ops.embedding_sum import gpu as embedding_sum  # isort: skip
from graphbench.ops.entrywise_loss import KINDS, gpu as entrywise_loss  # isort: skip
from graphbench.ops.fan_out import gpu as fan_out  # isort: skip
from graphbench.ops.gpu_tiles import TRITON  # isort: skip
from graphbench.ops.graph_layer_norm import gpu as graph_layer_norm  # isort: skip
from graphbench.ops.layer_norm import gpu as layer_norm  # isort: skip
from graphbench.ops.linear import gpu as linear  # isort: skip
from graphbench.ops.propagate import gpu as propagate  # isort: skip
from graphbench.ops.put_rows import gpu as put_rows  # isort: skip
from graphbench.ops.segment import gpu as segment  # isort: skip
from graphbench.ops.sine_network import gpu as sine_network  # isort: skip
from graphbench.ops.unit_rows import gpu as unit_rows  # isort: skip
from graphbench.structures import Ragged  # isort: skip
from graphbench.structures.adjacency import LoopedAdjacency, adjacency  # isort: skip
from graphbench.structures.capacity import Capacity, CapacityRagged  # isort: skip
from graphbench.structures.late_sums import Shares, late_sums  # isort: skip
from tests.ops.batch_rows_cases import data  # isort: skip
from tests.ops.sine_networks import parameters  # isort: skip

# Where sine and cosine of the CUDA library each put the digits of an argument above 1e5 (Payne and Hanek).
ARGUMENT_REDUCTION = 2 * 28
RAGGED = Ragged.from_sizes([70, 1, 33])
ADJACENCY = adjacency(torch.tensor([[0, 1, 2, 3], [1, 2, 0, 0]]), 5)


def x(*shape: int) -> Tensor:
    """Fp32 of which gradients are asked for."""
    return torch.zeros(shape, requires_grad=True)


@dataclass(frozen=True)
class Case:
    """An operator, and what it launches.

    Attributes:
        operator: its module ``gpu``.
        call: one call of it, whose results are differentiated.
        kernels: names, those that multiply on tensor cores with a star.
        allowed: bytes per thread of stack, for functions of the CUDA library or two spilled registers.
    """

    operator: ModuleType
    call: Callable[[], Any]
    kernels: str
    allowed: int = 0


def _adam_update() -> None:
    """More parameters than a launch takes: a full one and the smallest; then as recorded steps and clipping have it."""
    of_parameters = [[torch.zeros(shape) for shape in ((5,), *[(70, 20)] * adam_update.MOST)] for _ in range(4)]
    for rule, scale in ((AdamRule(0.1), None), (AdamRule(torch.tensor(0.1), decoupled=True), torch.ones(()))):
        adam_update.adam_update(*of_parameters, [torch.zeros(()) for _ in of_parameters[0]], rule, scale)


def _batch_rows() -> None:
    ptr, fields = data()
    batch_rows.batch_rows(torch.tensor([1, 0, -1]), ptr, fields, RowCapacity((9, 12, 9), 3, 3))


def _tiles() -> None:
    ragged = CapacityRagged(RAGGED.ptr, Capacity(2, 1, RAGGED.num_rows, 0, 70))
    gpu_launch.tiles_on_device(ragged, 32)


def _maps() -> None:
    """Two, whose sums over shares one kernel adds up at the end; what it is given is not computed here."""
    h, _rows = linear.linear_and_rows(x(3000, 96), x(96, 96), x(96), True)
    loss = linear.linear_and_rows(h, x(4, 96), None, False)[0].sum()
    with late_sums(loss):
        loss.backward()


def _sine_network() -> Tensor:
    *layers, out, frequency = (each.detach().float().requires_grad_() for each in parameters(5, 64, 3, 128))
    return sine_network.sine_network(torch.zeros(40, 5), list(zip(layers[::2], layers[1::2])), out, frequency)


CASES = {
    "adam_update": Case(adam_update, _adam_update, "adam_blocks"),
    "batch_rows": Case(batch_rows, _batch_rows, "rows places"),
    "blend": Case(blend, lambda: blend.blend(x(70, 9), x(70, 9), x()), "blend_forward blend_backward"),
    "circular_conv": Case(
        circular_conv,
        lambda: circular_conv.circular_conv(x(104, 81), x(104, 81), x(104, 81), RAGGED),
        "circular_conv_forward rows_gradient taps_gradient",
        8,
    ),
    "eigen_pairs": Case(
        eigen_pairs, lambda: eigen_pairs.eigen_pairs(x(104, 10), x(104, 10), RAGGED, True), "signed_pairs"
    ),
    "embedding_sum": Case(
        embedding_sum,
        lambda: embedding_sum.embedding_sum(torch.zeros(70, 9, dtype=torch.int64), [x(5, 96) for _ in range(9)]),
        "embedding_sum_forward embedding_sum_backward*",
    ),
    **{
        f"entrywise_loss-{kind}": Case(
            entrywise_loss,
            lambda kind=kind: entrywise_loss.entrywise_loss(
                x(128, 10), torch.zeros(128, 10), kind, True, torch.ones(128, dtype=torch.bool), True
            ),
            "loss_and_gradient",
        )
        for kind in KINDS
    },
    "fan_out": Case(fan_out, lambda: fan_out.fan_out(x(70, 9), 4), "add_all"),
    "gpu_tables": Case(gpu_launch, _tiles, "tile_table"),
    **{
        f"graph_layer_norm-{width}": Case(
            graph_layer_norm,
            lambda width=width: graph_layer_norm.graph_layer_norm(x(104, width), x(width), x(width), RAGGED, 1e-5),
            "graph_layer_norm_forward graph_layer_norm_backward add_shares",
        )
        for width in (64, 235)
    },
    "layer_norm": Case(
        layer_norm,
        lambda: layer_norm.layer_norm(x(70, 96), x(96), x(96), x(70, 96), 0.5, 1e-5),
        "layer_norm_forward layer_norm_backward add_shares",
    ),
    **{
        f"linear-{wide}": Case(
            linear,
            lambda wide=wide: linear.linear_and_rows(x(70, wide[0]), x(*wide[::-1]), x(wide[1]), True),
            "linear_forward* linear_backward*",
        )
        for wide in ((64, 128), (96, 20))
    },
    "linear-many-rows": Case(
        linear,
        lambda: linear.linear_and_rows(x(3000, 96), x(96, 96), x(96), False),
        "linear_forward* linear_backward* add_shares",
        8,
    ),
    "linear-maps": Case(linear, _maps, "linear_forward* linear_backward* add_shares"),
    "propagate": Case(
        propagate,
        lambda: propagate.propagate(LoopedAdjacency(ADJACENCY, lambda: pytest.fail("made")), x(5, 96)),
        "inverse_roots sum_with_loops",
    ),
    "put_rows": Case(
        put_rows,
        lambda: put_rows.put_rows(
            torch.tensor([1, 2]), [torch.ones(1), torch.ones(9, 5)], [torch.ones(4), torch.ones(20, 5)], [0, 1]
        ),
        "put",
    ),
    "relu_sum": Case(
        propagate,
        lambda: propagate.relu_sum(ADJACENCY, x(5, 96), x(4, 96), torch.zeros(1)),
        "relu_sum relu_sum_backward",
    ),
    "gated_mean": Case(
        propagate,
        lambda: propagate.gated_mean(ADJACENCY, x(5, 96), x(5, 96), x(4, 96), x(5, 96), x(5, 96), None, 1e-6),
        "gated_mean gated_mean_at_target gated_mean_at_source",
    ),
    "segment": Case(segment, lambda: segment.segment_mean(x(104, 96), RAGGED), "sum_rows spread_rows"),
    "bag_sum": Case(
        segment,
        lambda: segment.bag_sum(x(5, 96), torch.zeros(9, dtype=torch.int64), torch.tensor([0, 4, 9]), x(9)),
        "sum_bag",
    ),
    "segment_repeat": Case(segment, lambda: segment.segment_repeat(x(3, 96), RAGGED), "spread_rows sum_rows"),
    "segment_flip": Case(
        segment, lambda: segment.segment_flip(x(104, 96), torch.zeros(3, 96, dtype=torch.int64), RAGGED), "flip_rows"
    ),
    "sine_network": Case(
        sine_network, _sine_network, "sine_network_forward* sine_network_backward* add_shares", ARGUMENT_REDUCTION
    ),
    "unit_rows": Case(unit_rows, lambda: unit_rows.unit_rows(x(70, 96), 1e-12), "unit_rows_forward unit_rows_backward"),
}


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.slow
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", CASES)
def test_compiles_for_a_gpu(name: str, capability: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    if name == "circular_conv":  # elsewhere it falls back on transforms
        monkeypatch.setattr(circular_conv, "INTERPRETED", True)
    programs = compiled_launches(capability, case.operator, case.call)
    expected = {each.rstrip("*"): each.endswith("*") for each in case.kernels.split()}
    if name == "batch_rows" and TRITON < batch_rows.OLDEST:
        expected = {}
    assert {kernel.__name__ for kernel, _ in programs} == set(expected)
    for kernel, program in programs:
        if name == "sine_network":  # whose argument reduction multiplies in fp64
            assert not {"sin.approx", "cos.approx"} & set(program.asm["ptx"].split())
            assert program.metadata.shared <= SHARED[capability]
        else:
            kind = torch.float64 if name == "batch_rows" else torch.float32
            check_program(program, kind, capability, tensor_cores=expected[kernel.__name__])
        check_machine_code(program, tensor_cores=expected[kernel.__name__], allowed=case.allowed)


@pytest.mark.usefixtures("fresh_compiler", "tf32_allowed")
@pytest.mark.slow
@pytest.mark.parametrize("capability", [90, pytest.param(80, marks=pytest.mark.exhaustive)])
def test_linear_maps_of_tf32(capability: int) -> None:
    """One product where torch's may be of tf32, and sums of shares as ever."""
    case = CASES["linear-many-rows"]
    programs = compiled_launches(capability, case.operator, case.call)
    for (_kernel, program), multiplies in zip(programs, (True, True, False), strict=True):
        check_program(program, torch.float32, capability, tensor_cores=multiplies, parts=False)
        check_machine_code(program, tensor_cores=multiplies, allowed=case.allowed)


@pytest.mark.usefixtures("fresh_compiler", "tf32_allowed")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["embedding_sum", "sine_network"])
def test_products_that_stay_exact(name: str) -> None:
    """Three products for one, if they are not of fp32 itself."""
    for _kernel, program in compiled_launches(90, CASES[name].operator, CASES[name].call):
        products = re.findall(r"tt\.dot .*inputPrecision = tf32", program.asm["ttir"])
        assert len(products) % 3 == 0


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.slow
def test_one_sum_of_shares_whatever_their_number() -> None:
    """The shares of a batch's rows: every batch that is not padded has others, and none may wait for a compiler."""

    def kernel(*counts: int) -> str:
        given = [Shares(torch.empty(count, 96), [torch.empty(96)]) for count in counts]
        ((_, program),) = compiled_launches(90, linear, lambda: gpu_shares.add_up(given)[0][0])
        return str(program.hash)

    assert len({kernel(*counts) for counts in ((47, 94), (48, 96), (1, 2), (16, 1))}) == 1
