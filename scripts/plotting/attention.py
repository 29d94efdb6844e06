"""Attention pattern of a trained model on one graph: Figure 4 of SFi-Former.

Rows are queries, columns keys. Colour is the logarithm of a weight; entries that are exactly zero are white, also where
others are as small as rounding allows. For sparse flows the pattern is drawn before and after: the dense pattern
softmax(s) of the same layer, with the same input and parameters, from which friction and resistance make the flow.
``--untrained`` adds the pattern of the model as it was initialised. Prints each layer's share of exact zeros.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from graphbench.errors import UserError
from graphbench.layers.attention.sfi import SFi
from graphbench.structures import GraphBatch
from scripts.plotting import canvas
from scripts.plotting.trained import read_trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIPPED = 0.002
"""Share of the smallest positive weights that get one colour, so that a few of them do not take up the scale."""


LARGEST = 5000
"""Nodes of a graph that can still be drawn: every head of every layer is a matrix of its square."""


@dataclass(frozen=True)
class Pattern:
    """The weights of one layer on one graph, all (H, n, n).

    Attributes:
        layer: name of the module.
        weights: by what they show, in the order of the columns of the figure.
    """

    layer: str
    weights: dict[str, np.ndarray]

    def zero_share(self, shown: str) -> float:
        """Share of entries that are exactly zero, over all heads."""
        return float((self.weights[shown] == 0).mean())


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("run", type=Path, metavar="RUN_DIR", help="results/<config>/<seed>, with a checkpoint")
    parser.add_argument("--split", choices=("train", "val", "test"), default="val", help="default: val")
    parser.add_argument("--graph", type=int, default=0, metavar="I", help="number of the graph in it, from 0")
    parser.add_argument("--layer", type=int, nargs="+", metavar="L", help="from 0; default: the first and the last")
    parser.add_argument("--head", type=int, default=0, metavar="H", help="from 0; default: 0")
    parser.add_argument(
        "--order", choices=("natural", "community"), default="natural", help="of the nodes; default: as stored"
    )
    parser.add_argument("--untrained", action="store_true", help="show the model as initialised, too")


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints the shares of exact zeros.

    Raises:
        UserError: no such run, graph, layer or head, too large a graph, or a model without attention weights.
    """
    run = read_trained(options.run, options.split, options.graph)
    if run.num_nodes > LARGEST:
        raise UserError(
            f"--graph {options.graph} has {run.num_nodes:,} nodes; patterns of up to {LARGEST:,} nodes are drawn."
        )
    patterns = read_patterns(run.model, run.batch, run.position)
    if options.untrained:
        pairs = zip(read_patterns(run.initial, run.batch, run.position), patterns, strict=True)
        patterns = [
            Pattern(each.layer, {"untrained": list(old.weights.values())[-1], **each.weights}) for old, each in pairs
        ]
    layers = sorted({0, len(patterns) - 1}) if options.layer is None else options.layer
    for layer in layers:
        _check("--layer", layer, len(patterns))
        _check("--head", options.head, len(next(iter(patterns[layer].weights.values()))))
    order, borders = node_order(run.num_nodes, run.edge_index, options.order)
    figure = draw(patterns, layers, options.head, order, borders)
    print(f"{run.config} {run.run_id}, epoch {run.epoch}; {options.split} graph {options.graph}: {len(order)} nodes")
    print(table(patterns))
    return figure, f"attention-{run.config}-{run.run_id}"


