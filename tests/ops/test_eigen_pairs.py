"""Pairs of eigenvectors and eigenvalues: values, signs, what is absent."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphbench.ops.eigen_pairs import eigen_pairs, sum_present
from graphbench.structures import Ragged
from tests import second_device
from tests.ops.ragged_inputs import BACKEND, DEVICE, assert_same, normal, of_kernels, set_kernels

SIZES, FREQUENCIES = [70, 0, 3, 41, 1], 40


def inputs() -> tuple[Tensor, Tensor, Ragged]:
    """Eigenvectors and eigenvalues; graphs have no more frequencies than nodes."""
    ragged = Ragged.from_sizes(SIZES, DEVICE)
    vectors, values = (normal(sum(SIZES), FREQUENCIES).detach().to(DEVICE) for _ in range(2))
    known = torch.arange(FREQUENCIES, device=DEVICE) < ragged.size_tensor.repeat_interleave(ragged.size_tensor)[:, None]
    return vectors.masked_fill(~known, torch.nan), values.masked_fill(~known, torch.nan), ragged


@pytest.mark.parametrize("backend", [BACKEND, "reference"])
def test_pairs(backend: str) -> None:
    """Against the equation; signs are those of a graph and frequency, drawn anew."""
    vectors, values, ragged = inputs()
    expected, there = eigen_pairs(vectors, values, ragged, flip=False, backend="reference")
    pairs, present = eigen_pairs(vectors.requires_grad_(), values, ragged, flip=False, backend=backend)
    assert torch.equal(pairs, expected)
    assert torch.equal(present, there)
    torch.manual_seed(0)
    flipped = [eigen_pairs(vectors, values, ragged, flip=True, backend=backend)[0] for _ in range(2)]
    for each in flipped:
        assert torch.equal(each[..., 1], expected[..., 1])
        assert torch.equal(each[..., 0].abs(), expected[..., 0].abs())
        assert not each.requires_grad
        signs = (each[..., 0] * expected[..., 0]).sign()
        for of_graph in signs.split(SIZES):
            assert all(len(column[column != 0].unique()) <= 1 for column in of_graph.t())
        assert 0.3 < float((signs[:70] > 0).double().mean()) < 0.7
        assert not torch.equal(signs[0], signs[73])
    assert not torch.equal(*flipped)
    torch.manual_seed(0)
    assert torch.equal(eigen_pairs(vectors, values, ragged, flip=True, backend=backend)[0], flipped[0])


@of_kernels
def test_large_graphs_take_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "eigen_pairs", LARGEST=69, signed_pairs=None)
    vectors, values, ragged = inputs()
    found = eigen_pairs(vectors, values, ragged, flip=False, backend="gpu")
    expected = eigen_pairs(vectors, values, ragged, flip=False, backend="reference")
    assert all(torch.equal(*each) for each in zip(found, expected, strict=True))


def test_the_sum_leaves_out_what_is_absent() -> None:
    x, present = normal(5, 4, 3), (torch.arange(20).view(5, 4) % 3 != 0).double()
    assert_same(lambda x: sum_present(x, present), lambda x: sum_present(x, present, backend="reference"), [x])
    with second_device.second_device():
        there = x.detach().to(second_device.DEVICE).requires_grad_()
        out = sum_present(there, present.to(second_device.DEVICE))
        out.sum().backward()
        torch.testing.assert_close(out.detach().cpu(), sum_present(x, present, backend="reference").detach())
        assert torch.equal(there.grad.cpu(), present[:, :, None].expand(5, 4, 3))


def test_wrong_shapes_are_refused() -> None:
    ragged = Ragged.from_sizes([1, 2])
    with pytest.raises(ValueError, match=r"must be \(3, K\), received \(3, 4\) and \(3, 5\)"):
        eigen_pairs(torch.zeros(3, 4), torch.zeros(3, 5), ragged, flip=False)
