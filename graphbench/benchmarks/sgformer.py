"""Whole epochs of SGFormer (step, and evaluation of all splits) on two threads, run by the framework's own loop.

Against ``torch_geometric.nn.models.SGFormer`` in a loop written by hand: real Cora and a generated graph of PubMed's
size. Against itself with densified features: real Deezer-Europe. Against the number of nodes: generated graphs of mean
degree 10, the flags of large graphs, on the CPU each size in a fresh process.
``python -m graphbench.benchmarks.sgformer deezer always|never`` and ``... scaling NODES`` measure one process.
"""

from __future__ import annotations

import copy
import gc
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn.models import SGFormer

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import CPU, ROOT, device_name, held, in_own_process, paired
from graphbench.benchmarks.training import Training
from graphbench.runs.environment import forget_peak_memory, peak_memory
from graphbench.structures import as_dense

THREADS = 2
PAIRS = 5
WIDTH = 64
PUBMED_NODES, PUBMED_EDGES, PUBMED_COLUMNS, PUBMED_DENSITY, PUBMED_CLASSES = 19_717, 88_648, 500, 0.1, 3
DEEZER_LIMIT = 2048.0
SIZES = (100_000, 200_000, 500_000, 1_000_000, 2_000_000)
EXPONENT = 1.1
EPOCHS = {"cpu": 1, "cuda": 20}  # of a run of the two last kinds: on a GPU its beginning and its end are no small part
LARGE_WIDTH = 32  # 2 million nodes take about 8 GiB: a step keeps its states for the backward pass
LARGE = f"""
_base_: [{ROOT}/configs/_base_/data/one-graph.yaml, {ROOT}/configs/_base_/model/sgformer-large.yaml]
dataset: {{format: ErdosRenyi, ErdosRenyi: {{degree: 10.0, features: 100, classes: 10}}}}
gt: {{dim_hidden: {LARGE_WIDTH}}}
gnn: {{dim_inner: {LARGE_WIDTH}}}
train: {{batch_size: 1, eval_period: 1}}
optim: {{optimizer: adam, scheduler: none, base_lr: 0.01}}
"""


def run(device: torch.device) -> list[Case]:
    """Cora and Deezer from dataset.dir or $GRAPHBENCH_DATA."""
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = [_against_pyg("Cora", Training(folder, _cora(), 100, device), target=4.0)]
        cases.append(_against_pyg("PubMed-sized", Training(folder, _pubmed(folder), 20, device), target=2.5))
    return [*cases, *_deezer(device), *_scaling(device)]


def by_hand(ours: Training) -> Callable[[], None]:
    """Epochs of PyG's model as its example writes them, at the width, depth and dropout of ours.

    Args:
        ours: gives data, splits and sizes.
    """
    batch = ours.loaders.full_batch
    assert batch.y is not None
    y, parts = batch.y, {part: rows.to(ours.device) for part, rows in ours.splits.parts().items()}
    x, graph = as_dense(batch.x), torch.zeros(batch.num_nodes, dtype=torch.int64, device=ours.device)
    peer = pyg_model(ours.model, x.shape[1], ours.info.out_dim).to(ours.device)

    start = copy.deepcopy(peer.state_dict())

    def epochs() -> None:
        peer.load_state_dict(start)
        optimizer = torch.optim.Adam(peer.parameters(), lr=0.01, weight_decay=5e-4)
        best, best_state = -1.0, None
        for _ in range(ours.epochs):
            peer.train()
            optimizer.zero_grad()
            out = peer(x, batch.edge_index, graph)
            nn.functional.nll_loss(out[parts["train"]], y[parts["train"]]).backward()
            optimizer.step()
            peer.eval()
            with torch.no_grad():
                predicted = peer(x, batch.edge_index, graph).argmax(1)
                accuracy = {part: (predicted[rows] == y[rows]).float().mean().item() for part, rows in parts.items()}
            if accuracy["val"] > best:
                best, best_state = accuracy["val"], copy.deepcopy(peer.state_dict())
        assert best_state is not None

    return epochs


def pyg_model(ours: nn.Module, columns: int, classes: int) -> nn.Module:
    """PyG's model of the depth and dropout of ours.

    Its flags cannot be chosen: the local branch starts with a linear map, there are norms and residuals, v has a
    projection, and q and k have no bias; :func:`_check_size` accounts for every parameter.

    Args:
        ours: a model of two branches, :data:`WIDTH` wide.
        columns: columns of the features.
        classes: number of classes to predict.
    """
    branches = ours.get_submodule("attention_branch"), ours.get_submodule("local_branch")
    layers = [len(branch.layers) for branch in branches]
    dropout = [branch.dropout.p for branch in branches]
    peer = SGFormer(
        columns,
        WIDTH,
        classes,
        trans_num_layers=layers[0],
        trans_num_heads=1,
        trans_dropout=dropout[0],
        gnn_num_layers=layers[1],
        gnn_dropout=dropout[1],
        graph_weight=ours.graph_weight,
    )
    _check_size(ours, peer, columns, layers)
    return peer


