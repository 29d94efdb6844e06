"""A shuffled batch from the store against the same from torch_geometric's DataLoader over an InMemoryDataset.

Both hold the same graphs and must give the same batch before anything is timed. The peer has been through its data
once, so that the single graphs it keeps from then on are there.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.loader import DataLoader

from graphbench.benchmarks.case import Case
from graphbench.config import load_config
from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.factory.data import read_data

PAIRS = 9
SETS = (
    ("ZINC", 256, 10.0, "{format: PyG-ZINC, name: subset, task: graph, task_type: regression, transductive: false}"),
    (
        "Peptides",
        32,
        5.0,
        "{format: OGB, name: peptides-functional, task: graph, task_type: classification_multilabel, "
        "transductive: false}",
    ),
)
"""Name, graphs per batch, target, dataset section."""


def run() -> list[Case]:
    """Real data from dataset.dir or $GRAPHBENCH_DATA."""
    return [_case(*settings) for settings in SETS]


def _case(name: str, size: int, target: float, section: str) -> Case:
    store = _read(section)
    peer = InMemory(store)
    everything = torch.arange(store.num_graphs)
    loaders = GraphLoaders(store, Splits.of(everything, [], []), LoaderProcess(0), batch_size=size, transductive=False)
    peer_loader = DataLoader(peer, batch_size=size, shuffle=True)
    _check_equal(store, peer, torch.randperm(store.num_graphs)[:size])
    for _ in peer_loader:  # fills its cache of single graphs
        pass

    def ours(epoch: int) -> Iterable[object]:
        return loaders.train(epoch)

    def theirs(epoch: int) -> Iterable[object]:
        return peer_loader

    ours_per_batch: list[float] = []
    peer_per_batch: list[float] = []
    for pair in range(PAIRS):
        measured = [(ours_per_batch, ours), (peer_per_batch, theirs)]
        for values, batches in reversed(measured) if pair % 2 else measured:
            values.append(_seconds(batches, pair))
    threads = f"{torch.get_num_threads()} threads"
    return Case(f"{name}, batch {size}, {threads}", "PyG DataLoader", ours_per_batch, peer_per_batch, target=target)


def _seconds(batches: Callable[[int], Iterable[object]], epoch: int) -> float:
    """Per batch, over a whole epoch."""
    start = time.perf_counter()
    count = sum(1 for _ in batches(epoch))
    return (time.perf_counter() - start) / count


class InMemory(InMemoryDataset):
    """The graphs of a store as a PyG data set."""

    def __init__(self, store: GraphStore) -> None:
        super().__init__(None)
        graphs = []
        for number in range(store.num_graphs):
            batch = store.gather([number])
            graphs.append(Data(x=batch.x, edge_index=batch.edge_index, edge_attr=batch.edge_attr, y=batch.y))
        self.data, self.slices = self.collate(graphs)


def _check_equal(store: GraphStore, peer: InMemory, chosen: Tensor) -> None:
    ours, theirs = store.gather(chosen), Batch.from_data_list([peer[int(graph)] for graph in chosen])
    for mine, other in (
        (ours.x, theirs.x),
        (ours.edge_index, theirs.edge_index),
        (ours.edge_attr, theirs.edge_attr),
        (ours.y, theirs.y),
        (ours.ragged.ptr, theirs.ptr),
    ):
        torch.testing.assert_close(mine, other, rtol=0, atol=0)


def _read(section: str) -> GraphStore:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.yaml"
        path.write_text(f"dataset: {section}\n")
        return read_data(load_config(path)).store
