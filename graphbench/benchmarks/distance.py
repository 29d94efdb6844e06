"""Attention that knows distances, against softmax attention without; and the distances against networkx.

Real Peptides graphs: decay and focal attention (focal length 2), forward and backward, against this package's own
softmax attention on the same ragged batch; hop distances of 2,000 graphs against ``networkx``. Generated graphs of mean
degree 10, up to 100,000 nodes: peak memory of focal attention on lists of neighbours against their number, each size in
a fresh process (``python -m graphbench.benchmarks.distance NODES`` prints pairs and MiB).

On a GPU attention alone, on generated graphs of Peptides' sizes, and against plain PyTorch as well: padded to the
longest graph, the damped scores of decay attention by two products and a softmax, focal attention by
``scaled_dot_product_attention`` with a dense additive mask. That mask and what depends on sizes is made before.
"""

from __future__ import annotations

import functools
import json
import math
import sys

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from torch_geometric.utils import to_networkx

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.encodings import peptides, separate_graphs
from graphbench.benchmarks.gps_step import random_peptides
from graphbench.benchmarks.measuring import CPU, device_name, in_own_process, paired, peak, step
from graphbench.data.store import GraphStore
from graphbench.data.stored_pairs import StoredHops
from graphbench.ops.decay_attention import decay_attention
from graphbench.ops.focal_attention import focal_attention
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.structures import PairBlocks, Ragged
from graphbench.structures.pairs import UNREACHABLE
from graphbench.transforms.hop_neighbors import HopNeighbors
from graphbench.transforms.shortest_paths import ShortestPaths

BATCH, HEADS, WIDTH = 64, 4, 16
FOCAL_LENGTH = 2
PAIRS, SEARCH_PAIRS = 9, 3
SIZES = (12_500, 25_000, 50_000, 100_000)
DEGREE = 10
EXPONENT = 1.1


def run(device: torch.device) -> list[Case]:
    """Peptides-func, from dataset.dir or $GRAPHBENCH_DATA; on a GPU generated graphs."""
    real = device.type == "cpu"
    store = peptides() if real else random_peptides(BATCH, torch.Generator().manual_seed(0))
    batch = store.with_encodings(pairs=ShortestPaths()(store)["distance"]).gather(torch.arange(BATCH)).to(device)
    assert batch.pairs is not None
    cases = _operators(batch.ragged, batch.pairs, "Peptides graphs" if real else "random graphs of Peptides' sizes")
    return [*cases, _search(store), _memory()] if real else cases


def _operators(ragged: Ragged, pairs: PairBlocks, graphs: str) -> list[Case]:
    torch.manual_seed(0)
    device = ragged.device
    inputs = [torch.randn(ragged.num_rows, HEADS, WIDTH, device=device, requires_grad=True) for _ in range(3)]
    start = torch.full((HEADS,), 5.0, device=device, requires_grad=True)
    decay = functools.partial(decay_attention, *inputs, ragged, pairs.distance, start, decay=0.6)
    sloped = functools.partial(decay, slope=0.1)
    focal = functools.partial(focal_attention, *inputs, ragged, pairs, FOCAL_LENGTH)
    softmax = functools.partial(softmax_attention, *inputs, ragged)
    padded = Padded(ragged, pairs)
    where = f"{BATCH} {graphs}, {HEADS} heads of width {WIDTH}, {device_name(device)}"
    cases = []
    for name, ours, plain in (
        ("decay attention", decay, functools.partial(padded.decay, *inputs, start, 0.0)),
        ("decay attention, slope 0.1", sloped, functools.partial(padded.decay, *inputs, start, 0.1)),
        (f"focal attention, length {FOCAL_LENGTH}", focal, functools.partial(padded.focal, *inputs)),
    ):
        mine = step(ours, [*inputs, start])
        peers = [("softmax attention", softmax, 1 / 1.5)]
        if device.type != "cpu":
            torch.testing.assert_close(ours(), plain(), rtol=2e-2, atol=2e-2)  # products may be cut to TF32
            peers.append(("plain PyTorch, padded", plain, 1.0))
        for peer_name, forward, target in peers:
            peer = step(forward, [*inputs, start])
            for warm_up in (mine, peer):
                warm_up()
            seconds = paired(mine, peer, PAIRS, device)
            cases.append(Case(f"{name}, {where}", peer_name, *seconds, target))
    return cases


