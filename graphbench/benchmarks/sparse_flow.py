"""Sparse flow, forward and backward, against plain softmax attention and against the paper's iteration.

The softmax attention is what one writes in PyTorch: two products and a softmax, differentiated by autograd, which
stores the matrices. Sizes are those of PascalVOC-SP. On a GPU by replays of CUDA graphs, beside PyTorch's fused
attention too, in bfloat16 besides; on the CPU three spreads of the scores, one and two threads, wall and CPU time,
alone and beside other programs. Peak memory on the CPU is measured in a fresh process per run, after a step of small
graphs has loaded the code: ``python -m graphbench.benchmarks.sparse_flow sparse|softmax`` prints it.
"""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext

import torch
from torch import Tensor

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import (
    CPU,
    competing_load,
    device_name,
    paired,
    paired_work,
    peak,
    peaks,
    replayed,
    step,
)
from graphbench.ops.sparse_flow import FlowProblem, flow_diagnostics, sparse_flow
from graphbench.structures import Ragged

GRAPHS, NODES, HEADS, WIDTH = 8, 479, 4, 68
SIZES = f"{GRAPHS} graphs of {NODES} nodes, {HEADS} heads of width {WIDTH}"
ITERATIONS = 20
PAIRS, SLOW_PAIRS, MEMORY_PAIRS = 9, 3, 3
SPREADS = {1.0: 2.0, 2.25: 2.2, 4.0: 3.0}
"""Standard deviations of the scores, and how many times the time of softmax attention is allowed."""
THREADS = (1, 2)


def run(device: torch.device) -> list[Case]:
    """Random queries and keys of variance 1, so that scores have variance 1; lam = 1 / n, alpha = 0.1."""
    torch.manual_seed(0)
    cases = list(_on_cpu() if device.type == "cpu" else _times(device, torch.float32))
    ours, theirs = peaks(one_step, ("sparse", "softmax"), MEMORY_PAIRS, device)
    cases.append(Case(f"{SIZES}, peak memory, {device_name(device)}", "plain softmax", ours, theirs, 2.0, unit="MiB"))
    return cases if device.type == "cpu" else [*cases, *_times(device, torch.bfloat16)]


def _on_cpu() -> Iterable[Case]:
    """float32 at three spreads; against 20 proximal iterations once."""
    before = torch.get_num_threads()
    for spread, threads, load in itertools.product(SPREADS, THREADS, (False, True)):
        torch.set_num_threads(threads)
        ragged, inputs, lam = problem(CPU, spread=spread)
        exact = step(functools.partial(sparse_flow, *inputs, ragged, lam=lam), inputs)
        softmax = step(functools.partial(plain_softmax, inputs[0], inputs[1], inputs[4]), inputs)
        for warm_up in (exact, softmax):
            warm_up()
        with competing_load() if load else nullcontext():
            measured = paired_work(exact, softmax, PAIRS)
        where = f"spread {spread}, {threads} threads, {'beside other programs' if load else 'alone'}"
        for kind, seconds in measured.items():
            yield Case(f"{where}, {kind} time", "plain softmax", *seconds, target=1 / SPREADS[spread])
    torch.set_num_threads(before)
    ragged, inputs, lam = problem(CPU)
    exact = step(functools.partial(sparse_flow, *inputs, ragged, lam=lam), inputs)
    proximal = step(functools.partial(sparse_flow, *inputs, ragged, lam=lam, mode="proximal", iters=ITERATIONS), inputs)
    seconds = paired(exact, proximal, 1)
    yield Case(f"spread 1.0, {device_name(CPU)}", f"{ITERATIONS} proximal iterations", *seconds, target=8.0)


