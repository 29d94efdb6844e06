"""GECO's layer against softmax attention on one growing graph, and its operator against one padded FFT.

The first part is the setting of the paper's Table 10 (https://arxiv.org/abs/2406.12059) on this machine: Erdos-Renyi
graphs with 10 N directed edges, 108 channels, forward. Ours is the whole layer with its local block and its filters'
network, in float32, on a GPU the largest graphs under bfloat16 autocast, too; the peer is
``scaled_dot_product_attention`` of given queries, keys and values, 4 heads of width 27: on a GPU FlashAttention in
bfloat16, the queries, keys and values padded to width 32 before. What a graph keeps between steps (sorted edges,
positions) is made before. Where one call of the peer would take longer than ``BEARABLE`` seconds, its time is
extrapolated with N^2 from the largest measured one, and the case says so. Cases name the published times (A100):
other hardware, other program; the target is the published speed-up.
"""

from __future__ import annotations

import csv
import functools
import itertools
import math
import statistics
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext

import numpy as np
import torch
from scipy.fft import next_fast_len
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import pad, scaled_dot_product_attention

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import CPU, ROOT, device_name, paired, peak, peaks, seconds_of, step
from graphbench.data.generators import erdos_renyi
from graphbench.layers.attention.geco.layer import GECO
from graphbench.ops.circular_conv import circular_conv
from graphbench.structures import GraphBatch, Ragged

PUBLISHED = ROOT / "results/published/geco_table10.csv"
WIDTH, HEADS, DEGREE = 108, 4, 10
BEARABLE, EXPONENT = {"cpu": 20.0, "cuda": 40.0}, 1.15  # on a GPU the last size, too
FLASH_WIDTH = 32  # the next multiple of 8
AUTOCAST = 5  # so many of the largest sizes
# Seconds for the pairs of one case, and of a call that is worth a warm-up.
BUDGET, WARM_UP, PAIRS = 4.0, 1.0, 9
BATCHES = {
    "128 graphs of ZINC's sizes": (128, 64, 23.2, 4.5, 9, 37),
    "64 graphs of Peptides' sizes": (64, 96, 150.0, 84.0, 8, 444),
    "32 graphs of PascalVOC-SP's sizes": (32, 96, 479.0, 20.0, 395, 500),
    "1 graph of 40009 nodes (a prime number)": (1, 64, 40009.0, 0.0, 1, 40009),
}
GIANT, GIANT_WIDTH, MEMORY_PAIRS = 1 << 18, 64, 1


def run(device: torch.device) -> list[Case]:
    """The operator first, then the curve."""
    torch.manual_seed(0)
    # Chosen out here, where it takes no time of a call; nothing but the peer asks for it.
    with nullcontext() if device.type == "cpu" else sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return [*_operator(device), _memory(device), *_table10(device)]


def _operator(device: torch.device) -> Iterable[Case]:
    random = np.random.default_rng(0)
    for name, (graphs, width, mean, spread, low, high) in BATCHES.items():
        sizes = np.clip(random.normal(mean, spread, graphs), low, high).astype(int).tolist()
        ragged = Ragged.from_sizes(sizes, device)
        rows = [
            torch.randn(n, width, device=device, requires_grad=True)
            for n in (ragged.num_rows, sum(ragged.distinct_sizes))
        ]
        ours = step(functools.partial(circular_conv, *rows, ragged), rows)
        peer = step(functools.partial(padded_fft, *rows, ragged), rows)
        with torch.no_grad():
            torch.testing.assert_close(
                circular_conv(*rows, ragged), padded_fft(*rows, ragged), rtol=1e-4, atol=1e-5 * ragged.max_size
            )
        for warm_up in (ours, peer) if device.type != "cpu" else ():
            warm_up()
        pairs = _pairs(seconds_of(ours, device) + seconds_of(peer, device))
        what = f"{name}, {width} channels, forward and backward, {device_name(device)}"
        yield Case(what, "padded FFT", *paired(ours, peer, pairs, device), 1.0)


