from __future__ import annotations

import torch
from torch import Tensor

from graphbench.transforms.algorithms.canonical_basis import TOLERANCE, canonical_factor

VALUES = torch.tensor([3.0, 3.0, 3.0, 2.0, 1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
REPEATED = [slice(0, 3), slice(3, 4), slice(4, 6), slice(6, 8)]


def orthonormal(size: int, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(size, size, generator=random, dtype=torch.float64))[0]


def turned(vectors: Tensor, seed: int) -> Tensor:
    """Another basis inside every repeated value; another sign of every single vector."""
    blocks = [vectors[:, block] @ orthonormal(block.stop - block.start, seed + block.start) for block in REPEATED]
    return torch.cat([-block if seed % 2 else block for block in blocks], 1)


def test_every_basis_of_a_repeated_value_gives_the_same_columns() -> None:
    vectors = orthonormal(8, 0)
    bases = torch.stack([vectors, *(turned(vectors, seed) for seed in range(1, 9))])
    factors = canonical_factor(bases, VALUES.expand(len(bases), -1), 7)
    assert (bases[1:] - bases[0]).abs().amax((1, 2)).min() > 0.1
    torch.testing.assert_close(factors, factors[:1].expand_as(factors), atol=1e-12, rtol=0)
    torch.testing.assert_close(factors[0].T @ factors[0], VALUES[:7].diag(), atol=1e-12, rtol=0)
    torch.testing.assert_close(factors[0] @ factors[0].T, vectors @ VALUES.diag() @ vectors.T, atol=1e-12, rtol=0)


def test_a_cut_repeated_value_is_represented_by_its_first_pivots() -> None:
    vectors = turned(orthonormal(8, 0), 5)[None]
    whole = canonical_factor(vectors, VALUES[None], 8)
    for columns in range(1, 8):
        torch.testing.assert_close(canonical_factor(vectors, VALUES[None], columns), whole[:, :, :columns])


def test_pivots_are_positive_and_the_first_of_several_nodes_that_tie() -> None:
    identity = torch.eye(4, dtype=torch.float64)
    same = canonical_factor(turned(orthonormal(8, 1), 2)[None, :4, :1].clone(), VALUES[None, :1], 1)[0]
    assert same[same.abs().argmax()] > 0
    repeated = canonical_factor(orthonormal(4, 3)[None], torch.ones(1, 4, dtype=torch.float64), 3)[0]
    torch.testing.assert_close(repeated, identity[:, :3], atol=1e-12, rtol=0)  # every basis of all of R^4


def test_relative_tolerance() -> None:
    vectors = torch.eye(3, dtype=torch.float64)[:, [2, 1, 0]]
    near = torch.tensor([[7.0, 7.0 * (1 - 0.5 * TOLERANCE), 7.0 * 0.5 * TOLERANCE]], dtype=torch.float64)
    factor = canonical_factor(vectors[None], near, 3)[0]
    assert factor.nonzero().tolist() == [
        [1, 0],
        [2, 1],
    ]  # one value: pivot 1 comes before pivot 2; the last counts as 0
    apart = torch.tensor([[7.0, 7.0 * (1 - 2 * TOLERANCE), 7.0 * 2 * TOLERANCE]], dtype=torch.float64)
    assert canonical_factor(vectors[None], apart, 3)[0].nonzero().tolist() == [[0, 2], [1, 1], [2, 0]]


def test_nothing_but_zeros() -> None:
    factor = canonical_factor(orthonormal(5, 0)[None], torch.zeros(1, 5, dtype=torch.float64), 4)
    assert factor.shape == (1, 5, 4)
    assert not factor.any()
