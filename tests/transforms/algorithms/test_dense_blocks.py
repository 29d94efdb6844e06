from __future__ import annotations

import threading
import time

import pytest
import torch

from graphbench import registry
from graphbench.data.files.progress import Display
from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.transforms.algorithms import dense_blocks
from graphbench.transforms.algorithms.dense_blocks import MAX_NODES, Stack, StackTransform, encode
from graphbench.transforms.algorithms.threads import in_threads
from graphbench.transforms.electrostatic_se import ElectrostaticSE
from graphbench.transforms.heat_kernel_se import HeatKernelSE
from graphbench.transforms.laplacian_pe import LaplacianPE
from tests.transforms.small_graphs import undirected


@pytest.fixture
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_blocks, "_CELLS", 1)  # a job per graph
    store = sbm_cluster((20,), 0, base=BlockModel(3, 2, 9, 0.6, 0.2))
    heat = HeatKernelSE([1.0, 2.0])
    threads: set[int] = set()
    original = HeatKernelSE.fill

    def fill(self: HeatKernelSE, stack: Stack, out: dict[str, torch.Tensor]) -> None:
        threads.add(threading.get_ident())
        assert torch.get_num_threads() == 1
        original(self, stack, out)

    with monkeypatch.context() as patched:
        patched.setattr(HeatKernelSE, "fill", fill)
        together = encode(store, [heat])[0]["heat"]
    assert threading.get_ident() not in threads
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    torch.testing.assert_close(encode(store, [heat])[0]["heat"], together, rtol=0, atol=1e-7)


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_a_thread_stops_the_others() -> None:
    started: list[int] = []

    def work(job: int) -> None:
        started.append(job)
        time.sleep(1e-3)
        raise ValueError(f"job {job}")

    with pytest.raises(ValueError, match="job"):
        list(in_threads(work, range(10_000)))
    assert len(started) < 10_000
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_some_jobs_run_alone_and_first() -> None:
    threads: dict[int, int] = {}

    def work(job: int) -> None:
        threads[job] = torch.get_num_threads()

    order = list(in_threads(work, range(6), alone=[False, True, False, False, True, False]))
    assert order[:2] == [1, 4]
    assert sorted(order) == list(range(6))
    assert [threads[job] for job in range(6)] == [1, 2, 1, 1, 2, 1]


def test_too_large_for_a_dense_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_NODES == 16_384
    monkeypatch.setattr(dense_blocks, "MAX_NODES", 3)
    with pytest.raises(UserError, match=r"ElectrostaticSE .*20,000 nodes and its matrix 3 GiB.*allowed are 3 nodes"):
        ElectrostaticSE()(undirected(20_000, (0, 1)))


def test_it_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(Display, "update", lambda self, fraction: seen.append(fraction))
    with Display("computing", lambda text: None):
        encode(sbm_cluster((6,), 0, base=BlockModel(2, 3, 5, 0.7, 0.3)), [LaplacianPE(4)])
    assert len(seen) > 1
    assert seen == sorted(seen)
    assert seen[-1] == 1


ARGUMENTS: dict[str, dict[str, object]] = {
    "RandomWalkSE": {"times": [1, 2, 5]},
    "RandomWalkEdgeSE": {"times": [1, 4]},
    "HeatKernelSE": {"times": [1.0, 3.0]},
    "Wavelets": {"scales": [1.0, 3.0]},
}
STACKED = [
    name for name in registry.names("transforms") if issubclass(registry.lookup("transforms", name), StackTransform)
]


@pytest.mark.parametrize("name", STACKED)
def test_a_graph_is_encoded_alike_alone_and_among_others(name: str) -> None:
    store = sbm_cluster((8,), 0, base=BlockModel(3, 2, 6, 0.6, 0.3))
    transform = registry.lookup("transforms", name)(**ARGUMENTS.get(name, {}))
    together = transform.exact(store)
    limits = {"edge": store.edge_ptr, "pair": store.pair_ptr}.get(transform.level, store.node_ptr)
    for graph in range(store.num_graphs):
        batch = store.gather([graph])
        single = GraphStore.from_arrays([batch.num_nodes], [batch.edge_index.shape[1]], batch.edge_index)
        for output, values in transform.exact(single).items():
            among = together[output][limits[graph] : limits[graph + 1]]
            if name == "EffectiveResistance":  # as many columns as the largest graph needs
                values, among = (
                    torch.cdist(values, values),
                    torch.cdist(among[:, : values.shape[1]], among[:, : values.shape[1]]),
                )
            if output == "eigvecs":  # a sign per vector; eigenvalues of these graphs are simple
                values, among = values.abs(), among.abs()
            torch.testing.assert_close(among, values, atol=1e-9, rtol=0, equal_nan=True)


def _two_way(name: str) -> bool:
    """Walks and the matrix of GECO's truncated SVD follow the direction of an edge."""
    return not name.startswith("RandomWalk") and name != "TruncatedSVD"


@pytest.mark.parametrize("name", [name for name in STACKED if _two_way(name)])
def test_one_way_edges_are_made_two_way_and_loops_left_out(name: str) -> None:
    transform = registry.lookup("transforms", name)(**ARGUMENTS.get(name, {}))
    ends = [(0, 1), (1, 2), (2, 0), (2, 3)]
    both = torch.tensor([*ends, *((b, a) for a, b in ends)]).T
    one_way = torch.tensor([*ends, (0, 1), (3, 3)]).T  # repeated edges of a directed graph count once
    plain, directed = (
        transform.exact(GraphStore.from_arrays([4], [edges.shape[1]], edges)) for edges in (both, one_way)
    )
    for output, values in plain.items():
        if name == "EffectiveResistance":
            continue  # its rows are the first edges, which differ
        kept = values[: len(ends)] if transform.level == "edge" else values
        found = directed[output][: len(kept)]
        torch.testing.assert_close(found.abs(), kept.abs(), atol=1e-9, rtol=0, equal_nan=True)
