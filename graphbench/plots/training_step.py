"""Time and peak memory of one training step, in a process of its own.

``python -m graphbench.plots.training_step STEPS SECONDS CONFIG [KEY VALUE ...]`` prints one JSON object as its last
line. Step and device are those of the configuration; evaluation is no part of it. Where memory does not suffice, the
process ends with :data:`OUT_OF_MEMORY`.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
from collections.abc import Sequence

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from graphbench.command_line import CommandParser
from graphbench.config import load_config
from graphbench.contract import take_auxiliary_loss
from graphbench.errors import is_out_of_memory
from graphbench.factory.parts import build_parts
from graphbench.factory.training import build_fabric
from graphbench.runs.environment import forget_peak_memory, peak_memory

OUT_OF_MEMORY = 3
"""Exit code of a process whose memory, or that of its GPU, did not suffice."""


def measure(
    steps: int, seconds: float, path: str, overrides: Sequence[str], memory_limit: float | None = None
) -> dict[str, float]:
    """Trains for a few epochs and times them; the first one fills caches and does not count.

    Args:
        steps: epochs that count, at most.
        seconds: no further epoch begins after so many; one always counts.
        path: path of the configuration.
        overrides: overrides of its keys.
        memory_limit: GiB of the GPU that PyTorch may take; None: all.

    Returns:
        ``seconds``, the median of the epochs; ``steps``, their number; ``peak_mib``, the largest memory after the graph
        was read, less what the process held before (of a GPU: allocated there); ``nodes`` and ``edges`` (directed).
    """
    config = load_config(path, overrides)
    device = build_fabric(config).device
    if device.type == "cuda":
        torch.cuda.init()  # before it there are no counters to reset
    if memory_limit is not None:
        limit_memory(device, memory_limit)
    forget_peak_memory(device)
    before = peak_memory(device)
    parts = build_parts(config, seed=config.tree.seed)
    model, optimizer, task, store = parts.model.train(), parts.optimizer, parts.task, parts.loaded.store
    forget_peak_memory(device)  # of generating the graph
    times: list[float] = []
    first = time.perf_counter()
    while len(times) < 2 or (len(times) <= steps and time.perf_counter() - first < seconds):
        start = time.perf_counter()
        for batch, rows in parts.loaders.train(len(times)):
            pred, true = model(batch), batch.y
            assert true is not None
            if rows is not None:
                pred, true = pred.index_select(0, rows), true.index_select(0, rows)
            loss, auxiliary_loss = task.loss(pred, true), take_auxiliary_loss(model.modules())
            optimizer.zero_grad()
            (loss if auxiliary_loss is None else loss + auxiliary_loss).backward()
            optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    peak = peak_memory(device)
    if before is None or peak is None:
        raise SystemExit("error: this system does not tell how much memory a process takes.")
    return {
        "nodes": store.num_nodes,
        "edges": store.num_edges,
        "seconds": statistics.median(times[1:]),
        "steps": len(times) - 1,
        "peak_mib": (peak - before) / 2**20,
    }


def limit_memory(device: torch.device, gib: float) -> None:
    """Lets PyTorch take no more than so many GiB of a GPU.

    Raises:
        SystemExit: the device is no GPU, or has less.
    """
    if device.type != "cuda":
        raise SystemExit(f"error: memory is limited on a GPU only, and the device is {device}.")
    fraction = gib * 2**30 / torch.cuda.get_device_properties(device).total_memory
    if fraction > 1:
        raise SystemExit(f"error: the GPU has {gib / fraction:.1f} GiB, and the limit is {gib:g} GiB.")
    torch.cuda.set_per_process_memory_fraction(fraction, device)


def whole_matrix() -> contextlib.AbstractContextManager[None]:
    """Inside it, PyTorch's softmax attention holds the N x N weights, as programs without fused kernels do."""
    return sdpa_kernel(SDPBackend.MATH)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints.

    Raises:
        SystemExit: with :data:`OUT_OF_MEMORY`, or the message of :func:`measure`.
    """
    parser = CommandParser(description=__doc__)
    parser.add_argument("steps", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*", metavar="KEY VALUE")
    parser.add_argument("--memory_limit", type=float, metavar="GIB", help="of the GPU")
    parser.add_argument("--whole_matrix", action="store_true", help="no fused attention: hold its N x N weights")
    options = parser.parse_args(arguments)
    try:
        with whole_matrix() if options.whole_matrix else contextlib.nullcontext():
            measured = measure(options.steps, options.seconds, options.config, options.overrides, options.memory_limit)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        print(f"out of memory: {str(error).strip().partition(chr(10))[0]}", file=sys.stderr)
        raise SystemExit(OUT_OF_MEMORY) from None
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