@torch.no_grad()
def read_patterns(model: nn.Module, batch: GraphBatch, graph: int = 0) -> list[Pattern]:
    """The weights of every layer that has a method ``attention_weights``, on one graph of a batch.

    Raises:
        UserError: there is no such layer.
    """
    found: list[Pattern] = []

    def ask(name: str, layer: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        views = {"attention": layer}
        if isinstance(layer, SFi) and layer.mode == "sparse":
            dense = copy.copy(layer)  # shares parameters
            dense.solver = {**layer.solver, "mode": "dense"}
            views = {"before: softmax(s)": dense, "after: sparse flow": layer}
        weights = {shown: _array(each.attention_weights(*args, **kwargs)[graph]) for shown, each in views.items()}
        if all(map(len, weights.values())):
            found.append(Pattern(name, weights))

    asked = {name: each for name, each in model.named_modules() if callable(getattr(each, "attention_weights", None))}
    hooks = [each.register_forward_hook(partial(ask, name), with_kwargs=True) for name, each in asked.items()]
    try:
        model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    if not found:
        raise UserError("no layer of this model gives its attention weights; Transformer and SFi do.")
    return found


def node_order(num_nodes: int, edge_index: np.ndarray, order: str) -> tuple[np.ndarray, list[int]]:
    """Nodes in the order of rows and columns, and the places where a community ends.

    ``community``: those that the Louvain method finds in the graph, largest first.
    """
    nodes = np.arange(num_nodes)
    if order == "natural":
        return nodes, []
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(nodes.tolist())
    graph.add_edges_from(edge_index.T.tolist())
    groups = sorted(networkx.community.louvain_communities(graph, seed=0), key=lambda each: (-len(each), min(each)))
    sizes = [len(each) for each in groups]
    return np.array([node for each in groups for node in sorted(each)], dtype=int), np.cumsum(sizes)[:-1].tolist()


def draw(
    patterns: Sequence[Pattern], layers: Sequence[int], head: int, order: np.ndarray, borders: Sequence[int] = ()
) -> Figure:
    """One row per layer, one column per view, one scale of colours. Layers of different kinds have different views."""
    import matplotlib
    from matplotlib.colors import LogNorm

    views = [tuple(patterns[layer].weights) for layer in layers]
    columns, alike = max(map(len, views)), len(set(views)) == 1
    drawn = [[view[head][np.ix_(order, order)] for view in patterns[layer].weights.values()] for layer in layers]
    positive = np.concatenate([each[each > 0] for row in drawn for each in row])
    low, high = np.quantile(positive, [CLIPPED, 1.0]) if positive.size else (0.1, 1.0)
    low = 10.0 ** np.floor(np.log10(low))
    scale = LogNorm(low, max(10.0 ** np.ceil(np.log10(high)), 10 * low))
    extend = "min" if positive.size and positive.min() < low else "neither"
    colors = matplotlib.colormaps["viridis"].with_extremes(bad="white")
    width = canvas.COLUMN * max(1.0, columns / 2)
    side = (width - 1.45) / columns  # what labels and the bar leave
    figure = canvas.new_figure(width, (side + 0.28) * len(layers) + 0.55)
    grid = figure.subplots(len(layers), columns, squeeze=False, sharex=True, sharey=True)
    for number, (row, layer, line) in enumerate(zip(drawn, layers, grid, strict=True)):
        for axes in line[len(row) :]:
            axes.set_visible(False)
        for weights, shown, axes in zip(row, patterns[layer].weights, line):
            image = axes.imshow(np.ma.masked_equal(weights, 0.0), norm=scale, cmap=colors, interpolation="nearest")
            for border in borders:
                for line_of in (axes.axhline, axes.axvline):
                    line_of(border - 0.5, color="0.5", linewidth=0.4)
            axes.spines[["top", "right"]].set_visible(True)
            zeros = f"{100 * float((weights == 0).mean()):.3g} % zero"
            axes.set_title(zeros if number and alike else f"{shown}\n{zeros}")
        line[0].set_ylabel(f"layer {layer}, head {head}\nquery node")
    for axes in grid[-1]:
        axes.set_xlabel("key node")
    if len(borders):
        figure.supxlabel("nodes by community", fontsize="small")
    figure.colorbar(image, ax=grid, label="attention weight", extend=extend, aspect=side * len(layers) / 0.08)
    return figure


def table(patterns: Sequence[Pattern]) -> str:
    """Shares of exact zeros over all heads, as Markdown."""
    shown = list(dict.fromkeys(view for pattern in patterns for view in pattern.weights))
    lines = [
        "| layer | module | " + " | ".join(f"zeros, {each}" for each in shown) + " |",
        "|---" * (2 + len(shown)) + "|",
    ]
    for number, pattern in enumerate(patterns):
        shares = " | ".join(f"{pattern.zero_share(each):.4f}" if each in pattern.weights else "-" for each in shown)
        lines.append(f"| {number} | {pattern.layer} | {shares} |")
    return "\n".join(lines)


def _check(option: str, received: int, count: int) -> None:
    if not 0 <= received < count:
        raise UserError(f"{option} must lie in 0 .. {count - 1}, received {received}.")


def _array(weights: Tensor) -> np.ndarray:
    return weights.float().numpy()
