"""Expander graphs: recorded facts of Exphormer's generator, regularity, the spectral bound, seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from graphbench import registry
from graphbench.data.store import GraphStore
from graphbench.transforms.algorithms.cache import apply, describe
from graphbench.transforms.expander import DRAW, Expander, expanders, spectral_gaps

ALGORITHMS = ("Random-d", "Random-d-2", "Hamiltonian")
SIZES = [3, 40, 0, 1, 10, 11, 130, 40]


def store_of(sizes: list[int]) -> GraphStore:
    return GraphStore.from_arrays(
        sizes, [0] * len(sizes), torch.empty(2, 0, dtype=torch.int64), x=torch.ones(sum(sizes))
    )


def adjacency_of(pairs: np.ndarray, size: int) -> np.ndarray:
    adjacency = np.zeros((size, size))
    np.add.at(adjacency, tuple(pairs), 1)
    return adjacency


def gap_of(adjacency: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(np.diag(adjacency.sum(1)) - adjacency)[1])


def bound(degree: int) -> float:
    return 2 * degree - 2 * math.sqrt(2 * degree - 1) - 0.1


def test_draws_are_those_of_released_code(golden: Any) -> None:
    """From the same stream the same graph, wherever the released code took one that really meets the bound."""
    compared = 0
    for row in golden("exphormer/expander_properties")["out/table"].numpy():
        algorithm, size, degree, seed = (int(value) for value in row[:4])
        if size <= 10:
            continue
        (pairs,) = expanders(size, degree, ALGORITHMS[algorithm], 100, [np.random.default_rng(seed)])
        adjacency = adjacency_of(pairs, size)
        edges, smallest, largest, loops, _, symmetric, recorded_gap, recorded_bound = row[4:]
        assert recorded_bound == pytest.approx(bound(degree))
        assert (pairs.shape[1], symmetric) == (edges, (adjacency == adjacency.T).all())
        assert adjacency.sum(0).min() == smallest
        assert adjacency.sum(0).max() == largest
        if recorded_gap >= recorded_bound:
            assert gap_of(adjacency) == pytest.approx(recorded_gap, abs=1e-8)
            assert np.trace(adjacency) == loops
            compared += 1
        assert gap_of(adjacency) >= recorded_bound
    assert compared == 33


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_graph_gets_a_regular_expander(algorithm: str) -> None:
    found = Expander(3, algorithm)(store_of(SIZES))
    ptr = found["ptr"].tolist()
    assert found["index"].dtype == torch.int32
    assert len(ptr) == len(SIZES) + 1
    for size, first, last in zip(SIZES, ptr, ptr[1:]):
        adjacency = adjacency_of(found["index"][:, first:last].numpy(), size)
        assert (adjacency == adjacency.T).all()
        if size <= 10:
            assert (adjacency == 1 - np.eye(size)).all()
        else:
            assert (adjacency.sum(0) == 6).all()
            assert gap_of(adjacency) >= bound(3)
        if algorithm == "Hamiltonian":
            assert not np.trace(adjacency)


@pytest.mark.parametrize("size", [20, 150])
def test_gaps_are_eigenvalues_of_the_laplacian(size: int) -> None:
    rng = np.random.default_rng(0)
    graphs = []
    for _ in range(5):
        source, target = DRAW["Random-d"](size, 4, rng)
        graphs.append(np.stack([np.append(source, target), np.append(target, source)]))
    expected = [gap_of(adjacency_of(pairs, size)) for pairs in graphs]
    assert spectral_gaps(graphs, size, 4) == pytest.approx(np.array(expected), abs=0.01)


@pytest.mark.parametrize("size", [12, 150])
def test_two_components_have_no_gap(size: int) -> None:
    """A draw that falls apart must never look like an expander, loops or not."""
    half = np.arange(size // 2)
    ring = np.stack([half, np.roll(half, 1)])
    both = np.concatenate([ring, ring[::-1]], axis=1)
    apart = np.concatenate([both, both + size // 2], axis=1)
    loops = np.tile(np.arange(size), 2)
    assert spectral_gaps([apart], size, 1)[0] == pytest.approx(0, abs=0.01)
    with_loops = np.concatenate([apart, np.stack([loops, loops])], axis=1)
    assert spectral_gaps([with_loops], size, 2)[0] == pytest.approx(0, abs=0.01)


def test_best_of_all_draws_where_none_meets_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps, seen = iter([0.1, 0.7, 0.3, 0.7]), []

    def recorded(graphs: list[np.ndarray], size: int, degree: int) -> np.ndarray:
        seen.extend(graphs)
        return np.array([next(gaps)])

    monkeypatch.setattr("graphbench.transforms.expander.spectral_gaps", recorded)
    (pairs,) = expanders(11, 5, "Random-d", 4, [np.random.default_rng(0)])
    assert len(seen) == 4
    assert pairs is seen[1]


def test_draws_end_with_the_first_that_meets_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def recorded(graphs: list[np.ndarray], size: int, degree: int) -> np.ndarray:
        drawn.append(len(graphs))
        return np.array([4.0, 3.0, 4.0])[: len(graphs)] if len(drawn) == 1 else np.full(len(graphs), 4.0)

    monkeypatch.setattr("graphbench.transforms.expander.spectral_gaps", recorded)
    expanders(11, 5, "Random-d", 100, [np.random.default_rng(seed) for seed in range(3)])
    assert drawn == [3, 1]


def test_a_graph_does_not_depend_on_the_others() -> None:
    few, many = Expander()(store_of([40, 11])), Expander()(store_of([40, 11, 40, 90]))
    last = few["ptr"][-1]
    assert torch.equal(few["index"], many["index"][:, :last])
    first, third = many["index"][:, : many["ptr"][1]], many["index"][:, many["ptr"][2] : many["ptr"][3]]
    assert torch.equal(first, third), "the same graph"
    ring = torch.arange(40)
    edges = torch.stack([torch.cat([ring, ring]), torch.cat([ring.roll(1), ring.roll(3)])])
    two = Expander()(GraphStore.from_arrays([40, 40], [40, 40], edges))
    assert not torch.equal(*two["index"].chunk(2, 1)), "of one size, with other edges"


def test_seed_decides() -> None:
    store = store_of([40, 11])
    assert torch.equal(Expander(seed=1)(store)["index"], Expander(seed=1)(store)["index"])
    assert not torch.equal(Expander(seed=1)(store)["index"], Expander(seed=2)(store)["index"])


def test_degree_is_limited_by_the_size() -> None:
    found = Expander(degree=50, max_num_iters=2)(store_of([12]))
    assert torch.bincount(found["index"][0]).tolist() == [22] * 12


def test_both_spellings_of_the_second_algorithm() -> None:
    store = store_of([30])
    assert torch.equal(Expander(3, "Random-d-2")(store)["index"], Expander(3, "Random-d2")(store)["index"])


def test_empty_store() -> None:
    found = Expander()(store_of([]))
    assert found["index"].shape == (2, 0)
    assert found["ptr"].tolist() == [0]


def test_batches_carry_the_expander(tmp_path: Any) -> None:
    store = store_of(SIZES)
    encoded = apply(store, {"expander": Expander(2)}, tmp_path)
    batch = encoded.gather([1, 5])
    pairs = batch.edge_sets["expander"]
    assert pairs.ptr.tolist() == [0, 160, 204]
    assert pairs.index[:, 160:].min() >= 40
    assert describe(Expander(2))["arguments"] == {
        "degree": 2,
        "algorithm": "Random-d",
        "max_num_iters": 100,
        "seed": 0,
    }
    assert registry.lookup("transforms", "Expander") is Expander


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="degree must be at least 1, received 0"):
        Expander(0)
    with pytest.raises(ValueError, match="Random-d2, Hamiltonian; received 'Random', did you mean 'Random-d'"):
        Expander(3, "Random")  # type: ignore[arg-type]
