"""Batch normalisation with its surroundings: against the formula, torch, padding, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from graphbench.ops.residual_norm import (
    Fusion,
    Normalization,
    NormInput,
    residual_norm,
    residual_norm_sum,
    residual_norms,
)
from graphbench.structures.capacity import RealRows
from tests.ops.ragged_inputs import assert_same, assert_within_budget, normal

WIDTH = 20
FUSED = {
    "alone": {},
    "added": {"added": True},
    "relu_residual": {"act": "relu", "residual": True},
    "all": {"added": True, "act": "relu", "residual": True},
}


def normalization(training: bool = True, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Normalization:
    mean, var = torch.linspace(-1, 1, WIDTH, dtype=dtype), torch.linspace(0.5, 2, WIDTH, dtype=dtype)
    one, zero = torch.ones(WIDTH, dtype=dtype), torch.zeros(WIDTH, dtype=dtype)
    weight, bias, mean, var = (each.to(device) for each in (one, zero, mean, var))
    return Normalization(weight, bias, mean, var, training)


def case(
    name: str, rows: int, real: int | None = None, training: bool = True, device: str = "cpu"
) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """(backend -> function of the inputs, inputs h, weight, bias, what is around)."""
    present = [key for key in ("added", "residual") if key in FUSED[name]]
    inputs = [normal(rows, WIDTH), normal(WIDTH), normal(WIDTH), *(normal(rows, WIDTH) for _ in present)]
    inputs = [x.detach().to(device).requires_grad_() for x in inputs]
    mask = None if real is None else RealRows(torch.arange(rows, device=device) % 3 < real, None)
    if mask is not None:
        mask = replace(mask, known=mask.mask.sum())

    def using(backend: str) -> Callable[..., Tensor]:
        def run(h: Tensor, weight: Tensor, bias: Tensor, *others: Tensor) -> Tensor:
            norm = replace(normalization(training, h.dtype, device), weight=weight, bias=bias)
            fused = Fusion(**{**FUSED[name], **dict(zip(present, others, strict=True))})
            return residual_norm(h, norm, fused, real=mask, backend=backend)

        return run

    return using, inputs


# What is around each of several inputs, and how many rows they have.
TOGETHER = {
    "of nodes and edges": [("all", 19), ("relu_residual", 37)],
    "of nodes and hardly more edges": [("all", 24), ("relu_residual", 25)],
    "of three kinds": [("alone", 37), ("added", 3), ("all", 20)],
    "with no rows": [("alone", 0), ("all", 20)],
    "with a single row": [("all", 20), ("added", 1)],
}
OF_THE_SAME_ROWS = {
    "of two": [("alone", 37), ("added", 37)],
    "of three with a residual": [("all", 20), ("added", 20), ("alone", 20)],
    "with a residual that comes later": [("alone", 20), ("all", 20)],
    "of no rows": [("alone", 0), ("added", 0)],
}


def together(
    cases: list[tuple[str, int]], summed: bool, real: int | None = None, training: bool = True, device: str = "cpu"
) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """As :func:`case`, of the sum of several inputs or of their outputs one below the other."""
    inputs: list[Tensor] = []
    counts = []
    for name, rows in cases:
        inputs += case(name, rows, device=device)[1]
        counts.append(3 + sum(key in FUSED[name] for key in ("added", "residual")))

    def using(backend: str) -> Callable[..., Tensor]:
        def run(*tensors: Tensor) -> Tensor:
            given, left = [], list(tensors)
            for (name, rows), count in zip(cases, counts, strict=True):
                (h, weight, bias, *others), left = left[:count], left[count:]
                norm = replace(normalization(training, h.dtype, device), weight=weight, bias=bias)
                present = [key for key in ("added", "residual") if key in FUSED[name]]
                fused = Fusion(**{**FUSED[name], **dict(zip(present, others, strict=True))})
                mask = None if real is None else RealRows(torch.arange(rows, device=device) % 3 < real, None)
                given.append(NormInput(h, norm, fused, mask))
            if summed:
                return residual_norm_sum(given, backend=backend)
            return torch.cat(residual_norms(given, backend=backend))

        return run

    return using, inputs


@pytest.mark.parametrize("name", TOGETHER)
def test_several_are_each_by_itself(name: str) -> None:
    using, inputs = together(TOGETHER[name], False, real=2)
    assert_same(using("cpu"), using("reference"), inputs)


@pytest.mark.parametrize("name", OF_THE_SAME_ROWS)
def test_a_sum_is_that_of_each_by_itself(name: str) -> None:
    using, inputs = together(OF_THE_SAME_ROWS[name], True, real=2)
    assert_same(using("cpu"), using("reference"), inputs)


@pytest.mark.parametrize("rows", [0, 1, 2, 37])
@pytest.mark.parametrize("name", FUSED)
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
    for fused, message in (
        (Fusion(added=h[:3]), r"added must be \(4, 20\)"),
        (Fusion(residual=h[:, :3]), r"residual must be \(4, 20\)"),
        (Fusion(dropout=1.5), r"must lie in \[0, 1\], received 1.5"),
        (Fusion(act="gelu"), "act must be 'identity' or 'relu', received 'gelu'"),
    ):
        with pytest.raises(ValueError, match=message):
            residual_norm(h, norm, fused)
    with pytest.raises(ValueError, match=r"h must be \(R, 20\), received \(4, 3\)"):
        residual_norm(h[:, :3], norm)
    with pytest.raises(ValueError, match="one entry for each of 4 rows"):
        residual_norm(h, norm, real=RealRows.first(torch.tensor(2), 3))
    with pytest.raises(ValueError, match=r"must have the same shape, received \[\(4, 20\), \(3, 20\)\]"):
        residual_norm_sum([NormInput(h, norm), NormInput(h[:3], norm)])
    with pytest.raises(ValueError, match=r"must have the same shape, received \[\]"):
        residual_norm_sum([])
    with pytest.raises(ValueError, match="must lie in"):
        residual_norms([NormInput(h, norm), NormInput(h, norm, Fusion(dropout=-0.1))])


@pytest.mark.parametrize("training", [True, False])
def test_weights_may_be_views(training: bool) -> None:
    """PyTorch's own backward pass reads a strided weight as if it were contiguous."""
    h, weights = normal(7, 4).detach(), normal(4, 2).detach()
    seed = torch.randn_like(h)

    def gradient(weight: Tensor, backend: str) -> Tensor:
        x = h.clone().requires_grad_()
        zeros, ones = torch.zeros(4, dtype=h.dtype), torch.ones(4, dtype=h.dtype)
        norm = Normalization(weight, zeros, zeros.clone(), ones.clone(), training)
        [found] = torch.autograd.grad(residual_norm(x, norm, backend=backend), x, seed)
        return found

    for weight in (weights[:, 0], weights[:1, 0].expand(4)):
        torch.testing.assert_close(gradient(weight, "cpu"), gradient(weight.contiguous(), "reference"))
