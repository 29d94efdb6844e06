"""The kernels of focal_attention against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.ops import gpu_launch
from graphbench.ops.focal_attention import Relation, dense, focal_attention
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import DEVICE, assert_same, assert_within_budget
from tests.ops.test_focal_attention import KINDS, inputs_for, rings

SMALL = {size: dict.fromkeys((16, 32, 64, 128), (16, 32, 4)) for size in (2, 4, 8)}
REACH = (None, 1, 2)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles from 17 rows on."""
    monkeypatch.setattr(gpu_launch, "blocks_on", lambda device, kernels: SMALL)


def case(
    sizes: list[int], names: str, e: int = 18, **options: Any
) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """``backend -> function`` and its inputs: q, k, v and what ``names`` asks for of query, key, value and bias."""
    ragged, near = Ragged.from_sizes(sizes, DEVICE), rings(sizes, token=True).to(DEVICE)
    index = torch.randint(KINDS, (near.distance.numel(),), dtype=torch.int16).to(DEVICE)
    every = inputs_for(ragged.num_rows, near.distance.numel(), e=e)
    chosen = [name for name in ("query", "key", "value", "bias") if name in names]
    extra = dict(zip(("query", "key", "value", "bias"), every[3:], strict=True))
    options = {"max_hops": REACH, **options}

    def using(backend: str) -> Callable[..., Tensor]:
        def run(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor) -> Tensor:
            known = dict(zip(chosen, rest, strict=True))
            bias = known.pop("bias", None)
            tables: Sequence[Relation] = [Relation(index, **known)] if known else ()
            return focal_attention(q, k, v, ragged, near, relations=tables, bias=bias, backend=backend, **options)

        return run

    inputs = [*every[:3], *(extra[name] for name in chosen)]
    return using, [x.detach().to(DEVICE).requires_grad_() for x in inputs]


@pytest.mark.parametrize("unreachable", ["mask", "full"])
@pytest.mark.parametrize("names", ["", "bias", "query key", "query value bias"])
def test_equals_reference(names: str, unreachable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "focal_attention", None)  # not through the torch code
    using, inputs = case([0, 17, 1, 3], names, unreachable=unreachable)
    assert_same(using("gpu"), using("reference"), inputs)


@pytest.mark.parametrize("e", [18, 70])
def test_error_in_float32(e: int) -> None:
    """Rows of wide heads are multiplied piece by piece."""
    using, inputs = case([20, 3], "query key value bias", e)
    assert_within_budget(using("gpu"), using("reference"), inputs)


def test_half_precision() -> None:
    using, inputs = case([20, 3], "query key value")
    half = [x.detach().bfloat16() for x in inputs]
    out = using("gpu")(*half)
    truth = using("reference")(*(x.double() for x in half))
    assert out.dtype == torch.bfloat16
    assert (out - truth).abs().max() <= 2 * torch.finfo(torch.bfloat16).eps * truth.abs().max()


def test_dropout_is_one_mask_in_both_passes() -> None:
    using, inputs = case([17], "query value bias", dropout_p=0.5)
    run = using("gpu")

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return run(*inputs)

    out = drawn(1)
    assert torch.equal(out, drawn(1))
    assert not torch.equal(out, drawn(2))
    seed = torch.randn_like(out)
    gradients = torch.autograd.grad(out, inputs, seed)
    for each, gradient in zip(inputs, gradients, strict=True):
        step = 1e-5 * torch.randn_like(each)
        with torch.no_grad():
            each += step
            up = (drawn(1) * seed).sum()
            each -= 2 * step
            down = (drawn(1) * seed).sum()
            each += step
        torch.testing.assert_close((up - down) / 2, (gradient * step).sum(), rtol=1e-5, atol=1e-9)


def test_nothing_and_what_has_no_kernel() -> None:
    using, inputs = case([0, 0], "query")
    assert using("gpu")(*inputs).shape == (0, 3, 18)
    using, inputs = case([3], "", dropout_p=1.0)
    assert not using("gpu")(*inputs).any()