def _check_size(ours: nn.Module, peer: nn.Module, columns: int, layers: Sequence[int]) -> None:
    """The peer's parameters are ours, those of the flags that it cannot switch off, and none of two biases."""
    mine, theirs = (sum(parameter.numel() for parameter in model.parameters()) for model in (ours, peer))
    attention, local = layers
    value_map = attention * WIDTH * WIDTH
    norms = 2 * WIDTH * (attention + 1 + local + 1)
    stem_bias_and_square_layer = WIDTH + WIDTH * WIDTH  # a linear map of the features, then `local` square layers
    biases_of_q_and_k = 2 * attention * WIDTH
    expected = mine + value_map + norms + stem_bias_and_square_layer - biases_of_q_and_k
    if theirs != expected:
        raise AssertionError(f"{columns} columns: the peer has {theirs} parameters, expected {expected}")


def _cora() -> list[str]:
    return [str(ROOT / "configs/nodes/sgformer-cora-4layers.yaml")]


def _pubmed(folder: Path) -> list[str]:
    """Custom data of PubMed's size under PubMed's configuration."""
    return [str(ROOT / "configs/nodes/sgformer-pubmed-4layers.yaml"), *write_pubmed(folder)]


def write_pubmed(folder: Path) -> list[str]:
    """Writes random edges, features and classes of PubMed's numbers as custom data; the overrides that read them."""
    generator = torch.Generator().manual_seed(0)
    shape = PUBMED_NODES, PUBMED_COLUMNS
    keep = torch.rand(shape, generator=generator) < PUBMED_DENSITY
    x = torch.rand(shape, generator=generator) * keep
    y = torch.randint(PUBMED_CLASSES, (PUBMED_NODES,), generator=generator)
    torch.save([{"x": x, "edge_index": _pairs(generator), "y": y}], folder / "pubmed.pt")
    overrides = ["dataset.format", "custom", "dataset.name", "PubMed-sized", "dataset.custom.path"]
    return [*overrides, str(folder / "pubmed.pt")]


def _pairs(generator: torch.Generator) -> Tensor:
    """(2, edges) distinct pairs in both directions."""
    ends = torch.randint(PUBMED_NODES, (2, PUBMED_EDGES), generator=generator)
    low, high = ends.amin(0), ends.amax(0)
    pairs = torch.unique((low * PUBMED_NODES + high)[low < high])
    chosen = pairs[torch.randperm(len(pairs), generator=generator)[: PUBMED_EDGES // 2]]
    half = torch.stack([chosen // PUBMED_NODES, chosen % PUBMED_NODES])
    return torch.cat([half, half.flip(0)], dim=1)


def _against_pyg(name: str, ours: Training, target: float) -> Case:
    peer = by_hand(ours)
    for warm_up in (ours.run, peer):
        warm_up()
    mine, theirs = ([seconds / ours.epochs for seconds in side] for side in paired(ours.run, peer, PAIRS, ours.device))
    graph = ours.loaders.full_batch
    size = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges"
    what = f"{name}, {size}, epoch with evaluation, {device_name(ours.device)}"
    return Case(what, "PyG", mine, theirs, target=target)


def _deezer(device: torch.device) -> list[Case]:
    sparse, dense = (_measured(device, "deezer", choice) for choice in ("always", "never"))
    name = f"Deezer-Europe, epoch with evaluation, {device_name(device)}"
    return [
        Case(f"{name}, sparse features", "densified", sparse["seconds"], dense["seconds"], target=10.0),
        Case(f"{name}, peak memory", "limit", sparse["peak_mib"], [DEEZER_LIMIT], target=1.0, unit="MiB"),
    ]


def _scaling(device: torch.device) -> list[Case]:
    by_size = [_measured(device, "scaling", str(nodes)) for nodes in SIZES]
    cases = []
    for what, unit in (("seconds", "s"), ("grown_mib", "MiB")):
        values = [min(measured[what]) for measured in by_size]
        slope = float(np.polyfit(np.log(SIZES), np.log(values), 1)[0])
        measured = ", ".join(f"{nodes:,}: {value:.3g} {unit}" for nodes, value in zip(SIZES, values, strict=True))
        quantity = "time per epoch" if unit == "s" else "peak memory"
        name = f"exponent of {quantity}, {device_name(device)} ({measured})"
        cases.append(Case(name, "limit", [slope], [EXPONENT], target=1.0, unit=""))
    return cases


def _measured(device: torch.device, *arguments: str) -> dict[str, list[float]]:
    """Measurement, on the CPU in a fresh process, whose peak is that of one measurement."""
    if device.type != "cpu":
        gc.collect()
        return measure(*arguments, device)
    return in_own_process("sgformer", *arguments)


def measure(case: str, value: str, device: torch.device) -> dict[str, list[float]]:
    """Seconds per epoch, the peak in MiB, and what it is above the memory before."""
    torch.set_num_threads(THREADS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = held(device)
        forget_peak_memory(device)  # on the CPU, that of importing
        if case == "deezer":
            command = [str(ROOT / "configs/nodes/sgformer-deezer.yaml"), "dataset.sparse_features", value]
        else:
            (folder / "large.yaml").write_text(LARGE)
            command = [str(folder / "large.yaml"), "dataset.ErdosRenyi.nodes", value]
        training = Training(folder, command, EPOCHS[device.type], device)
        training.run()  # warm-up: derived index algebra, allocator
        seconds = training.seconds(3)
        peak = (peak_memory(device) or math.nan) / 2**20
    return {"seconds": seconds, "peak_mib": [peak], "grown_mib": [peak - before]}


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:], CPU)))
