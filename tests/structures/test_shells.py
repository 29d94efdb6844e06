"""The matrix over (node, hop) against masks of distances; what is too far away counts nowhere."""

from __future__ import annotations

import pytest
import torch

from graphbench.data.store import GraphStore
from graphbench.ops.propagate import propagate
from graphbench.structures import GraphBatch, PairBlocks, Ragged
from graphbench.structures.shells import known_distances, shells
from graphbench.transforms.shortest_paths import ShortestPaths
from tests.contract import example_batch
from tests.layers.test_spn import listed

SIZES = (11, 1, 0, 4)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("hops", [1, 3])
def test_every_shell_is_summed_by_itself(hops: int, normalised: bool) -> None:
    batch = example_batch(SIZES)
    blocks = [batch.pairs.block(graph) for graph in range(len(SIZES))]
    h = torch.randn(hops + 1, batch.num_nodes, 2, dtype=torch.float64)[normalised:]
    for known in (batch, listed(batch, hops)):
        matrices = known.derived(shells, hops, normalised)
        assert len(matrices) == len(h)
        for number, matrix in enumerate(matrices, start=1):
            found = propagate(matrix, h[:number].flatten(0, 1)).view_as(h[:number])
            for k in range(number):
                mask = torch.block_diag(*(block == k + normalised for block in blocks)).double()
                if normalised:
                    mask = mask + torch.eye(len(mask))
                    scale = mask.sum(1).rsqrt()
                    mask = scale[:, None] * mask * scale
                torch.testing.assert_close(found[k], mask @ h[k])


@pytest.mark.parametrize("form", ["pairs", "hops"])
def test_nodes_hear_along_edges(form: str) -> None:
    """As in message passing: of a path 0 -> 1 -> 2 the last node hears both others, the first none."""
    edges = torch.tensor([[0, 1], [1, 2]])
    store = GraphStore.from_arrays([3], [2], edges)
    batch = GraphBatch(Ragged.from_sizes([3]), edges)
    if form == "pairs":
        batch = batch.replace(pairs=PairBlocks(ShortestPaths(2)(store)["distance"], (3,)))
    else:
        batch = listed(batch, 2)
    h = torch.tensor([1.0, 10.0, 100.0]).double().unsqueeze(1)
    heard = propagate(batch.derived(shells, 2)[2], h.repeat(3, 1)).view(3, 3)
    assert heard.tolist() == [[1.0, 10.0, 100.0], [0.0, 1.0, 10.0], [0.0, 0.0, 1.0]]


def test_few_shells_cost_few_pairs() -> None:
    """The matrix of the nearest k shells has their pairs and no others, and a loop per node and shell if normalised."""
    batch = example_batch(SIZES)
    hop = torch.cat([batch.pairs.block(graph).flatten() for graph in range(len(SIZES))])
    for number, matrix in enumerate(batch.derived(shells, 3), start=1):
        assert (matrix.num_nodes, matrix.num_edges) == (number * batch.num_nodes, int((hop < number).sum()))
    for number, matrix in enumerate(batch.derived(shells, 3, True), start=1):
        pairs = int(((hop > 0) & (hop <= number)).sum())
        assert matrix.num_edges == pairs + number * batch.num_nodes


def test_distances_are_demanded() -> None:
    batch = example_batch((3,), pairs=False)
    with pytest.raises(ValueError, match=r"neighbour lists .* are needed"):
        known_distances(batch)
