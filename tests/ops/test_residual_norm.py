"""Batch normalisation with its surroundings: against the formula, torch, padding, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from graphbench.ops.residual_norm import Normalization, Surroundings, residual_norm
from graphbench.structures.capacity import RealRows
from tests.ops.ragged_inputs import assert_same, assert_within_budget, normal

WIDTH = 20
AROUND = {
    "alone": {},
    "added": {"added": True},
    "relu_residual": {"act": "relu", "residual": True},
    "all": {"added": True, "act": "relu", "residual": True},
}


def normalization(training: bool = True, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Normalization:
    mean, var = torch.linspace(-1, 1, WIDTH, dtype=dtype), torch.linspace(0.5, 2, WIDTH, dtype=dtype)
    one, zero = torch.ones(WIDTH, dtype=dtype), torch.zeros(WIDTH, dtype=dtype)
    return Normalization(one, zero, mean.to(device), var.to(device), training)


def case(
    name: str, rows: int, real: int | None = None, training: bool = True, device: str = "cpu"
) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """(backend -> function of the inputs, inputs h, weight, bias, what is around)."""
    present = [key for key in ("added", "residual") if key in AROUND[name]]
    inputs = [normal(rows, WIDTH), normal(WIDTH), normal(WIDTH), *(normal(rows, WIDTH) for _ in present)]
    inputs = [x.detach().to(device).requires_grad_() for x in inputs]
    mask = None if real is None else RealRows(torch.arange(rows, device=device) % 3 < real, None)
    if mask is not None:
        mask = replace(mask, known=mask.mask.sum())

    def using(backend: str) -> Callable[..., Tensor]:
        def run(h: Tensor, weight: Tensor, bias: Tensor, *others: Tensor) -> Tensor:
            norm = replace(normalization(training, h.dtype, device), weight=weight, bias=bias)
            around = Surroundings(**{**AROUND[name], **dict(zip(present, others, strict=True))})
            return residual_norm(h, norm, around, real=mask, backend=backend)

        return run

    return using, inputs


@pytest.mark.parametrize("rows", [0, 1, 2, 37])
@pytest.mark.parametrize("name", AROUND)
def test_equals_the_formula(name: str, rows: int) -> None:
    using, inputs = case(name, rows)
    assert_same(using("cpu"), using("reference"), inputs)


@pytest.mark.parametrize("real", [0, 1, 2])
def test_padding_is_normalised_by_the_statistics_of_real_rows(real: int) -> None:
    using, inputs = case("all", 31, real)
    assert_same(using("cpu"), using("reference"), inputs)


def test_evaluation() -> None:
    using, inputs = case("all", 9, training=False)
    assert_same(using("cpu"), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case("all", 37)
    assert_within_budget(using("cpu"), using("reference"), inputs)


def test_gradients_are_derivatives() -> None:
    using, inputs = case("all", 6, 2)
    assert torch.autograd.gradcheck(using("cpu"), inputs)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_running_statistics_move_as_those_of_torch(backend: str) -> None:
    theirs, norm, h = nn.BatchNorm1d(WIDTH).double(), normalization(), normal(13, WIDTH)
    theirs.running_mean.copy_(norm.running_mean)
    theirs.running_var.copy_(norm.running_var)
    torch.testing.assert_close(residual_norm(h, norm, backend=backend), theirs(h))
    torch.testing.assert_close(norm.running_mean, theirs.running_mean)
    torch.testing.assert_close(norm.running_var, theirs.running_var)
    kept = norm.running_mean.clone()
    residual_norm(h[:1], norm, backend=backend)
    assert torch.equal(norm.running_mean, kept)


def test_refused_arguments() -> None:
    h, norm = normal(4, WIDTH), normalization()
    for around, message in (
        (Surroundings(added=h[:3]), r"added must be \(4, 20\)"),
        (Surroundings(residual=h[:, :3]), r"residual must be \(4, 20\)"),
        (Surroundings(dropout=1.5), r"must lie in \[0, 1\], received 1.5"),
        (Surroundings(act="gelu"), "act must be 'identity' or 'relu', received 'gelu'"),
    ):
        with pytest.raises(ValueError, match=message):
            residual_norm(h, norm, around)
    with pytest.raises(ValueError, match=r"h must be \(R, 20\), received \(4, 3\)"):
        residual_norm(h[:, :3], norm)
    with pytest.raises(ValueError, match="one entry for each of 4 rows"):
        residual_norm(h, norm, real=RealRows.first(torch.tensor(2), 3))
