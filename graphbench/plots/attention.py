"""Attention pattern of a trained model on one graph: Figure 4 of SFi-Former.

Rows are queries, columns keys. Colour is the logarithm of a weight; entries that are exactly zero are white, also where
others are as small as rounding allows. For sparse flows the pattern is drawn before and after: the dense pattern
softmax(s) of the same layer, with the same input and parameters, from which friction and resistance make the flow.
``--untrained`` adds the pattern of the model as it was initialised. Prints the fraction of exact zeros of every layer.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from graphbench.layers.attention.sfi import SFi
from graphbench.plots import canvas, node_matrix
from graphbench.structures import GraphBatch
from graphbench.train.forward_hooks import ForwardObserver, attention_weights

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIPPED = 0.002
"""Fraction of the smallest positive weights that get one colour, so that a few of them do not take up the scale."""

MAX_NODES = 5000
"""Most nodes of a graph: every head of every layer is a matrix of its square."""


@dataclass(frozen=True)
class Pattern:
    """The weights of one layer on one graph, all (H, n, n).

    Attributes:
        layer: name of the module.
        weights: attention weights by view, in the order of the columns of the figure.
    """

    layer: str
    weights: dict[str, np.ndarray]

    def zero_fraction(self, view: str) -> float:
        """Fraction of entries that are exactly zero, over all heads."""
        return float((self.weights[view] == 0).mean())


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    node_matrix.arguments(parser)
    parser.add_argument("--head", type=int, default=0, metavar="H", help="from 0; default: 0")
    parser.add_argument("--untrained", action="store_true", help="show the model as initialised, too")


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints the fractions of exact zeros.

    Raises:
        UserError: no such run, graph, layer or head, too large a graph, or a model without attention weights.
    """
    run = node_matrix.read_run(options, MAX_NODES, "patterns")
    patterns = read_patterns(run.model, run.batch, run.position)
    if options.untrained:
        pairs = zip(read_patterns(run.initial, run.batch, run.position), patterns, strict=True)
        patterns = [
            Pattern(trained.layer, {"untrained": list(initial.weights.values())[-1], **trained.weights})
            for initial, trained in pairs
        ]
    layers = node_matrix.chosen_layers(options, patterns)
    for layer in layers:
        node_matrix.check_number("--head", options.head, len(next(iter(patterns[layer].weights.values()))))
    order, borders = node_matrix.node_order(run.num_nodes, run.edge_index, options.order)
    figure = draw(patterns, layers, options.head, order, borders)
    print(f"{run.config} {run.run_id}, epoch {run.epoch}; {options.split} graph {options.graph}: {len(order)} nodes")
    print(table(patterns))
    return figure, f"attention-{run.config}-{run.run_id}"


@torch.no_grad()
def read_patterns(model: nn.Module, batch: GraphBatch, graph: int = 0) -> list[Pattern]:
    """The weights of every layer that returns them, on one graph of a batch.

    Raises:
        UserError: there is no such layer.
    """
    flows = ForwardObserver(model, SFi, SFi.dense_weights, lambda name: model.get_submodule(name).mode == "sparse")
    with flows() as before:
        found = attention_weights(model, lambda: model(batch))
    patterns = []
    for name, weights in found.items():
        views = {"attention": weights}
        if name in before:
            views = {"before: softmax(s)": before[name], "after: sparse flow": weights}
        patterns.append(Pattern(name, {view: each[graph].float().numpy() for view, each in views.items()}))
    return patterns


def draw(
    patterns: Sequence[Pattern], layers: Sequence[int], head: int, order: np.ndarray, borders: Sequence[int] = ()
) -> Figure:
    """One row per layer, one column per view, one scale of colours. Layers of different kinds have different views."""
    import matplotlib
    from matplotlib.colors import LogNorm

    views = [tuple(patterns[layer].weights) for layer in layers]
    columns, alike = max(map(len, views)), len(set(views)) == 1
    drawn = [[view[head][np.ix_(order, order)] for view in patterns[layer].weights.values()] for layer in layers]
    positive = np.concatenate([weights[weights > 0] for row in drawn for weights in row])
    low, high = np.quantile(positive, [CLIPPED, 1.0]) if positive.size else (0.1, 1.0)
    low = 10.0 ** np.floor(np.log10(low))
    scale = LogNorm(low, max(10.0 ** np.ceil(np.log10(high)), 10 * low))
    extend = "min" if positive.size and positive.min() < low else "neither"
    colors = matplotlib.colormaps["viridis"].with_extremes(bad="white")
    width = canvas.COLUMN * max(1.0, columns / 2)
    side = (width - 1.45) / columns  # without labels and colour bar
    figure = canvas.new_figure(width, (side + 0.28) * len(layers) + 0.55)
    grid = figure.subplots(len(layers), columns, squeeze=False, sharex=True, sharey=True)
    for number, (row, layer, line) in enumerate(zip(drawn, layers, grid, strict=True)):
        for axes in line[len(row) :]:
            axes.set_visible(False)
        for weights, view, axes in zip(row, patterns[layer].weights, line):
            image = axes.imshow(np.ma.masked_equal(weights, 0.0), norm=scale, cmap=colors, interpolation="nearest")
            node_matrix.frame(axes, borders)
            zeros = f"{100 * float((weights == 0).mean()):.3g} % zero"
            axes.set_title(zeros if number and alike else f"{view}\n{zeros}")
        line[0].set_ylabel(f"layer {layer}, head {head}\nquery node")
    for axes in grid[-1]:
        axes.set_xlabel("key node")
    if len(borders):
        figure.supxlabel("nodes by community", fontsize="small")
    figure.colorbar(image, ax=grid, label="attention weight", extend=extend, aspect=side * len(layers) / 0.08)
    return figure


def table(patterns: Sequence[Pattern]) -> str:
    """Fractions of exact zeros over all heads, as Markdown."""
    views = list(dict.fromkeys(view for pattern in patterns for view in pattern.weights))
    rows = []
    for number, pattern in enumerate(patterns):
        zeros = [f"{pattern.zero_fraction(view):.4f}" if view in pattern.weights else "-" for view in views]
        rows.append([number, pattern.layer, *zeros])
    return canvas.markdown(["layer", "module", *(f"zeros, {view}" for view in views)], rows)
