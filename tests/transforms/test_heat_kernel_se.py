from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms import heat_kernel_se
from graphbench.transforms.heat_kernel_se import HeatKernelSE
from tests.transforms.small_graphs import store_of, undirected


def test_equals_graphgps(golden: Callable[[str], dict[str, Any]]) -> None:
    recorded = golden("graphgps/stats_HKdiagSE")
    store = store_of(recorded["in/edge_index"], recorded["in/ptr"])
    encode = HeatKernelSE(recorded["config"]["times"])
    torch.testing.assert_close(encode.exact(store)["heat"], recorded["out/HKdiagSE_float64"], atol=1e-12, rtol=0)
    heat = encode(store)["heat"]
    assert heat.dtype == torch.float32
    torch.testing.assert_close(heat, recorded["out/HKdiagSE"], atol=1e-6, rtol=1e-5)


def test_equals_the_matrix_exponential_without_what_is_left_in_the_end() -> None:
    store = sbm_cluster((8,), 0, base=BlockModel(3, 2, 5, 0.4, 0.1))
    out = HeatKernelSE([0.5, 1, 3]).exact(store)["heat"]
    for graph, rows in enumerate(torch.arange(store.num_nodes).split(store.sizes.tolist())):
        adjacency = torch.zeros(len(rows), len(rows), dtype=torch.float64)
        adjacency[tuple(store.gather([graph]).edge_index)] = 1
        matrix = torch.diag(adjacency.sum(1)) - adjacency
        # After a long time the heat of a component is spread evenly over it.
        limit = torch.linalg.matrix_exp(-1e3 * matrix).diagonal()
        for column, time in enumerate((0.5, 1, 3)):
            expected = torch.linalg.matrix_exp(-time * matrix).diagonal() - limit
            torch.testing.assert_close(out[rows, column], expected, atol=1e-9, rtol=0)


def test_an_edge_by_hand() -> None:
    # eigenvalue 2, eigenvector (1, -1) / sqrt 2; the third node is isolated
    heat = HeatKernelSE([0, 1.5]).exact(undirected(3, (0, 1)))["heat"]
    expected = [[0.5, math.exp(-3) / 2]] * 2 + [[0, 0]]
    torch.testing.assert_close(heat, torch.tensor(expected, dtype=torch.float64))


def test_directed_graphs_are_made_undirected_and_self_loops_left_out() -> None:
    directed = GraphStore.from_arrays([3], [3], torch.tensor([[0, 1, 1], [1, 2, 1]]))
    expected = HeatKernelSE([1, 2]).exact(undirected(3, (0, 1), (1, 2)))["heat"]
    torch.testing.assert_close(HeatKernelSE([1, 2]).exact(directed)["heat"], expected)


def test_empty_graphs() -> None:
    store = GraphStore.from_arrays([0, 1], [0, 0], torch.empty(2, 0))
    assert HeatKernelSE([1, 4])(store)["heat"].tolist() == [[0, 0]]


@pytest.mark.parametrize("times", [[], [-1], [1, math.inf]], ids=str)
def test_bad_times(times: list[float]) -> None:
    with pytest.raises(ValueError, match="each at least 0, received"):
        HeatKernelSE(times)


TIMES = [0.0, 0.3, 2.0, 40.0]


def _uneven() -> GraphStore:
    """Graphs with hubs, several components, isolated nodes, double edges, loops, and a directed one."""
    star = [(0, leaf) for leaf in range(1, 30)] + [(1, 2), (1, 2), (30, 31), (31, 32), (33, 33)]
    both = [*star, *((b, a) for a, b in star if a != b)]
    one_way = [(0, 1), (1, 2), (3, 1)]
    return GraphStore.from_arrays([36, 5], [len(both), 3], torch.tensor([*both, *one_way]).T)


@pytest.mark.parametrize("make", [_uneven, lambda: sbm_cluster((2,), 0, base=BlockModel(4, 10, 20, 0.4, 0.1))])
def test_large_graphs_have_the_same_heat(make: Callable[[], GraphStore], monkeypatch: pytest.MonkeyPatch) -> None:
    store, encode = make(), HeatKernelSE(TIMES)
    dense = encode.exact(store)["heat"]
    monkeypatch.setattr(HeatKernelSE, "large_from", 1)
    # The error of the series, and rounding: terms of at most 1 in products of hundreds of terms.
    torch.testing.assert_close(
        encode.exact(store)["heat"], dense, atol=1e-10 + 1e4 * torch.finfo(dense.dtype).eps, rtol=0
    )


def test_the_largest_graphs_have_an_estimate_with_the_error_it_states(monkeypatch: pytest.MonkeyPatch) -> None:
    store, probes = _uneven(), 2000
    dense = HeatKernelSE(TIMES).exact(store)["heat"]
    later = HeatKernelSE([2 * time for time in TIMES]).exact(store)["heat"]
    monkeypatch.setattr(HeatKernelSE, "large_from", 1)
    monkeypatch.setattr(heat_kernel_se, "OPERATIONS", 0)
    estimate = HeatKernelSE(TIMES, probes=probes).exact(store)["heat"]
    deviation = (later / probes).clamp_min(0).sqrt()
    assert bool(((estimate - dense).abs() <= 6 * deviation + 1e-9).all())
    assert float((estimate - dense).abs().max()) > 1e-6, "or it was no estimate"
    assert torch.equal(estimate, HeatKernelSE(TIMES, probes=probes).exact(store)["heat"])


def test_bad_probes() -> None:
    with pytest.raises(ValueError, match="probes must be at least 1, received 0"):
        HeatKernelSE([1.0], probes=0)
