"""Padded batches hold the graphs of plain ones, and little else."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import pytest
import torch

from graphbench.data.gather import sorted_edges
from graphbench.data.loading import assembly
from graphbench.data.loading.assembly import BatchAssembler, why_not
from graphbench.data.loading.padded import PaddedBatches, capacity_classes, numbers_of
from graphbench.data.store import GraphStore
from graphbench.data.stored_pairs import StoredEdges
from graphbench.ops.batch_rows import batch_rows
from graphbench.structures import BatchCounts, SparseRows

SIZES = [3, 1, 6, 4, 2]


def store() -> GraphStore:
    counts = [2 * size for size in SIZES]
    random = np.random.default_rng(0)
    index = np.concatenate([random.integers(size, size=(2, 2 * size)) for size in SIZES], axis=1)
    pairs = sum(size * size for size in SIZES)
    graphs = GraphStore.from_arrays(
        SIZES,
        counts,
        torch.from_numpy(index),
        x=torch.randn(sum(SIZES), 3),
        edge_attr=torch.randint(4, (sum(counts), 2)),
        y=torch.arange(len(SIZES)),
    )
    asked = StoredEdges(graphs.node_ptr, torch.zeros(2, sum(SIZES), dtype=torch.int64))
    distance = torch.randint(5, (pairs,), dtype=torch.uint8)
    return graphs.replace(pairs=distance, pe={"a.b": torch.randn(sum(SIZES), 2)}, edge_sets={"label": asked})


def test_real_rows_are_those_of_a_plain_batch_and_come_first() -> None:
    graphs = [3, 0, 4]
    kept = store()
    assembler = BatchAssembler(kept)
    (capacity,) = capacity_classes([assembler.counts(np.asarray([2, 3, 0]))], 1, assembler.max_size)
    capacity = dataclasses.replace(capacity, padding_graphs=4, graphs=4, pairs=200)
    assert capacity.fits(assembler.counts(np.asarray(graphs)))
    padded, plain = assembler.assemble(torch.tensor([*graphs, -1]), capacity), kept.gather(graphs)
    assert padded.ragged.sizes[:4] == (*plain.ragged.sizes, 0)
    assert padded.ragged.sizes[-1] == 0
    assert sum(padded.ragged.sizes) == padded.num_nodes == capacity.nodes
    nodes, edges = plain.num_nodes, plain.num_edges
    assert torch.equal(padded.x[:nodes], plain.x)
    assert torch.equal(padded.pe["a.b"][:nodes], plain.pe["a.b"])
    assert torch.equal(padded.edge_index[:, :edges], plain.edge_index)
    assert torch.equal(padded.edge_attr[:edges], plain.edge_attr)
    assert torch.equal(padded.y[:3], plain.y)
    assert torch.equal(padded.pairs.distance[: plain.pairs.distance.numel()], plain.pairs.distance)
    assert torch.equal(padded.edge_sets["label"].index[:, :nodes], plain.edge_sets["label"].index)
    assert (padded.edge_index[:, edges:] >= nodes).all()
    for level, count in (("graph", 3), ("node", nodes), ("edge", edges), ("pair", plain.ragged.num_pairs)):
        real = padded.real(level)
        assert int(real.count) == int(real.mask.sum()) == count, level
        assert real.mask[:count].all(), level
    assert int(padded.real_pairs_of("label").count) == nodes


def test_lists_found_with_the_rows_are_those_that_a_layer_would_make(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a GPU's kernel, whose place the loop over graphs takes here."""
    monkeypatch.setattr(assembly, "batch_rows", partial(batch_rows, backend="reference"))
    kept = store()
    monkeypatch.setitem(kept._cache, "edge_order", sorted_edges(kept))
    assembler = BatchAssembler(kept)
    (capacity,) = capacity_classes([assembler.counts(np.asarray([2, 3, 0]))], 1, assembler.max_size)
    padded = assembler.assemble(torch.tensor([3, 4, 0]), capacity)
    found, made = padded.adjacency(), padded.replace().adjacency()
    assert found is not made
    for ours, expected in ((found.by_target, made.by_target), (found.by_source, made.by_source)):
        assert all(torch.equal(getattr(ours, name), getattr(expected, name)) for name in ("ptr", "entry", "other"))
    assert torch.equal(found.source, made.source)
    assert torch.equal(found.target, made.target)


def test_what_has_no_fixed_capacity() -> None:
    sparse = SparseRows.of(torch.eye(sum(SIZES)))
    assert why_not(store().with_features(sparse)) == "sparse node features have no fixed capacity"
    assert why_not(store()) is None


def test_classes_hold_what_they_were_made_for_and_waste_little() -> None:
    random = np.random.default_rng(1)
    sizes = random.integers(10, 40, size=(300, 32))
    counts = [BatchCounts(graphs=32, nodes=int(row.sum()), edges=2 * int(row.sum())) for row in sizes]
    last = BatchCounts(graphs=5, nodes=100, edges=200)
    classes = capacity_classes([*counts, last], 4, 40)
    assert len(classes) == 5
    chosen = [next(each for each in classes if each.fits(count)) for count in [*counts, last]]
    assert chosen[-1].nodes <= 112
    waste = sum(each.nodes for each in chosen) / sum(count.nodes for count in [*counts, last]) - 1
    assert waste < 0.06
    assert not any(each.fits(BatchCounts(graphs=33, nodes=800, edges=1600)) for each in classes)
    assert not any(each.fits(BatchCounts(graphs=32, nodes=5000, edges=1600)) for each in classes)


def test_a_plan_beyond_all_classes_is_not_captured() -> None:
    padded = PaddedBatches(store())
    classes = padded.classes([np.asarray([0, 1])])
    plan = padded.plan(np.asarray([1, 0]), classes)
    assert plan.is_captured
    assert numbers_of(plan).tolist() == [1, 0]
    assert not padded.plan(np.asarray([2, 3]), classes).is_captured


@pytest.mark.parametrize("rows", [2, 32])
def test_pieces_of_a_padded_partition(rows: int) -> None:
    assembler = BatchAssembler(store())
    (capacity,) = capacity_classes([assembler.counts(np.asarray([2, 3, 0]))], 1, assembler.max_size)
    ragged = assembler.assemble(torch.tensor([2, 3, 0]), capacity).ragged
    pieces = ragged.in_pieces(rows)
    assert pieces.sizes[:-1] == tuple(-(-size // rows) for size in ragged.sizes[:-1])
    assert sum(pieces.sizes) == pieces.num_rows
