"""Training beside the peers' own programs, whose checkouts --graphgps and --sgformer name.

A path is a checked-out copy of https://github.com/rampasek/GraphGPS or https://github.com/qitianwu/SGFormer; nothing of
them is part of this package. Their models are built by their code, get the batch that ours gets, and are trained by the
step of their program; what their code imports must be importable (``PYTHONPATH`` is handed on). Without a path the
peer's side are figures that were read once (:data:`STORED`), and say so.

Both sides are the same model: GraphGPS reads its own configuration file, SGFormer's classes are built with the depth,
width, dropout, norms and residuals of our configuration, whose depth is that of the release's ``medium/run.sh``, models
of PyTorch Geometric from its own layers (:mod:`graphbench.benchmarks.pyg_examples`). The names of cases have the number
of parameters that a step moves, both where it is not the same. PascalVOC-SP are generated graphs of its sizes.

Every side is measured in a process of its own, which prints a line of JSON:
``python -m graphbench.benchmarks.peers ours|theirs CASE [PATH]``.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphbench.benchmarks import pyg_examples
from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import CPU, device_name, in_own_process, peak
from graphbench.benchmarks.models import Prepared, Side
from graphbench.benchmarks.peer_programs import Peer, graphgps_step, sgformer_epoch
from graphbench.benchmarks.sfi_step import superpixels
from graphbench.config import Config
from graphbench.data.builder import LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import unknown
from graphbench.factory.data import build_splits, dataset_builder, read_data

STORED = (
    "stored figure, two cores of another machine, measured by hand with the peer's program; its day and processor were "
    "not recorded"
)
SECONDS = 12.0
"""Steps are repeated for so long, at least two of them; the first one is not counted."""


def one_batch(config: Config) -> LoadedDataset:
    """Training graphs, as many as a batch has, taken evenly: encodings of no others are computed."""
    loaded, size = read_data(config), config.tree.train.batch_size + 2
    rows = build_splits(config, loaded, 0).train
    rows = rows[:: max(len(rows) // size, 1)][:size]
    batch, counts = loaded.store.gather(rows), loaded.store.edge_counts[rows]
    edge_index = batch.edge_index - batch.ragged.ptr[:-1].repeat_interleave(counts)
    features = {"x": batch.x, "edge_attr": batch.edge_attr, "y": batch.y}
    return _alone(GraphStore.from_arrays(batch.ragged.sizes, counts, edge_index, **features), loaded.card)


def one_batch_of_superpixels(config: Config) -> LoadedDataset:
    """A batch of generated graphs of the sizes of PascalVOC-SP."""
    card = dataset_builder(config).card
    assert card is not None
    return _alone(superpixels(config.tree.train.batch_size + 2, card.info()), card)


def _alone(store: GraphStore, card: DatasetCard) -> LoadedDataset:
    """All graphs but two as training set: the other parts need one."""
    size = store.num_graphs - 2
    return LoadedDataset(store, card, {"standard": (Splits.of(range(size), [size], [size + 1]),)})


@dataclass(frozen=True)
class Beside:
    """One comparison.

    Attributes:
        program: name of the peer's program: ``graphgps``, ``sgformer``, or the name of what needs no path.
        config: our configuration, below ``configs``, and overrides.
        build: makes the peer from the path and ours.
        target: smallest acceptable ratio of seconds.
        seconds: stored figure of the peer; None where it needs no path.
        mib: stored peak of the peer, None where none was read.
        read: gives the data.
        compiled: whether a C++ compiler is needed.
    """

    program: str
    config: tuple[str, ...]
    build: Callable[[Path | None, Prepared], Peer]
    target: float
    seconds: float | None = None
    mib: float | None = None
    read: Callable[[Config], LoadedDataset] = read_data
    compiled: bool = False

    @property
    def epoch(self) -> bool:
        """Whether an epoch with evaluation is measured, of one graph; otherwise a training step."""
        return self.config[0].startswith("nodes/")


_GPS, _EIGHT_LAYERS = "configs/GPS/", ("gt.TwoBranch.local_layers", "8")
_ZINC, _CORA = ("gnnbench/gps-zinc.yaml",), ("nodes/sgformer-cora-4layers.yaml",)
CASES = {
    "ZINC": Beside("graphgps", _ZINC, partial(graphgps_step, file=f"{_GPS}zinc-GPS+RWSE.yaml"), 3.0, 0.064),
    "Peptides-func": Beside(
        "graphgps",
        ("lrgb/gps-peptides-func.yaml",),
        partial(graphgps_step, file=f"{_GPS}peptides-func-GPS.yaml"),
        6.0,
        11.1,
        6.6 * 953.7,
        one_batch,
    ),
    "PascalVOC-sized": Beside(
        "graphgps",
        ("lrgb/gps-pascal.yaml",),
        partial(graphgps_step, file=f"{_GPS}vocsuperpixels-GPS.yaml"),
        6.0,
        7.7,
        5.3 * 953.7,
        one_batch_of_superpixels,
    ),
    "Cora": Beside("sgformer", _CORA, sgformer_epoch, 4.0, 0.048),
    "Actor": Beside("sgformer", ("nodes/sgformer-actor.yaml", *_EIGHT_LAYERS), sgformer_epoch, 2.0, 0.125),
    "Squirrel": Beside("sgformer", ("nodes/sgformer-squirrel.yaml", *_EIGHT_LAYERS), sgformer_epoch, 2.0, 0.154),
    "Deezer": Beside("sgformer", ("nodes/sgformer-deezer.yaml",), sgformer_epoch, 15.0, 7.83, 10.3 * 953.7),
    "Cora, SGFormer of PyG": Beside("PyG", _CORA, pyg_examples.sgformer_epoch, 8.0),
    "ZINC, GPS of PyG": Beside("PyG", _ZINC, pyg_examples.gps_step, 1.0),
    "ZINC, GPS of PyG, compiled": Beside(
        "PyG, torch.compile", _ZINC, partial(pyg_examples.gps_step, compiled=True), 1.0, compiled=True
    ),
}
"""Comparisons by name."""


def chosen(name: str) -> dict[str, Beside]:
    """The comparison of that name, as a dictionary of one.

    Raises:
        UserError: there is none.
    """
    if name not in CASES:
        raise unknown("comparison (--only)", name, CASES)
    return {name: CASES[name]}


def run(paths: dict[str, Path | None], comparisons: Mapping[str, Beside] = CASES) -> list[Case]:
    """Real data from dataset.dir or $GRAPHBENCH_DATA.

    Args:
        paths: checked-out copies by program.
        comparisons: comparisons to measure, by name; what needs a C++ compiler is left out where there is none.
    """
    cases = []
    theirs: dict[str, Any]
    for name, beside in comparisons.items():
        what = "epoch with evaluation" if beside.epoch else "training step"
        if beside.compiled and not shutil.which(os.environ.get("CXX", "g++")):
            print(f"peers: {name} is left out: there is no C++ compiler", file=sys.stderr, flush=True)
            continue
        print(f"peers: {name}", file=sys.stderr, flush=True)
        ours = in_own_process("peers", "ours", name, message=f"ours {name}")
        path, theirs = paths.get(beside.program), {"seconds": [beside.seconds], "mib": beside.mib}
        title = f"{name}, {what}, {device_name(CPU)}"
        if path is None and beside.seconds is not None:
            peer = f"{beside.program} ({STORED})"
        else:
            copy, peer = [path.resolve()] if path else [], beside.program
            theirs = in_own_process("peers", "theirs", name, *copy, message=f"theirs {name}")
            numbers = [f"{side['parameters']:,}" for side in (ours, theirs)]
            title += f", {' and '.join(dict.fromkeys(numbers))} parameters"
        pair = ([statistics.median(side["seconds"])] for side in (ours, theirs))
        cases.append(Case(title, peer, *pair, target=beside.target))
        if theirs["mib"] is not None:
            cases.append(Case(f"{name}, peak memory", peer, [ours["mib"]], [theirs["mib"]], target=2.0, unit="MiB"))
    return cases


def measure(side: str, name: str, path: str | None = None) -> dict[str, Any]:
    """Seconds of every repetition, the peak in MiB above what was held before the first, and parameters trained."""
    beside = CASES[name]
    prepared = Prepared(Side(name, beside.config), CPU, read=beside.read)
    once: Callable[[], None]
    model: nn.Module
    if side == "ours":
        once, model = prepared.train_and_infer if beside.epoch else prepared.train, prepared.model
    else:
        once, model = beside.build(Path(path) if path else None, prepared)
    mib = peak(once, CPU)
    parameters = sum(each.numel() for each in model.parameters() if each.grad is not None)
    seconds: list[float] = []
    first = time.perf_counter()
    while len(seconds) < 2 or time.perf_counter() - first < SECONDS:
        start = time.perf_counter()
        once()
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds, "mib": mib, "parameters": parameters}


if __name__ == "__main__":
    torch.manual_seed(0)
    print(json.dumps(measure(*sys.argv[1:])))
