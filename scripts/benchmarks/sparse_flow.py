"""Sparse flow, forward and backward, against plain softmax attention and against the paper's iteration.

The softmax attention is what one writes in PyTorch: two products and a softmax, differentiated by autograd, which
stores the matrices. Sizes are those of PascalVOC-SP. Peak memory is measured in a fresh process per run:
``python -m scripts.benchmarks.sparse_flow sparse|softmax`` prints it.
"""

from __future__ import annotations

import functools
import math
import sys

import torch
from torch import Tensor

from graphbench.ops.sparse_flow import flow_diagnostics, sparse_flow
from graphbench.structures import Ragged
from scripts.benchmarks.case import Case
from scripts.benchmarks.measuring import paired, peaks, print_peak, step

GRAPHS, NODES, HEADS, WIDTH = 8, 479, 4, 68
ITERATIONS = 20
PAIRS, SLOW_PAIRS, MEMORY_PAIRS = 9, 3, 3


def run() -> list[Case]:
    """Random queries and keys of variance 1, so that scores have variance 1; lam = 1 / n, alpha = 0.1."""
    torch.manual_seed(0)
    ragged, inputs, lam = problem()
    zeros = flow_diagnostics(*inputs[:4], ragged, lam=lam).zero_share.mean().item()
    name = f"{GRAPHS} graphs of {NODES} nodes, {HEADS} heads of width {WIDTH}, {zeros:.0%} zero flows"
    threads = f"{torch.get_num_threads()} threads"
    exact = step(functools.partial(sparse_flow, *inputs, ragged, lam=lam), inputs)
    softmax = step(functools.partial(plain_softmax, inputs[0], inputs[1], inputs[4]), inputs)
    proximal = step(functools.partial(sparse_flow, *inputs, ragged, lam=lam, mode="proximal", iters=ITERATIONS), inputs)
    for warm_up in (exact, softmax):
        warm_up()
    cases = []
    for peer_name, peer, pairs, target in (
        ("plain softmax", softmax, PAIRS, 1 / 3),
        (f"{ITERATIONS} proximal iterations", proximal, SLOW_PAIRS, 8.0),
    ):
        ours, theirs = paired(exact, peer, pairs)
        cases.append(Case(f"{name}, exact, {threads}", peer_name, ours, theirs, target))
    ours, theirs = peaks("scripts.benchmarks.sparse_flow", ("sparse", "softmax"), MEMORY_PAIRS)
    cases.append(Case(f"{name}, peak memory", "plain softmax", ours, theirs, 1 / 3, unit="MiB"))
    return cases


def problem() -> tuple[Ragged, list[Tensor], Tensor]:
    """Partition, [q, k, q_friction, k_friction, v] and lam."""
    inputs = [torch.randn(GRAPHS * NODES, HEADS, WIDTH, requires_grad=True) for _ in range(5)]
    return Ragged.from_sizes([NODES] * GRAPHS), inputs, torch.tensor(1 / NODES, requires_grad=True)


def plain_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention inside graphs of equal size, (N, H, d) as the operator has it."""
    q, k, v = (
        each.view(GRAPHS, NODES, HEADS, WIDTH).transpose(1, 2).reshape(GRAPHS * HEADS, NODES, WIDTH)
        for each in (q, k, v)
    )
    weights = torch.softmax(torch.bmm(q / math.sqrt(WIDTH), k.transpose(1, 2)), dim=-1)
    out = torch.bmm(torch.dropout(weights, 0.0, True), v)
    return out.view(GRAPHS, HEADS, NODES, WIDTH).transpose(1, 2).reshape(GRAPHS * NODES, HEADS, WIDTH)


def main(which: str) -> None:
    """Prints the peak memory of a step above the memory before it, gradients included."""
    ragged, inputs, lam = problem()
    once = {
        "sparse": step(functools.partial(sparse_flow, *inputs, ragged, lam=lam), inputs),
        "softmax": step(functools.partial(plain_softmax, inputs[0], inputs[1], inputs[4]), inputs),
    }[which]
    print_peak(once)


if __name__ == "__main__":
    main(*sys.argv[1:])