class Padded:
    """Attention without ragged operators: (G, H, L, d) blocks as long as the longest graph, G graphs.

    Args:
        ragged: the partition of the rows.
        pairs: distances; those without a path get a large one, where the factor of the scores is 0 in float32.
    """

    def __init__(self, ragged: Ragged, pairs: PairBlocks) -> None:
        graphs, length = ragged.num_graphs, ragged.max_size
        self._shape = graphs, length
        within = torch.arange(ragged.num_rows, device=ragged.device) - ragged.ptr[ragged.graph_id]
        self._cell = ragged.graph_id * length + within
        distance = torch.full((graphs, 1, length, length), UNREACHABLE, dtype=torch.uint8, device=ragged.device)
        for graph, size in enumerate(ragged.sizes):
            distance[graph, 0, :size, :size] = pairs.block(graph)
        self._distance = distance.float()
        real = torch.arange(length, device=ragged.device) < ragged.size_tensor[:, None]
        self._no_key = torch.zeros(graphs, length, device=ragged.device).masked_fill(~real, -torch.inf)[:, None, None]
        # Rows of padding see the first node: a row without any has no softmax.
        far = distance > FOCAL_LENGTH
        far[..., 0] &= real[:, None]
        self._far = torch.zeros_like(self._distance).masked_fill(far, -torch.inf)

    def decay(self, q: Tensor, k: Tensor, v: Tensor, start: Tensor, slope: float) -> Tensor:
        """Decay attention, decay 0.6."""
        q, k, v = self._pad(q), self._pad(k), self._pad(v)
        steps = torch.nn.functional.leaky_relu(self._distance - start.view(-1, 1, 1), slope)
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH) * 0.6**steps
        return self._unpad(torch.softmax(scores + self._no_key, dim=-1) @ v)

    def focal(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Focal attention."""
        q, k, v = self._pad(q), self._pad(k), self._pad(v)
        return self._unpad(scaled_dot_product_attention(q, k, v, attn_mask=self._far))

    def _pad(self, rows: Tensor) -> Tensor:
        graphs, length = self._shape
        cells = rows.new_zeros(graphs * length, HEADS, WIDTH).index_copy(0, self._cell, rows)
        return cells.view(graphs, length, HEADS, WIDTH).transpose(1, 2)

    def _unpad(self, blocks: Tensor) -> Tensor:
        return blocks.transpose(1, 2).reshape(-1, HEADS, WIDTH).index_select(0, self._cell)


def _search(store: GraphStore) -> Case:
    """Distances of all pairs, ours and networkx's."""
    graphs = [to_networkx(graph, to_undirected=True) for graph in separate_graphs(store)]

    def ours() -> Tensor:
        return ShortestPaths()(store)["distance"]

    def peer() -> np.ndarray:
        return np.concatenate([_by_networkx(graph) for graph in graphs])

    if not np.array_equal(ours().numpy(), peer()):
        raise AssertionError("the two sides do not agree")
    seconds = paired(ours, peer, SEARCH_PAIRS)
    return Case(f"hop distances of {store.num_graphs:,} Peptides graphs", "networkx", *seconds, target=10.0)


def _by_networkx(graph: nx.Graph) -> np.ndarray:
    size = graph.number_of_nodes()
    distances = np.full((size, size), 255, dtype=np.uint8)
    for source, reached in nx.all_pairs_shortest_path_length(graph):
        distances[source, list(reached)] = list(reached.values())
    return distances.reshape(-1)


def _memory() -> Case:
    """The exponent of peak memory over the number of pairs within the focal length."""
    pairs, mib = zip(*(in_own_process("distance", nodes) for nodes in SIZES), strict=True)
    slope = float(np.polyfit(np.log(pairs), np.log(mib), 1)[0])
    measured = ", ".join(
        f"{nodes:,} nodes, {int(count):,} pairs: {value:,.0f} MiB"
        for nodes, count, value in zip(SIZES, pairs, mib, strict=True)
    )
    name = f"exponent of focal attention's peak memory, length {FOCAL_LENGTH}, mean degree {DEGREE} ({measured})"
    return Case(name, "limit", [slope], [EXPONENT], target=1.0, unit="")


def main(nodes: int) -> None:
    """One size in this process; prints [pairs, peak of a step in MiB above what was held before it]."""
    generator = torch.Generator().manual_seed(0)
    ends = torch.randint(nodes, (2, nodes * DEGREE // 2), generator=generator)
    both = torch.cat([ends, ends.flip(0)], dim=1)
    store = GraphStore.from_arrays([nodes], [both.shape[1]], both)
    hops = (
        store.with_encodings(hops=StoredHops(**HopNeighbors(FOCAL_LENGTH)(store)))
        .gather(torch.zeros(1, dtype=int))
        .hops
    )
    assert hops is not None
    inputs = [torch.randn(nodes, HEADS, WIDTH, requires_grad=True) for _ in range(3)]
    ragged = Ragged.from_sizes([nodes])
    mib = peak(step(functools.partial(focal_attention, *inputs, ragged, hops, FOCAL_LENGTH), inputs), CPU)
    print(json.dumps([hops.col.numel(), mib]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
