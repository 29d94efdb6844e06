"""Attention that knows distances, against softmax attention without; and the distances against networkx.

Real Peptides graphs: decay and focal attention (focal length 2), forward and backward, against this package's own
softmax attention on the same ragged batch; hop distances of 2,000 graphs against ``networkx``. Generated graphs of mean
degree 10, up to 100,000 nodes: peak memory of focal attention on lists of neighbours against their number, each size in
a fresh process (``python -m scripts.benchmarks.distance NODES`` prints pairs and MiB).
"""

from __future__ import annotations

import functools
import subprocess
import sys

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import to_networkx

from graphbench.data.store import GraphStore
from graphbench.data.stored_pairs import StoredHops
from graphbench.ops.decay_attention import decay_attention
from graphbench.ops.focal_attention import focal_attention
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.structures import PairBlocks, Ragged
from graphbench.transforms.hop_neighbors import HopNeighbors
from graphbench.transforms.shortest_paths import ShortestPaths
from scripts.benchmarks.case import Case
from scripts.benchmarks.encodings import peptides, separate_graphs
from scripts.benchmarks.measuring import ROOT, paired, print_peak, step

BATCH, HEADS, WIDTH = 64, 4, 16
REACH = 2
PAIRS, SEARCH_PAIRS = 9, 3
SIZES = (12_500, 25_000, 50_000, 100_000)
DEGREE = 10
EXPONENT = 1.1


def run() -> list[Case]:
    """Peptides-func, from dataset.dir or $GRAPHBENCH_DATA."""
    store = peptides()
    batch = store.with_encodings(pairs=ShortestPaths()(store)["distance"]).gather(torch.arange(BATCH))
    assert batch.pairs is not None
    return [*_operators(batch.ragged, batch.pairs), _search(store), _memory()]


def _operators(ragged: Ragged, pairs: PairBlocks) -> list[Case]:
    torch.manual_seed(0)
    inputs = [torch.randn(ragged.num_rows, HEADS, WIDTH, requires_grad=True) for _ in range(3)]
    start = torch.full((HEADS,), 5.0, requires_grad=True)
    decay = functools.partial(decay_attention, *inputs, ragged, pairs.distance, start, decay=0.6)
    sloped = functools.partial(decay, slope=0.1)
    focal = functools.partial(focal_attention, *inputs, ragged, pairs, REACH)
    softmax = step(functools.partial(softmax_attention, *inputs, ragged), inputs)
    where = f"{BATCH} Peptides graphs, {HEADS} heads of width {WIDTH}, {torch.get_num_threads()} threads"
    cases = []
    for name, ours in (
        ("decay attention", step(decay, [*inputs, start])),
        ("decay attention, slope 0.1", step(sloped, [*inputs, start])),
        (f"focal attention, length {REACH}", step(focal, inputs)),
    ):
        for warm_up in (ours, softmax):
            warm_up()
        cases.append(Case(f"{name}, {where}", "softmax attention", *paired(ours, softmax, PAIRS), target=1 / 1.5))
    return cases


def _search(store: GraphStore) -> Case:
    """Distances of all pairs, ours and networkx's."""
    graphs = [to_networkx(each, to_undirected=True) for each in separate_graphs(store)]

    def ours() -> Tensor:
        return ShortestPaths()(store)["distance"]

    def peer() -> np.ndarray:
        return np.concatenate([_by_networkx(each) for each in graphs])

    if not np.array_equal(ours().numpy(), peer()):
        raise AssertionError("the two sides do not agree")
    seconds = paired(ours, peer, SEARCH_PAIRS)
    return Case(f"hop distances of {store.num_graphs:,} Peptides graphs", "networkx", *seconds, target=10.0)


def _by_networkx(graph: nx.Graph) -> np.ndarray:
    size = graph.number_of_nodes()
    found = np.full((size, size), 255, dtype=np.uint8)
    for source, reached in nx.all_pairs_shortest_path_length(graph):
        found[source, list(reached)] = list(reached.values())
    return found.reshape(-1)


def _memory() -> Case:
    """The exponent of peak memory over the number of pairs within reach."""
    pairs, mib = zip(*(_in_process(nodes) for nodes in SIZES), strict=True)
    slope = float(np.polyfit(np.log(pairs), np.log(mib), 1)[0])
    measured = ", ".join(
        f"{nodes:,} nodes, {int(count):,} pairs: {value:,.0f} MiB"
        for nodes, count, value in zip(SIZES, pairs, mib, strict=True)
    )
    name = f"exponent of focal attention's peak memory, length {REACH}, mean degree {DEGREE} ({measured})"
    return Case(name, "limit", [slope], [EXPONENT], target=1.0, unit="")


def _in_process(nodes: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "scripts.benchmarks.distance", str(nodes)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    count, mib = done.stdout.split()[-2:]
    return float(count), float(mib)


def main(nodes: int) -> None:
    """One size in this process; prints the pairs, and the peak of a step above what was held before it."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(nodes, (2, nodes * DEGREE // 2), generator=generator)
    both = torch.cat([ends, ends.flip(0)], dim=1)
    store = GraphStore.from_arrays([nodes], [both.shape[1]], both)
    near = store.with_encodings(hops=StoredHops(**HopNeighbors(REACH)(store))).gather(torch.zeros(1, dtype=int)).hops
    assert near is not None
    inputs = [torch.randn(nodes, HEADS, WIDTH, requires_grad=True) for _ in range(3)]
    print(near.col.numel())
    print_peak(step(functools.partial(focal_attention, *inputs, Ragged.from_sizes([nodes]), near, REACH), inputs))


if __name__ == "__main__":
    main(int(sys.argv[1]))
