"""Dropout: rate, scale, reproducibility, gradient."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.dropout import cpu, dropout

BACKENDS = pytest.mark.parametrize("backend", ["reference", "cpu"])
RATES = pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])


@BACKENDS
@RATES
def test_rate_and_scale(p: float, backend: str) -> None:
    out = dropout(torch.ones(400_000), p, backend=backend)
    on = out > 0
    assert on.float().mean().item() == pytest.approx(1 - p, abs=4e-3)
    torch.testing.assert_close(out[on], torch.full((int(on.sum()),), 1 / (1 - p)), rtol=2e-5 / (1 - p), atol=0)


@RATES
def test_neighbouring_entries_are_independent(p: float) -> None:
    on = dropout(torch.ones(400_000), p) > 0
    for shift in (1, 2, 4, 8, 1 << 17):
        assert (on[shift:] & on[:-shift]).float().mean().item() == pytest.approx((1 - p) ** 2, abs=6e-3)


@BACKENDS
def test_follows_the_global_generator(backend: str) -> None:
    x = torch.randn(1000, 7)
    torch.manual_seed(2)
    first, second = dropout(x, 0.3, backend=backend), dropout(x, 0.3, backend=backend)
    torch.manual_seed(2)
    assert torch.equal(dropout(x, 0.3, backend=backend), first)
    assert not torch.equal(first, second)


@BACKENDS
@pytest.mark.parametrize("p", [0.3, 0.5, 1.0])
def test_gradient_uses_the_same_mask(p: float, backend: str) -> None:
    x = torch.rand(300, 500, requires_grad=True) if p < 1 else torch.rand(30, 5, requires_grad=True)
    out = dropout(x, p, backend=backend)
    out.sum().backward()
    torch.testing.assert_close(x.grad * x, out)


@pytest.mark.parametrize("p", [0.5, 0.1])
def test_stored_and_regenerated_masks_are_the_same(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(700, 401, requires_grad=True)  # more than two blocks
    results = []
    for stored in (cpu._STORED, 0):
        monkeypatch.setattr(cpu, "_STORED", stored)
        torch.manual_seed(3)
        out = dropout(x, p)
        results.append((out, *torch.autograd.grad(out.sin().sum(), x)))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_gradcheck() -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(4)
        return dropout(x, 0.4)

    assert torch.autograd.gradcheck(call, [torch.randn(5, 4, dtype=torch.float64, requires_grad=True)])


def test_strided_input_and_other_types() -> None:
    x = torch.arange(1.0, 13.0).view(3, 4).T
    torch.manual_seed(0)
    strided = dropout(x, 0.5)
    torch.manual_seed(0)
    assert torch.equal(strided, dropout(x.contiguous(), 0.5))
    assert dropout(x.bfloat16(), 0.5).dtype == torch.bfloat16


def test_identity_cases() -> None:
    x = torch.randn(3)
    assert dropout(x, 0.0) is x
    assert dropout(torch.empty(0, 4), 0.5).shape == (0, 4)


def test_impossible_probability_is_refused() -> None:
    with pytest.raises(ValueError, match=r"received -0\.5"):
        dropout(torch.ones(2), -0.5)
