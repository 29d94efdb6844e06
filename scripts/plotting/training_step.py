"""Time and peak memory of one training step, in a process of its own.

``python -m scripts.plotting.training_step STEPS SECONDS CONFIG [KEY VALUE ...]`` prints one JSON object as its last
line. What a step is, and on which device, is said by the configuration; evaluation is no part of it.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence

import torch

from graphbench import build
from graphbench.config import load_config
from graphbench.experiment import seed_everything
from graphbench.results.environment import forget_peak_memory, peak_memory


def measure(steps: int, seconds: float, path: str, overrides: Sequence[str]) -> dict[str, float]:
    """Trains for a few epochs and times them. The first one also prepares what is kept, and does not count.

    Args:
        steps: epochs that count, at most.
        seconds: no further epoch begins after so many; one always counts.
        path: of the configuration.
        overrides: of its keys.

    Returns:
        ``seconds``, the median of the epochs; ``steps``, their number; ``peak_mib``, the largest memory after the graph
        was read, less what the process held before (of a GPU: allocated there); ``nodes`` and ``edges`` (directed).
    """
    config = load_config(path, overrides)
    fabric = build.fabric(config)
    device = fabric.device
    forget_peak_memory(device)
    before = peak_memory(device)
    loaded = build.encode(config, build.read_data(config))
    splits = build.splits(config, loaded, config.tree.seed)
    info = loaded.card.info(loaded.store, None if loaded.card.transductive else splits.train)
    seed_everything(config.tree.seed)
    model = build.model(config, info).to(device).train()
    optimizer = build.optimizer(config, model)
    task = build.task(config, info)
    loaders = build.loaders(config, loaded, splits, config.tree.seed, fabric)
    forget_peak_memory(device)  # of generating the graph
    times: list[float] = []
    first = time.perf_counter()
    while len(times) < 2 or (len(times) <= steps and time.perf_counter() - first < seconds):
        start = time.perf_counter()
        for batch, rows in loaders.train(len(times)):
            pred, true = model(batch), batch.y
            if rows is not None:
                pred, true = pred.index_select(0, rows), true.index_select(0, rows)
            optimizer.zero_grad()
            task.loss(pred, true).backward()
            optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    peak = peak_memory(device)
    if before is None or peak is None:
        raise SystemExit("error: this system does not tell how much memory a process takes.")
    return {
        "nodes": loaded.store.num_nodes,
        "edges": loaded.store.num_edges,
        "seconds": statistics.median(times[1:]),
        "steps": len(times) - 1,
        "peak_mib": (peak - before) / 2**20,
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:])))
