"""The matrix over (node, hop) against masks of distances; what is too far away counts nowhere."""

from __future__ import annotations

import pytest
import torch

from graphbench.layers.shells import known_distances, shells
from graphbench.ops.propagate import propagate
from tests.contract import example_batch
from tests.layers.test_spn import listed

SIZES = (11, 1, 0, 4)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("hops", [1, 3])
def test_every_shell_is_summed_by_itself(hops: int, normalised: bool) -> None:
    batch = example_batch(SIZES)
    blocks = [batch.pairs.block(graph) for graph in range(len(SIZES))]
    h = torch.randn(batch.num_nodes, hops + 2, 2, dtype=torch.float64)
    for known in (batch, listed(batch, hops)):
        found = propagate(known.derived(shells, hops, normalised), h.flatten(0, 1)).view_as(h)
        for k in range(1 if normalised else 0, hops + 1):
            mask = torch.block_diag(*(block == k for block in blocks)).double()
            if normalised:
                mask = mask + torch.eye(len(mask))
                scale = mask.sum(1).rsqrt()
                mask = scale[:, None] * mask * scale
            torch.testing.assert_close(found[:, k], mask @ h[:, k])


def test_distances_are_demanded() -> None:
    batch = example_batch((3,), pairs=False)
    with pytest.raises(ValueError, match=r"neighbour lists .* are needed"):
        known_distances(batch)
