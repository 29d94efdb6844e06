"""Capacities that batches are padded to, and plans of batches by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from graphbench.data.loading.assembly import BatchAssembler
from graphbench.data.store import GraphStore
from graphbench.structures import BatchCounts, BatchPlan, Capacity, DeviceBatch
from graphbench.structures.capacity import NO_GRAPH

CLASSES = 4
"""Capacities of the full batches of a split: each is captured once. What they waste: docs/padding-waste.md."""

_QUANTILES = 64
"""Places at which classes may be cut."""

SAMPLED_BATCHES = 2000
"""Batches that the capacities are chosen from. What is larger later on is trained without padding."""


class PaddedBatches:
    """Padded batches of one store.

    Args:
        store: the graphs, on the device of the batches.
    """

    def __init__(self, store: GraphStore) -> None:
        self._assembler = BatchAssembler(store)

    def classes(self, batches: Iterable[np.ndarray]) -> tuple[Capacity, ...]:
        """Capacities for batches like the first of an endless sequence; (B,) graph numbers each."""
        counts = [self._assembler.counts(graphs) for graphs in islice(batches, SAMPLED_BATCHES)]
        return capacity_classes(counts, CLASSES, self._assembler.max_size)

    def target_rows(self, graphs: np.ndarray) -> int:
        """Rows of targets of some graphs."""
        return self._assembler.target_rows(self._assembler.counts(graphs))

    def plan(self, graphs: np.ndarray, classes: Sequence[Capacity]) -> BatchPlan:
        """The plan of a batch: the first class that it fits."""
        counts = self._assembler.counts(graphs)
        capacity = next((each for each in classes if each.fits(counts)), None)
        return BatchPlan(graphs, self._assembler.target_rows(counts), capacity)

    def plans(self, batches: Sequence[np.ndarray]) -> Iterator[BatchPlan]:
        """The plans of all batches of a split, each of which fits a class."""
        counts = [self._assembler.counts(graphs) for graphs in batches]
        classes = capacity_classes(counts, CLASSES, self._assembler.max_size) if batches else ()
        return (self.plan(graphs, classes) for graphs in batches)

    def assemble(self, capacity: Capacity, numbers: Tensor) -> DeviceBatch:
        """The batch of (B,) graph numbers on the device."""
        batch = self._assembler.assemble(numbers, capacity)
        return DeviceBatch(batch, None, self._assembler.real_targets(batch))


def numbers_of(plan: BatchPlan) -> Tensor:
    """Graph numbers of a plan on the host, :data:`~graphbench.structures.capacity.NO_GRAPH` behind the last one."""
    if plan.graphs is None or plan.capacity is None:
        return torch.empty(0, dtype=torch.int64)
    numbers = torch.full((plan.capacity.graphs,), NO_GRAPH)
    numbers[: len(plan.graphs)] = torch.from_numpy(plan.graphs)
    return numbers


def capacity_classes(batches: Sequence[BatchCounts], number: int, max_size: int) -> tuple[Capacity, ...]:
    """Classes for batches like the given ones, smallest first, cut by the number of nodes so that least is padding.

    The last batch of an epoch may hold fewer graphs than all others: it has a class of its own.

    Args:
        batches: counts of batches, at least one.
        number: most classes of full batches.
        max_size: nodes of the largest graph.
    """
    most = max(counts.graphs for counts in batches)
    full = sorted((counts for counts in batches if counts.graphs == most), key=lambda counts: counts.nodes)
    rest = [counts for counts in batches if counts.graphs < most]
    if len(rest) > len(full):  # a budget of nodes decides how many graphs a batch holds
        full, rest = sorted(batches, key=lambda counts: counts.nodes), []
    ends = _cuts(np.array([counts.nodes for counts in full]), number)
    groups = [full[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    return tuple(_class_of(members, max_size) for members in [rest, *groups] if members)


def _cuts(nodes: np.ndarray, number: int) -> list[int]:
    """Ends of at most ``number`` groups of ascending counts that waste least when each is filled up to its largest.

    Dynamic programming over :data:`_QUANTILES` places to cut.
    """
    places = np.unique(np.linspace(0, len(nodes), _QUANTILES + 1).astype(np.int64))
    start, end = places[:-1, None], places[None, 1:]
    room = np.where(start < end, (end - start) * nodes[end - 1], np.iinfo(np.int64).max // 2)
    best, starts = room[0], []  # of the places up to every end in so many groups
    for _ in range(min(number, len(places) - 1) - 1):
        longer = best[:-1, None] + room[1:]
        starts.append(longer.argmin(0) + 1)
        best = np.minimum(best, longer.min(0))
        starts[-1] = np.where(best < longer.min(0), 0, starts[-1])
    ends, last = [len(places) - 1], len(places) - 2
    for of_end in reversed(starts):
        first = int(of_end[last])
        if first:
            ends.append(first)
            last = first - 1
    return [int(places[each]) for each in reversed(ends)]


def _class_of(members: list[BatchCounts], max_size: int) -> Capacity:
    nodes = _rounded(max(counts.nodes for counts in members) + 1)
    padding = nodes - min(counts.nodes for counts in members)
    padding_graphs = -(-padding // max_size) + 1
    capacity = Capacity(
        graphs=max(counts.graphs for counts in members),
        padding_graphs=padding_graphs,
        nodes=nodes,
        edges=_rounded(max(counts.edges for counts in members)),
        max_size=max_size,
        edge_sets={name: _rounded(max(counts.edge_sets[name] for counts in members)) for name in members[0].edge_sets},
        taps=_rounded(max(counts.taps for counts in members) + 2 * max_size),
    )
    if not any(counts.pairs for counts in members):
        return capacity
    pairs = max(counts.pairs + capacity.padding_pairs(nodes - counts.nodes) for counts in members)
    return replace(capacity, pairs=_rounded(pairs))


def _rounded(count: int) -> int:
    """Up to a multiple of 8: products read rows in groups."""
    return -(-count // 8) * 8
