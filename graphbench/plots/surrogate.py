"""Surrogate attention of a GECO model on one graph: the matrices of Equation 12.

A GECO layer multiplies its values, channel by channel, with a matrix that takes the place of attention weights. Rows
are the nodes that receive, columns those that are read. Left: one channel, entries of either sign. Right: the mean of
the absolute entries over all channels. The largest 0.5 % have the last colour. Prints for every layer how large
entries are on the diagonal, between neighbours and elsewhere, relative to the mean over all pairs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from graphbench.errors import UserError
from graphbench.layers.attention.geco.layer import GECO
from graphbench.plots import canvas, node_matrix
from graphbench.structures import GraphBatch
from graphbench.train.forward_hooks import ForwardObserver

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_NODES = 1500
"""Most nodes of a graph: every channel is the product of matrices of its square."""

CUT = 0.995
"""Quantile of the absolute entries at which colours end."""

_CHANNELS_AT_ONCE = 8


@dataclass(frozen=True)
class Surrogate:
    """The matrices of one layer on one graph.

    Attributes:
        layer: name of the module.
        channels: number of them.
        one: (n, n), the chosen channel.
        mean: (n, n), mean of the absolute entries over all channels.
    """

    layer: str
    channels: int
    one: np.ndarray
    mean: np.ndarray

    def sizes(self, edge_index: np.ndarray) -> dict[str, float]:
        """Mean entry of ``mean`` on the diagonal, between neighbours and elsewhere, relative to all; NaN for none."""
        diagonal = np.eye(len(self.mean), dtype=bool)
        neighbours = np.zeros_like(diagonal)
        neighbours[edge_index[1], edge_index[0]] = True  # rows receive: messages go from edge_index[0] to edge_index[1]
        neighbours &= ~diagonal
        masks = {"diagonal": diagonal, "neighbours": neighbours, "others": ~(diagonal | neighbours)}
        total = self.mean.mean()
        return {
            name: float(self.mean[mask].mean() / total) if mask.any() else float("nan") for name, mask in masks.items()
        }


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    node_matrix.arguments(parser)
    parser.add_argument("--channel", type=int, default=0, metavar="C", help="from 0; default: 0")
    parser.add_argument("--untrained", action="store_true", help="show the model as initialised instead")


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints how large entries are.

    Raises:
        UserError: no such run, graph, layer or channel, too large a graph, or a model without such layers.
    """
    run = node_matrix.read_run(options, MAX_NODES, "matrices")
    model = run.initial if options.untrained else run.model
    surrogates = read_surrogates(model, run.batch, options.channel, run.position)
    layers = node_matrix.chosen_layers(options, surrogates)
    order, borders = node_matrix.node_order(run.num_nodes, run.edge_index, options.order)
    figure = draw([surrogates[layer] for layer in layers], layers, options.channel, order, borders)
    state = "as initialised" if options.untrained else f"epoch {run.epoch}"
    print(f"{run.config} {run.run_id}, {state}; {options.split} graph {options.graph}: {len(order)} nodes")
    print(table(surrogates, run.edge_index))
    return figure, f"surrogate-{run.config}-{run.run_id}"


@torch.no_grad()
def read_surrogates(model: nn.Module, batch: GraphBatch, channel: int, graph: int = 0) -> list[Surrogate]:
    """The matrices of every GECO layer, on one graph of a batch.

    Raises:
        UserError: there is no such layer or channel.
    """

    def ask(layer: GECO, h: Tensor, *args: Any, **kwargs: Any) -> tuple[int, np.ndarray, np.ndarray]:
        width = h.shape[1]
        node_matrix.check_number("--channel", channel, width)
        total = torch.zeros(())
        one = None
        for first in range(0, width, _CHANNELS_AT_ONCE):
            channels = range(first, min(first + _CHANNELS_AT_ONCE, width))
            matrices = layer.surrogate_attention(h, *args, **kwargs, channels=channels)[graph].float()
            total = total + matrices.abs().sum(0)
            if channel in channels:
                one = matrices[channel - first].numpy()
        assert one is not None
        return width, one, (total / width).numpy()

    with ForwardObserver(model, GECO, ask)() as surrogates:
        model(batch)
    if not surrogates:
        raise UserError("no layer of this model has a surrogate attention matrix; GECO does.")
    return [Surrogate(name, *surrogate) for name, surrogate in surrogates.items()]


def draw(
    surrogates: Sequence[Surrogate], layers: Sequence[int], channel: int, order: np.ndarray, borders: Sequence[int] = ()
) -> Figure:
    """One row per layer: a channel with its sign, the mean size over all channels; every panel has its own scale."""
    import matplotlib
    from matplotlib.colors import CenteredNorm, Normalize

    figure = canvas.new_figure(2 * canvas.COLUMN, 2.75 * len(surrogates) + 0.25)
    grid = figure.subplots(len(surrogates), 2, squeeze=False, sharex=True, sharey=True)
    for number, (surrogate, layer, line) in enumerate(zip(surrogates, layers, grid, strict=True)):
        limits = [float(np.quantile(np.abs(values), CUT)) or 1.0 for values in (surrogate.one, surrogate.mean)]
        views = (
            (surrogate.one, f"channel {channel}", CenteredNorm(0.0, limits[0]), "RdBu_r", "both", "entry"),
            (surrogate.mean, "all channels", Normalize(0.0, limits[1]), "viridis", "max", "mean absolute entry"),
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


def table(surrogates: Sequence[Surrogate], edge_index: np.ndarray) -> str:
    """Sizes of the entries of all layers, as Markdown."""
    rows = []
    for number, surrogate in enumerate(surrogates):
        sizes = [f"{value:.3f}" for value in surrogate.sizes(edge_index).values()]
        rows.append([number, surrogate.layer, surrogate.channels, *sizes])
    return canvas.markdown(["layer", "module", "channels", "diagonal", "neighbours", "others"], rows)
