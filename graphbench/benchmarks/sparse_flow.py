"""Sparse flow, forward and backward, against plain softmax attention and against the paper's iteration.

The softmax attention is what one writes in PyTorch: two products and a softmax, differentiated by autograd, which
stores the matrices. Sizes are those of PascalVOC-SP. On a GPU, bfloat16 besides. Peak memory on the CPU is measured in
a fresh process per run: ``python -m graphbench.benchmarks.sparse_flow sparse|softmax`` prints it.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import CPU, device_name, paired, peak, peaks, step
from graphbench.ops.sparse_flow import FlowProblem, flow_diagnostics, sparse_flow
from graphbench.structures import Ragged

GRAPHS, NODES, HEADS, WIDTH = 8, 479, 4, 68
SIZES = f"{GRAPHS} graphs of {NODES} nodes, {HEADS} heads of width {WIDTH}"
ITERATIONS = 20
PAIRS, SLOW_PAIRS, MEMORY_PAIRS = 9, 3, 3


def run(device: torch.device) -> list[Case]:
    """Random queries and keys of variance 1, so that scores have variance 1; lam = 1 / n, alpha = 0.1."""
    torch.manual_seed(0)
    cases = list(_times(device, torch.float32))
    ours, theirs = peaks(one_step, ("sparse", "softmax"), MEMORY_PAIRS, device)
    cases.append(Case(f"{SIZES}, peak memory, {device_name(device)}", "plain softmax", ours, theirs, 1 / 3, unit="MiB"))
    return cases if device.type == "cpu" else [*cases, *_times(device, torch.bfloat16)]


def _times(device: torch.device, dtype: torch.dtype) -> Iterable[Case]:
    ragged, inputs, lam = problem(device, dtype)
    zeros = flow_diagnostics(FlowProblem(*inputs[:4], ragged, lam=lam)).zero_fraction.mean().item()
    name = f"{SIZES}, {zeros:.0%} zero flows, exact, {device_name(device)}"
    if device.type != "cpu":
        name += f", {str(dtype).removeprefix('torch.')}"
    exact = step(functools.partial(sparse_flow, *inputs, ragged, lam=lam), inputs)
    softmax = step(functools.partial(plain_softmax, inputs[0], inputs[1], inputs[4]), inputs)
    proximal = step(functools.partial(sparse_flow, *inputs, ragged, lam=lam, mode="proximal", iters=ITERATIONS), inputs)
    for warm_up in (exact, softmax) if device.type == "cpu" else (exact, softmax, proximal):
        warm_up()
    for peer_name, peer, pairs, target in (
        ("plain softmax", softmax, PAIRS, 1 / 3),
        (f"{ITERATIONS} proximal iterations", proximal, SLOW_PAIRS, 8.0),
    ):
        yield Case(name, peer_name, *paired(exact, peer, pairs, device), target)


def problem(device: torch.device, dtype: torch.dtype = torch.float32) -> tuple[Ragged, list[Tensor], Tensor]:
    """Partition, [q, k, q_friction, k_friction, v] and lam."""
    shape = GRAPHS * NODES, HEADS, WIDTH
    inputs = [torch.randn(shape, device=device, dtype=dtype, requires_grad=True) for _ in range(5)]
    lam = torch.tensor(1 / NODES, device=device, requires_grad=True)
    return Ragged.from_sizes([NODES] * GRAPHS, device), inputs, lam


def plain_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention inside graphs of equal size, (N, H, d) as the operator has it."""
    q, k, v = (
        tensor.view(GRAPHS, NODES, HEADS, WIDTH).transpose(1, 2).reshape(GRAPHS * HEADS, NODES, WIDTH)
        for tensor in (q, k, v)
    )
    weights = torch.softmax(torch.bmm(q / math.sqrt(WIDTH), k.transpose(1, 2)), dim=-1)
    out = torch.bmm(torch.dropout(weights, 0.0, True), v)
    return out.view(GRAPHS, HEADS, NODES, WIDTH).transpose(1, 2).reshape(GRAPHS * NODES, HEADS, WIDTH)


def one_step(which: str, device: torch.device) -> Callable[[], None]:
    """Forward and backward of one side, nothing of which has run before."""
    ragged, inputs, lam = problem(device)
    return {
        "sparse": step(functools.partial(sparse_flow, *inputs, ragged, lam=lam), inputs),
        "softmax": step(functools.partial(plain_softmax, inputs[0], inputs[1], inputs[4]), inputs),
    }[which]


if __name__ == "__main__":
    print(peak(one_step(sys.argv[1], CPU), CPU))
