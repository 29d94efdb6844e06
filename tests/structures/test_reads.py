"""What a module read of one batch is prepared in the next ones."""

from __future__ import annotations

import copy
import pickle

import torch
from torch import Tensor

from graphbench.structures import Adjacency, GraphBatch, Ragged
from graphbench.structures.memo import asking, by_handle
from graphbench.structures.reads import Reads
from tests.contract import example_batch


class Both:
    """Holds derived values that are read themselves."""

    def __init__(self, batch: GraphBatch) -> None:
        self.doubled = Ragged.from_sizes([2 * size for size in batch.ragged.sizes])
        self.adjacency: Adjacency = batch.adjacency(norm="row")


def _count(batch: GraphBatch, factor: int) -> Tensor:
    return torch.full((batch.num_nodes,), factor)


def _first(ragged: Ragged) -> int:
    return ragged.sizes[0]


def read(batch: GraphBatch) -> None:
    """As a module would; operators read, too."""
    assert batch.derived(_count, 3).numel()
    assert batch.derived(Both).doubled.graph_id.numel()
    with asking(None):
        assert batch.ragged.derived(_first)


def test_prepared_as_it_was_read() -> None:
    first, second = example_batch((4, 3)), example_batch((5, 2, 6))
    with asking(set()) as asked:
        read(first)
    reads = Reads.of(first, asked)
    assert not second.known
    reads.prepare(second)
    known = {(function, arguments): value for function, arguments, value in second.known}
    assert torch.equal(known[_count, (3,)], torch.full((13,), 3))
    both = known[Both, ()]
    assert both is second.derived(Both)
    assert "graph_id" in vars(both.doubled)
    for each in (second, second.ragged, both.doubled, both.adjacency):
        assert by_handle(vars(each)["handle"]) is each
    assert second.ragged.known == ()  # what an operator derives is its own affair
    assert not hasattr(second.ragged, "_first")


def test_copies_have_no_handle() -> None:
    batch = example_batch((4, 3))
    Reads.of(batch, set()).prepare(batch)
    for twin in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):
        assert "handle" not in vars(twin)
        assert "handle" not in vars(twin.ragged)
        assert int(twin.ragged.handle) != int(batch.ragged.handle)


def test_a_batch_with_other_state_keeps_what_is_prepared() -> None:
    batch = example_batch((4, 3))
    with asking(set()) as asked:
        read(batch)
    Reads.of(batch, asked).prepare(batch)
    later = batch.with_state(extra={"a": torch.ones(1)})
    assert later.known is batch.known
    assert later.derived(Both) is batch.derived(Both)
