"""Distances measured batch by batch are those that are stored, on the host and by frontier expansion."""

from __future__ import annotations

import pytest
import torch

from graphbench.data.store import GraphStore
from graphbench.structures.pairs import LONGEST
from graphbench.transforms.algorithms import batch_hops
from graphbench.transforms.algorithms.batch_hops import with_hops
from graphbench.transforms.shortest_paths import ShortestPaths
from tests.second_device import DEVICE, second_device

CUTOFFS = pytest.mark.parametrize("cutoff", [1, 3, LONGEST])


def _store() -> GraphStore:
    """Directed random graphs, a long path, isolated nodes, graphs of one node and of none."""
    generator = torch.Generator().manual_seed(3)
    sizes, parts = [9, 0, 1, 40, 5, 6, 23], []
    for size in sizes:
        edges = torch.randint(max(size, 1), (2, size if size > 1 else 0), generator=generator)
        parts.append(torch.stack([torch.arange(39), torch.arange(1, 40)]) if size == 40 else edges)
    return GraphStore.from_arrays(sizes, [part.shape[1] for part in parts], torch.cat(parts, dim=1))


def _stored(cutoff: int) -> GraphStore:
    store = _store()
    return store.with_encodings(pairs=ShortestPaths(cutoff)(store)["distance"])


CHOSEN = [3, 0, 1, 6, 2, 4, 5, 3]


@CUTOFFS
def test_on_the_host(cutoff: int) -> None:
    found, expected = with_hops(_store().gather(CHOSEN), cutoff), _stored(cutoff).gather(CHOSEN)
    assert found.pairs.sizes == expected.pairs.sizes
    assert torch.equal(found.pairs.distance, expected.pairs.distance)


@CUTOFFS
def test_by_frontier_expansion(cutoff: int) -> None:
    batch, expected = _store().gather(CHOSEN), _stored(cutoff).gather(CHOSEN).pairs.distance
    assert torch.equal(batch_hops._expanded(batch, cutoff), expected)
    with second_device() as waits:
        there = batch.to(DEVICE)
        waits.clear()
        found = with_hops(there, cutoff)
        assert len(waits) <= len(batch.ragged.buckets) * (40 // batch_hops._ROUNDS + 1)
        assert torch.equal(found.pairs.distance.cpu(), expected)


@pytest.mark.parametrize("sizes", [[], [0], [1], [0, 1, 0]])
def test_nothing_to_measure(sizes: list[int]) -> None:
    batch = GraphStore.from_arrays(sizes, [0] * len(sizes), torch.empty(2, 0, dtype=torch.int64)).gather(
        range(len(sizes))
    )
    for found in (with_hops(batch).pairs.distance, batch_hops._expanded(batch, LONGEST)):
        assert found.tolist() == [0] * sum(sizes)