def padded_fft(u: Tensor, filters: Tensor, ragged: Ragged) -> Tensor:
    """The plain way: all graphs padded to twice the longest (or a little more), one FFT, folded; autograd."""
    length = next_fast_len(2 * ragged.max_size, real=True)
    sizes = ragged.distinct_sizes
    number = {n: index for index, n in enumerate(sizes)}
    which = torch.tensor([number[n] for n in ragged.sizes]).to(u.device)

    def transformed(rows: Tensor, parts: Ragged) -> tuple[Tensor, Tensor]:
        first = length * torch.arange(parts.num_graphs, device=u.device) - parts.ptr[:-1]
        cell = torch.arange(parts.num_rows, device=u.device) + first[parts.graph_id]
        padded = rows.new_zeros(parts.num_graphs * length, rows.shape[1]).index_copy(0, cell, rows)
        return torch.fft.rfft(padded.view(-1, length, rows.shape[1]), dim=1), cell

    spectrum, cell = transformed(u, ragged)
    product = spectrum * transformed(filters, Ragged.from_sizes(sizes, u.device))[0][which]
    out = torch.fft.irfft(product, n=length, dim=1).flatten(0, 1)
    return out.index_select(0, cell) + out.index_select(0, cell + ragged.size_tensor[ragged.graph_id])


def plain(u: Tensor, filters: Tensor, gate: Tensor) -> Tensor:
    """One graph of a fast length, written with torch.fft alone."""
    return gate * torch.fft.irfft(torch.fft.rfft(u, dim=0) * torch.fft.rfft(filters, dim=0), n=len(u), dim=0)


def layer_of_one_graph(convolve: Callable[..., Tensor], projections: Tensor, filters: Tensor) -> Tensor:
    """Convolutions of GECO's layer behind its projections: (n, 3 d) gates and values, (n, 2 d) filters."""
    *gates, v = (1 * projections).chunk(3, dim=1)
    for gate, taps in zip(gates, (1 * filters).chunk(2, dim=1), strict=True):
        v = convolve(v, taps, gate=gate)
    return v


def _memory(device: torch.device) -> Case:
    ours, theirs = peaks(one_step, ("ours", "autograd"), MEMORY_PAIRS, device)
    name = f"1 graph of {GIANT} nodes, {GIANT_WIDTH} channels, two gated in a row, forward and backward, peak memory"
    return Case(name, "torch.fft and autograd", ours, theirs, 1.0, unit="MiB")


def _table10(device: torch.device) -> Iterable[Case]:
    published = _published()
    attention = "SDPA" if device.type == "cpu" else f"FlashAttention (bfloat16, heads padded to {FLASH_WIDTH})"
    measured: dict[int, tuple[float, float]] = {}
    layer, compared = GECO(WIDTH).to(device).eval(), 0
    for nodes, (paper_ours, paper_peer) in published.items():
        batch = _graph(nodes).to(device)
        with torch.no_grad():
            batch.adjacency(norm="sym")
            layer.filters(batch)
        ours = _no_grad(functools.partial(layer, torch.randn(nodes, WIDTH, device=device), None, batch))
        expected, expected_peer = _expected(measured, compared, nodes)
        if expected < WARM_UP:  # on a GPU the first call also loads and plans
            expected = min(seconds_of(ours, device) for _ in range(1 if device.type == "cpu" else 2))
        if expected_peer <= BEARABLE[device.type]:
            peer = _no_grad(_attention(nodes, device))
            if device.type != "cpu" and expected_peer < WARM_UP:
                peer()
            seconds = paired(ours, peer, _pairs(expected + expected_peer), device)
            compared, peer_name = nodes, attention
        else:
            measured_ours = [seconds_of(ours, device) for _ in range(_pairs(expected))]
            seconds = (measured_ours, [expected_peer] * len(measured_ours))
            peer_name = f"{attention}, extrapolated from {compared} nodes,"
        measured[nodes] = (statistics.median(seconds[0]), statistics.median(seconds[1]))
        speedup = paper_peer / paper_ours
        where = f"{device_name(device)} (published: {paper_ours} ms, {paper_peer} ms, {speedup:.2f})"
        name = f"Table 10, {nodes} nodes, fp32, {where}"
        mine, theirs = measured[nodes]
        print(f"{name}: {mine:.4f} s, {peer_name} {theirs:.4f} s", file=sys.stderr, flush=True)
        yield Case(name, peer_name, *seconds, target=speedup)
        if device.type != "cpu" and nodes in sorted(published)[-AUTOCAST:]:
            narrow = _autocast(ours, device)
            narrow()
            measured_ours = [seconds_of(narrow, device) for _ in range(_pairs(mine))]
            name = f"bf16 autocast, Table 10, {nodes} nodes, {where}"
            yield Case(name, peer_name, measured_ours, [theirs] * len(measured_ours), target=speedup)
    logs = np.log([[nodes, mine] for nodes, (mine, _) in measured.items()])
    exponent = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
    name = f"Table 10, time of ours as a power of the nodes, {min(measured)} to {max(measured)}"
    yield Case(name, "limit", [exponent], [EXPONENT], 1.0, unit="(exponent)")
    crossings = [[_crossover(times)] for times in (measured, published)]
    yield Case("Table 10, nodes from which ours is faster", "published", *crossings, 1.0, unit="nodes")