def _times(device: torch.device, dtype: torch.dtype) -> Iterable[Case]:
    ragged, inputs, lam = problem(device, dtype)
    zeros = flow_diagnostics(FlowProblem(*inputs[:4], ragged, lam=lam)).zero_fraction.mean().item()
    precision = str(dtype).removeprefix("torch.")
    name = f"{SIZES}, {zeros:.0%} zero flows, exact, {device_name(device)}, {precision}"
    exact = step(functools.partial(sparse_flow, *inputs, ragged, lam=lam), inputs)
    proximal = step(functools.partial(sparse_flow, *inputs, ragged, lam=lam, mode="proximal", iters=ITERATIONS), inputs)
    recorded = replayed(exact, device)  # what the GPU takes, however slow the host is that launches
    for peer_name, attention, target in (("plain softmax", plain_softmax, 1 / 0.9), ("fused softmax", fused, 1 / 2.5)):
        peer = replayed(step(functools.partial(attention, inputs[0], inputs[1], inputs[4]), inputs), device)
        yield Case(f"{name}, replayed", peer_name, *paired(recorded, peer, PAIRS, device), target)
    for warm_up in (exact, proximal):
        warm_up()
    yield Case(name, f"{ITERATIONS} proximal iterations", *paired(exact, proximal, SLOW_PAIRS, device), 8.0)


def problem(
    device: torch.device, dtype: torch.dtype = torch.float32, spread: float = 1.0
) -> tuple[Ragged, list[Tensor], Tensor]:
    """Partition, [q, k, q_friction, k_friction, v] and lam; the scores have this standard deviation."""
    shape = GRAPHS * NODES, HEADS, WIDTH
    scales = (*[math.sqrt(spread)] * 4, 1.0)
    inputs = [(scale * torch.randn(shape, device=device, dtype=dtype)).requires_grad_() for scale in scales]
    lam = torch.tensor(1 / NODES, device=device, requires_grad=True)
    return Ragged.from_sizes([NODES] * GRAPHS, device), inputs, lam


def plain_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention inside graphs of equal size, (N, H, d) as the operator has it."""
    q, k, v = (each.reshape(GRAPHS * HEADS, NODES, WIDTH) for each in _by_head(q, k, v))
    weights = torch.softmax(torch.bmm(q / math.sqrt(WIDTH), k.transpose(1, 2)), dim=-1)
    out = torch.bmm(torch.dropout(weights, 0.0, True), v)
    return _by_row(out.view(GRAPHS, HEADS, NODES, WIDTH))


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention by PyTorch's fused kernels, which store no matrix."""
    return _by_row(torch.nn.functional.scaled_dot_product_attention(*_by_head(q, k, v)))


def _by_head(*tensors: Tensor) -> list[Tensor]:
    """(graphs, heads, nodes, width) of (N, heads, width)."""
    return [each.view(GRAPHS, NODES, HEADS, WIDTH).transpose(1, 2) for each in tensors]


def _by_row(x: Tensor) -> Tensor:
    """Inverse."""
    return x.transpose(1, 2).reshape(GRAPHS * NODES, HEADS, WIDTH)


def one_step(which: str, device: torch.device) -> Callable[[], None]:
    """Forward and backward of one side, nothing of which has run before."""
    ragged, inputs, lam = problem(device)
    return {
        "sparse": step(functools.partial(sparse_flow, *inputs, ragged, lam=lam), inputs),
        "softmax": step(functools.partial(plain_softmax, inputs[0], inputs[1], inputs[4]), inputs),
    }[which]


def _load_code(which: str) -> None:
    """A step of small graphs: libraries and modules that are loaded on the way are no memory of the operator.

    A backward pass from a given gradient imports 34 MiB of PyTorch's modules for symbolic shapes, whatever it computes.
    """
    q, k, qf, kf, v = (torch.randn(64, HEADS, WIDTH, requires_grad=True) for _ in range(5))
    if which == "sparse":
        out = sparse_flow(q, k, qf, kf, v, Ragged.from_sizes([64]), lam=torch.tensor(1 / 64))
    else:
        out = torch.bmm(torch.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1), v)
    out.backward(torch.ones_like(out))


if __name__ == "__main__":
    _load_code(sys.argv[1])
    print(peak(one_step(sys.argv[1], CPU), CPU))
