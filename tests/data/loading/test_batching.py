from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.data.loading.batching import Batching, check_budget, in_order

SIZES = torch.randint(0, 60, (403,), generator=torch.Generator().manual_seed(1))
SKEWED = torch.cat([torch.full((50,), 2), torch.tensor([300, 280, 0, 0]), torch.arange(1, 60)])
CASES: list[dict[str, Any]] = [
    {"order": "shuffled", "batch_size": 16},
    {"order": "bucketed", "batch_size": 16},
    {"order": "shuffled", "node_budget": 300},
    {"order": "bucketed", "node_budget": 300},
]


def _epoch(batching: Batching, seed: int) -> list[Tensor]:
    batches = batching.epoch(torch.Generator().manual_seed(seed))
    assert len(batches) == batching.num_batches
    return batches


@pytest.mark.parametrize(
    "sizes", [SIZES, SKEWED, SIZES[:1], torch.tensor([5, 5])], ids=["even", "skewed", "one", "two"]
)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_epoch_holds_every_graph_once_in_as_many_batches_as_announced(case: dict[str, Any], sizes: Tensor) -> None:
    batching = Batching(sizes, **case)
    for seed in range(20):
        batches = _epoch(batching, seed)
        assert sorted(torch.cat(batches).tolist()) == list(range(len(sizes)))
        assert all(len(batch) for batch in batches)
        if "node_budget" in case:
            assert max(int(sizes[batch].sum()) for batch in batches) <= case["node_budget"]
        else:
            assert all(len(batch) <= case["batch_size"] for batch in batches)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_epochs_depend_on_the_generator_only_and_differ(case: dict[str, Any]) -> None:
    batching = Batching(SIZES, **case)
    first = _epoch(batching, 0)
    torch.rand(3)
    assert all(torch.equal(a, b) for a, b in zip(_epoch(Batching(SIZES, **case), 0), first, strict=True))
    together = [{frozenset(batch.tolist()) for batch in _epoch(batching, seed)} for seed in range(2)]
    assert not together[0] & together[1]  # other graphs share a batch


@pytest.mark.parametrize("budget", [None, 300])
def test_bucketed_batches_hold_similar_sizes(budget: int | None) -> None:
    def spread(order: str) -> float:
        shape = {"node_budget": budget} if budget else {"batch_size": 16}
        batches = _epoch(Batching(SIZES, order=order, **shape), 3)
        return sum(float(SIZES[batch].max() - SIZES[batch].min()) for batch in batches) / len(batches)

    assert spread("bucketed") < 0.4 * spread("shuffled")
    bucketed = _epoch(Batching(SIZES, order="bucketed", batch_size=16), 3)
    sizes = [float(SIZES[batch].float().mean()) for batch in bucketed]
    assert sizes != sorted(sizes)  # the batches themselves come in random order
    assert sizes != sorted(sizes, reverse=True)


def test_a_budget_is_used_up_evenly() -> None:
    shuffled = [int(SIZES[batch].sum()) for batch in _epoch(Batching(SIZES, node_budget=600), 0)]
    assert min(shuffled) > 0.85 * 600
    assert len(shuffled) <= 1.1 * int(SIZES.sum()) / 600
    bucketed = [len(batch) for batch in _epoch(Batching(SIZES, order="bucketed", node_budget=600), 0)]
    assert max(bucketed) > 3 * min(bucketed)  # many small graphs or few large ones


def test_a_budget_that_the_largest_graph_just_fits() -> None:
    for order in ("shuffled", "bucketed"):
        batches = _epoch(Batching(SKEWED, order=order, node_budget=300), 0)
        assert max(int(SKEWED[batch].sum()) for batch in batches) <= 300


@pytest.mark.parametrize("world", [2, 3, 7])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_processes_step_together_and_cover_everything(case: dict[str, Any], world: int) -> None:
    ranks = [Batching(SIZES, **case, rank=rank, world_size=world) for rank in range(world)]
    assert len({loader.num_batches for loader in ranks}) == 1
    shards = [torch.cat(_epoch(loader, 5)) for loader in ranks]
    joined = torch.cat(shards)
    assert set(joined.tolist()) == set(range(len(SIZES)))
    if "node_budget" not in case:
        assert len(joined) == -(-len(SIZES) // world) * world


def test_bucketed_steps_are_of_similar_size_in_all_processes() -> None:
    sizes = SIZES[:400]  # so that no example has to be repeated
    ranks = [_epoch(Batching(sizes, order="bucketed", batch_size=8, rank=r, world_size=2), 0) for r in range(2)]
    for mine, theirs in zip(*ranks, strict=True):
        assert abs(float(SIZES[mine].float().mean() - SIZES[theirs].float().mean())) < 6


def test_evaluation_keeps_the_order() -> None:
    assert [positions.tolist() for positions in in_order(torch.tensor([1, 2, 3, 4]), 3)] == [[0, 1, 2], [3]]
    budget = in_order(torch.tensor([4, 0, 1, 5, 0, 2, 3]), 1, node_budget=5)
    assert [positions.tolist() for positions in budget] == [[0, 1, 2], [3, 4], [5, 6]]
    assert in_order(torch.tensor([]), 3) == in_order(torch.tensor([]), 1, 5) == []


def test_impossible_requests_are_refused() -> None:
    with pytest.raises(ValueError, match=r"batching must be one of shuffled, bucketed; received 'sorted'"):
        Batching(SIZES, order="sorted")  # type: ignore[arg-type]
    for budget in (-1, 299):
        with pytest.raises(ValueError, match=f"largest graph, which has 300 nodes; received {budget}"):
            check_budget(SKEWED, budget)
    check_budget(SKEWED, 300)
    check_budget(torch.tensor([]), 1)
