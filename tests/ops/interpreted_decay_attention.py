"""The kernels of decay_attention against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.ops import gpu_launch
from graphbench.ops.decay_attention import decay_attention
from graphbench.structures import Ragged
from tests.ops.ragged_inputs import DEVICE, assert_rounded_gradients, assert_same, assert_within_budget
from tests.ops.test_decay_attention import OPTIONS, index_for, inputs_for

SMALL = {size: dict.fromkeys((16, 32, 64, 128), (16, 32, 4)) for size in (2, 4, 8)}


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles from 17 rows on."""
    monkeypatch.setattr(gpu_launch, "blocks_on", lambda device, kernels: SMALL)


def on_device(ragged: Ragged, d: int = 5, e: int = 18) -> list[Tensor]:
    return [x.detach().to(DEVICE).requires_grad_() for x in inputs_for(ragged, d, e)]


def call(ragged: Ragged, index: Tensor, backend: str, **options: Any):
    options = {"decay": 0.6, **options}
    return lambda q, k, v, s: decay_attention(q, k, v, ragged, index, s, backend=backend, **options)


CASES = [
    ({}, "scores", "far", False),
    ({"slope": 0.2}, "scores", "mask", True),
    ({}, "probs", "full", True),
    (OPTIONS["linear_slope"], "probs", "mask", False),
]


@pytest.mark.parametrize(("options", "on", "lost", "floating"), CASES, ids=str)
def test_equals_reference(options: dict[str, Any], on: str, lost: str, floating: bool) -> None:
    ragged = Ragged.from_sizes([0, 17, 1], DEVICE)
    index = index_for(ragged, floating).to(DEVICE)
    both = (call(ragged, index, which, mask_on=on, unreachable=lost, **options) for which in ("gpu", "reference"))
    assert_same(*both, on_device(ragged))


@pytest.mark.parametrize("options", [{"decay": 0.0}, {"kind": "linear", "end": 0.5}], ids=str)
def test_rows_without_a_weight_are_means(options: dict[str, Any]) -> None:
    """No pair is near enough: ln 0 is one finite number, at every distance and in both passes."""
    ragged = Ragged.from_sizes([0, 17, 1], DEVICE)
    index = 7 + index_for(ragged, True, special=0.0).to(DEVICE)
    both = (call(ragged, index, which, mask_on="probs", **options) for which in ("gpu", "reference"))
    assert_same(*both, on_device(ragged))


def test_parts_of_wider_distances() -> None:
    ragged = Ragged.from_sizes([0, 17, 1], DEVICE)
    index = torch.stack([index_for(ragged), index_for(ragged)], dim=1).to(DEVICE)[:, 0]
    q, k, v, start = (x.detach().float() for x in on_device(ragged))
    torch.testing.assert_close(*(call(ragged, index, which)(q, k, v, start) for which in ("gpu", "reference")))


def test_parts_of_one_tensor() -> None:
    ragged = Ragged.from_sizes([0, 17, 1], DEVICE)
    index, (*qkv, start) = index_for(ragged).to(DEVICE), on_device(ragged, 5, 5)
    packed = torch.stack([x.detach() for x in qkv], dim=1).requires_grad_()

    def using(backend: str):
        return lambda x, s: decay_attention(*x.unbind(1), ragged, index, s, decay=0.6, packed=x, backend=backend)

    assert_same(using("gpu"), using("reference"), [packed, start])


@pytest.mark.parametrize("d", [5, 70])
def test_error_in_float32(d: int) -> None:
    """Of output, q, k and v; the three numbers of the start points are too few for a mean.

    Rows of wide heads are multiplied piece by piece.
    """
    ragged = Ragged.from_sizes([20, 3], DEVICE)
    index, (*qkv, start) = index_for(ragged).to(DEVICE), on_device(ragged, d)

    def given(backend: str):
        one = call(ragged, index, backend, slope=0.1)
        return lambda q, k, v: one(q, k, v, start.detach().to(q.dtype))

    assert_within_budget(given("gpu"), given("reference"), qkv)


def test_half_precision() -> None:
    ragged = Ragged.from_sizes([20, 3], DEVICE)
    index, exact = index_for(ragged).to(DEVICE), on_device(ragged)
    half = [x.detach().bfloat16() for x in exact]
    out = call(ragged, index, "gpu")(*half)
    truth = call(ragged, index, "reference")(*(x.double() for x in half))
    assert out.dtype == torch.bfloat16
    assert (out - truth).abs().max() <= torch.finfo(torch.bfloat16).eps * truth.abs().max()


def test_gradients_in_half_precision() -> None:
    """Of values far from zero: what of the output is rounded away is not small against differences of values."""
    ragged = Ragged.from_sizes([20, 3], DEVICE)
    index, (q, k, v, start) = index_for(ragged).to(DEVICE), on_device(ragged)
    half = [x.detach().bfloat16().requires_grad_() for x in (q, k, v + 100, start)]
    assert_rounded_gradients(call(ragged, index, "gpu"), call(ragged, index, "reference"), half)


def test_dropout_is_one_mask_in_both_passes() -> None:
    """The output is linear in v: its gradient for v has to be that of the same mask."""
    ragged = Ragged.from_sizes([17], DEVICE)
    index, (q, k, v, s) = index_for(ragged).to(DEVICE), on_device(ragged)

    def drawn(values: Tensor, seed: int) -> Tensor:
        torch.manual_seed(seed)
        return call(ragged, index, "gpu", dropout_p=0.5)(q, k, values, s)

    out = drawn(v, 1)
    assert torch.equal(out, drawn(v, 1))
    assert not torch.equal(out, drawn(v, 2))
    seed = torch.randn_like(out)
    (of_v, of_q) = torch.autograd.grad(out, (v, q), seed)
    torch.testing.assert_close((of_v * v).sum(), (out * seed).sum())
    step = 1e-5 * torch.randn_like(q)
    with torch.no_grad():
        q += step
        up = (drawn(v, 1) * seed).sum()
        q -= 2 * step
        down = (drawn(v, 1) * seed).sum()
    torch.testing.assert_close((up - down) / 2, (of_q * step).sum(), rtol=1e-6, atol=1e-9)


def test_nothing_and_devices_without_kernels() -> None:
    ragged = Ragged.from_sizes([0, 0], DEVICE)
    assert call(ragged, index_for(ragged).to(DEVICE), "gpu")(*on_device(ragged)).shape == (0, 3, 18)