def _expected(measured: dict[int, tuple[float, float]], compared: int, nodes: int) -> tuple[float, float]:
    """Seconds of ours, from the graph before; of the peer, from the largest graph on which it ran."""
    if not measured:
        return 0.0, 0.0
    last = max(measured)
    return measured[last][0] * nodes / last, measured[compared][1] * (nodes / compared) ** 2


def _attention(nodes: int, device: torch.device) -> Callable[[], Tensor]:
    """The peer; FlashAttention knows no float32, and no head whose width is not a multiple of 8."""
    qkv = [torch.randn(1, HEADS, nodes, WIDTH // HEADS, device=device) for _ in range(3)]
    if device.type != "cpu":
        qkv = [pad(tensor, (0, FLASH_WIDTH - WIDTH // HEADS)).bfloat16() for tensor in qkv]
    return functools.partial(scaled_dot_product_attention, *qkv, scale=(WIDTH // HEADS) ** -0.5)


def _graph(nodes: int) -> GraphBatch:
    """G(N, p) with p = 10 / N, both directions of every edge; no features."""
    edges = erdos_renyi(nodes, DEGREE / nodes, np.random.default_rng(nodes))
    return GraphBatch(ragged=Ragged.from_sizes([nodes]), edge_index=torch.from_numpy(edges))


def _published() -> dict[int, tuple[float, float]]:
    """(GECO, FlashAttention) milliseconds by the number of nodes."""
    times: dict[int, dict[str, float]] = {}
    with PUBLISHED.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] == "runtime_ms":
                nodes = int(row["split_or_setting"].split(";")[0].removeprefix("N="))
                times.setdefault(nodes, {})[row["model"]] = float(row["mean"])
    return {nodes: (row["GECO"], row["FlashAttention"]) for nodes, row in sorted(times.items())}


def _crossover(times: dict[int, tuple[float, float]]) -> float:
    """Nodes at which both take as long, on straight lines through the logarithms; infinity where that never is."""
    lead = [(math.log(nodes), math.log(peer / ours)) for nodes, (ours, peer) in times.items()]
    if lead[0][1] >= 0:
        return math.exp(lead[0][0])
    for (x, y), (x_next, y_next) in itertools.pairwise(lead):
        if y < 0 <= y_next:
            return math.exp(x - y * (x_next - x) / (y_next - y))
    return math.inf


def _pairs(seconds: float) -> int:
    return max(1, min(PAIRS, int(BUDGET / max(seconds, 1e-9))))


def _no_grad(forward: Callable[[], Tensor]) -> Callable[[], None]:
    def once() -> None:
        with torch.no_grad():
            forward()

    return once


def _autocast(forward: Callable[[], None], device: torch.device) -> Callable[[], None]:
    def once() -> None:
        with torch.autocast(device.type, torch.bfloat16):
            forward()

    return once


def one_step(which: str, device: torch.device) -> Callable[[], None]:
    """Forward and backward of two gated convolutions of the giant graph, nothing of which has run before."""
    rows = [torch.randn(GIANT, parts * GIANT_WIDTH, device=device, requires_grad=True) for parts in (3, 2)]
    ragged = Ragged.from_sizes([GIANT], device)
    convolve = {"ours": functools.partial(circular_conv, ragged=ragged), "autograd": plain}[which]
    return step(functools.partial(layer_of_one_graph, convolve, *rows), rows)


if __name__ == "__main__":
    print(peak(one_step(sys.argv[1], CPU), CPU))
