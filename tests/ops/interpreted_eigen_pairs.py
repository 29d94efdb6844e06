"""The kernel of eigen_pairs against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.eigen_pairs import eigen_pairs, gpu
from tests.ops.ragged_inputs import DEVICE
from tests.ops.test_eigen_pairs import check, inputs


def test_pairs() -> None:
    check("gpu", DEVICE)


def test_large_graphs_take_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LARGEST", 69)
    monkeypatch.setattr(gpu, "signed_pairs", None)
    vectors, values, ragged = inputs(DEVICE)
    found = eigen_pairs(vectors, values, ragged, flip=False, backend="gpu")
    expected = eigen_pairs(vectors, values, ragged, flip=False, backend="reference")
    assert all(torch.equal(*each) for each in zip(found, expected, strict=True))
