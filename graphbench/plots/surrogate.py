"""Surrogate attention of a GECO model on one graph: the matrices of Equation 12.

A GECO layer multiplies its values, channel by channel, with a matrix that takes the place of attention weights. Rows
are the nodes that receive, columns those that are read. Left: one channel, entries of either sign. Right: the mean of
the absolute entries over all channels. The largest 0.5 % share the last colour. Prints for every layer how large
entries are on the diagonal, between neighbours and elsewhere, relative to the mean over all pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from graphbench.errors import UserError
from graphbench.plots import canvas, node_matrix
from graphbench.structures import GraphBatch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = 1500
"""Nodes of a graph that can still be drawn: every channel is the product of matrices of its square."""

CUT = 0.995
"""Quantile of the absolute entries at which colours end."""

_AT_ONCE = 8  # channels


@dataclass(frozen=True)
class Surrogate:
    """The matrices of one layer on one graph.

    Attributes:
        layer: name of the module.
        channels: how many it has.
        one: (n, n), the chosen channel.
        mean: (n, n), mean of the absolute entries over all channels.
    """

    layer: str
    channels: int
    one: np.ndarray
    mean: np.ndarray

    def sizes(self, edge_index: np.ndarray) -> dict[str, float]:
        """Mean entry of ``mean`` on the diagonal, between neighbours and elsewhere, relative to all; NaN for none."""
        kind = np.zeros(self.mean.shape, dtype=int)
        kind[edge_index[1], edge_index[0]] = 1  # messages go from row 0 to row 1 and rows of the matrix receive
        np.fill_diagonal(kind, 2)
        whole = self.mean.mean()
        means = [self.mean[kind == each].mean() if (kind == each).any() else np.nan for each in (2, 1, 0)]
        return dict(zip(("diagonal", "neighbours", "others"), (float(each / whole) for each in means), strict=True))


def arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    node_matrix.arguments(parser)
    parser.add_argument("--channel", type=int, default=0, metavar="C", help="from 0; default: 0")
    parser.add_argument("--untrained", action="store_true", help="show the model as initialised instead")


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints how large entries are.

    Raises:
        UserError: no such run, graph, layer or channel, too large a graph, or a model without such layers.
    """
    run = node_matrix.read_run(options, LARGEST, "matrices")
    model = run.initial if options.untrained else run.model
    found = read_surrogates(model, run.batch, options.channel, run.position)
    layers = node_matrix.chosen_layers(options, found)
    order, borders = node_matrix.node_order(run.num_nodes, run.edge_index, options.order)
    figure = draw([found[layer] for layer in layers], layers, options.channel, order, borders)
    state = "as initialised" if options.untrained else f"epoch {run.epoch}"
    print(f"{run.config} {run.run_id}, {state}; {options.split} graph {options.graph}: {len(order)} nodes")
    print(table(found, run.edge_index))
    return figure, f"surrogate-{run.config}-{run.run_id}"


@torch.no_grad()
def read_surrogates(model: nn.Module, batch: GraphBatch, channel: int, graph: int = 0) -> list[Surrogate]:
    """The matrices of every layer that has a method ``surrogate_attention``, on one graph of a batch.

    Raises:
        UserError: there is no such layer or channel.
    """
    found: list[Surrogate] = []

    def ask(name: str, layer: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        width = output.shape[1]
        node_matrix.check_number("--channel", channel, width)
        total, one = 0.0, None
        for first in range(0, width, _AT_ONCE):
            some = range(first, min(first + _AT_ONCE, width))
            matrices = layer.surrogate_attention(*args, **kwargs, channels=some)[graph].float()
            total = total + matrices.abs().sum(0)
            if channel in some:
                one = matrices[channel - first].numpy()
        assert one is not None
        found.append(Surrogate(name, width, one, (total / width).numpy()))

    node_matrix.ask_layers(model, batch, "surrogate_attention", ask)
    if not found:
        raise UserError("no layer of this model has a surrogate attention matrix; GECO does.")
    return found


def draw(
    found: Sequence[Surrogate], layers: Sequence[int], channel: int, order: np.ndarray, borders: Sequence[int] = ()
) -> Figure:
    """One row per layer: a channel with its sign, the mean size over all channels; every panel has its own scale."""
    import matplotlib
    from matplotlib.colors import CenteredNorm, Normalize

    figure = canvas.new_figure(2 * canvas.COLUMN, 2.75 * len(found) + 0.25)
    grid = figure.subplots(len(found), 2, squeeze=False, sharex=True, sharey=True)
    for number, (each, layer, line) in enumerate(zip(found, layers, grid, strict=True)):
        limits = [float(np.quantile(np.abs(values), CUT)) or 1.0 for values in (each.one, each.mean)]
        views = (
            (each.one, f"channel {channel}", CenteredNorm(0.0, limits[0]), "RdBu_r", "both", "entry"),
            (each.mean, "all channels", Normalize(0.0, limits[1]), "viridis", "max", "mean absolute entry"),
        )
        for axes, (values, title, scale, colors, extend, label) in zip(line, views, strict=True):
            image = axes.imshow(
                values[np.ix_(order, order)],
                norm=scale,
                cmap=matplotlib.colormaps[colors],
                interpolation="nearest" if len(order) < 200 else "antialiased",
            )
            node_matrix.frame(axes, borders)
            axes.set_title("" if number else title)
            figure.colorbar(image, ax=axes, label=label, extend=extend, shrink=0.9)
        line[0].set_ylabel(f"layer {layer}\nreceiving node")
    for axes in grid[-1]:
        axes.set_xlabel("node that is read")
    if len(borders):
        figure.supxlabel("nodes by community", fontsize="small")
    return figure


def table(found: Sequence[Surrogate], edge_index: np.ndarray) -> str:
    """Sizes of the entries of all layers, as Markdown."""
    lines = ["| layer | module | channels | diagonal | neighbours | others |", "|---" * 6 + "|"]
    for number, each in enumerate(found):
        sizes = " | ".join(f"{value:.3f}" for value in each.sizes(edge_index).values())
        lines.append(f"| {number} | {each.layer} | {each.channels} | {sizes} |")
    return "\n".join(lines)
