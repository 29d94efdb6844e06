"""Agreement with the authors' own programs: weights by formula, their recorded outputs and gradients.

A file of ``tests/models/originals/`` holds what a public implementation computed in float64, with the repository and
the commit it comes from. Weights and inputs are not stored: both sides compute them from their names, by
:func:`pattern`. The test maps the weights of the original onto ours by differentiable operations, so that gradients are
compared weight by weight, in the form the original has them.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from torch import Tensor, nn

from graphbench.config import load_config
from graphbench.factory.model import build_model
from graphbench.structures import DataInfo, GraphBatch, PairBlocks, Ragged
from tests.paths import ROOT

FOLDER = Path(__file__).parent / "originals"
EDGES = {
    "seven": [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 6), (1, 4)],
    "star": [(0, 1), (0, 2), (0, 3)],
    "square": [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4)],
}
"""Undirected, connected, of 7, 4 and 5 nodes, no loops."""
NODES = {"seven": 7, "star": 4, "square": 5}
MODES = pytest.mark.parametrize("mode", ["eval", "train"])
TOLERANCE = 1e-9
"""Of the largest entry: about eps * 1e7, for fewer than 1e4 additions per number and condition numbers below 1e3."""

Weights = Mapping[str, Tensor]


def pattern(name: str, shape: Sequence[int], scale: float = 0.5) -> Tensor:
    """Numbers in [-scale, scale] that depend on name and place only, without any random generator."""
    phase = zlib.crc32(name.encode()) % 6283 / 1000
    count = math.prod(shape)
    return scale * torch.cos(torch.arange(count, dtype=torch.float64) * 2.3999632 + phase).reshape(*shape)


def positive(name: str, shape: Sequence[int]) -> Tensor:
    """Numbers in [0.5, 1.5], for scales and running variances."""
    return 1 + pattern(name, shape)


def weight(name: str, shape: Sequence[int]) -> Tensor:
    """The value of a parameter or buffer of an original; variances are positive."""
    return positive(name, shape) if name.endswith("running_var") else pattern(name, shape)


def edge_index(graphs: Sequence[str]) -> Tensor:
    """(2, E): the graphs one after the other, both directions of every edge, sorted by source and target."""
    pairs, first = [], 0
    for graph in graphs:
        pairs += [(first + s, first + t) for a, b in EDGES[graph] for s, t in ((a, b), (b, a))]
        first += NODES[graph]
    return torch.tensor(sorted(pairs)).t().contiguous()


def sizes(graphs: Sequence[str]) -> list[int]:
    """Nodes of every graph."""
    return [NODES[graph] for graph in graphs]


def batch_of(graphs: Sequence[str], **fields: Any) -> GraphBatch:
    """The graphs as a batch."""
    return GraphBatch(ragged=Ragged.from_sizes(sizes(graphs)), edge_index=edge_index(graphs), **fields)


def read(name: str) -> dict[str, Any]:
    """What was recorded of an original."""
    recorded: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return recorded


def summary(gradient: Tensor | None) -> list[float]:
    """Two numbers that differ where a gradient differs: its norm and its product with :func:`pattern`."""
    if gradient is None:
        return [0.0, 0.0]
    return [float(gradient.norm()), float((gradient * pattern("summary", gradient.shape)).sum())]


def compare(
    recorded: Mapping[str, Any],
    mode: str,
    model: nn.Module,
    call: Callable[[Callable[..., Any], Mapping[str, Tensor]], Tensor],
    ours: Callable[[Weights], Weights],
    loss: Callable[[Tensor], Tensor] | None = None,
) -> None:
    """Holds a model of ours to what its original computed.

    Args:
        recorded: from :func:`read`.
        mode: ``eval``, or how the model trains: ``train`` (dropout must be 0), or another name.
        model: of the same sizes; its own weights are not used.
        call: ``(model, inputs by name) -> output``.
        ours: weights of the original by name -> parameters and buffers of ours, each of them.
        loss: output -> () whose gradients were recorded; None: the product with :func:`pattern`.
    """
    case = recorded[mode]
    inputs = {name: pattern(name, shape).requires_grad_() for name, shape in recorded["inputs"].items()}
    weights = {name: weight(name, shape).requires_grad_() for name, shape in recorded["weights"].items()}
    state = dict(ours(weights))
    wanted = {name for name, _ in [*model.named_parameters(), *model.named_buffers()]} - set(state)
    assert all(name.endswith("num_batches_tracked") for name in wanted), f"not given by the original: {sorted(wanted)}"
    buffers = {name for name, _ in model.named_buffers()}
    state = {name: value.detach().clone() if name in buffers else value for name, value in state.items()}
    model.double().train(mode != "eval")
    output = call(lambda *a, **k: torch.func.functional_call(model, state, a, k, strict=False), inputs)
    expected = torch.tensor(case["output"], dtype=torch.float64)
    scale = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(output, expected, rtol=0, atol=TOLERANCE * scale)
    leaves = {**weights, **inputs}
    value = (output * pattern("loss", output.shape)).sum() if loss is None else loss(output)
    gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    found = {name: summary(gradient) for name, gradient in zip(leaves, gradients, strict=True)}
    scale = max(1.0, *(norm for norm, _ in case["gradients"].values()))
    for name, (norm, product) in case["gradients"].items():
        assert abs(found[name][0] - norm) <= TOLERANCE * scale, (name, found[name], (norm, product))
        assert abs(found[name][1] - product) <= TOLERANCE * scale, (name, found[name], (norm, product))


def configured(name: str, task: str = "node", **overrides: Any) -> Any:
    """The model of a shipped configuration for classification, at the sizes of a recording."""
    pairs = [str(part) for key, value in overrides.items() for part in (key.replace("__", "."), value)]
    info = DataInfo(
        "original", task, "classification", node_in=6, edge_in=0, out_dim=3, metric="accuracy", maximize=True
    )
    return build_model(load_config(ROOT / f"configs/{name}.yaml", pairs), info)


def renamed(weights: Weights, rules: dict[str, str], drop: str = "$^") -> dict[str, Tensor]:
    """Weights under the names that regular expressions give them, without those that ``drop`` matches."""
    state = {}
    for name, value in weights.items():
        if re.search(drop, name):
            continue
        for rule, replacement in rules.items():
            name = re.sub(rule, replacement, name)
        state[name] = value
    return state


def on_one_graph(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """Prediction for the nodes of one graph, from their features."""
    prediction: Tensor = model(batch_of(["seven"], x=inputs["x"]))
    return prediction


def distances(graphs: list[str]) -> PairBlocks:
    """Hops between all pairs of nodes of a graph."""
    blocks = []
    for graph in graphs:
        edges = edge_index([graph])
        hops = dijkstra(coo_array((torch.ones(edges.shape[1]), edges.numpy())), unweighted=True)
        blocks.append(torch.from_numpy(hops.astype("uint8")).reshape(-1))
    return PairBlocks(torch.cat(blocks), tuple(sizes(graphs)))
