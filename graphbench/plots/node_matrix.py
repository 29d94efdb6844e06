"""Figures of matrices between the nodes of one graph: their options, the run they read, the order of the nodes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphbench.errors import UserError
from graphbench.plots import canvas
from graphbench.plots.trained import Trained, read_trained
from graphbench.vocabulary import SPLITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options for run, graph, layers and order of the nodes."""
    parser.add_argument("run", type=Path, metavar="RUN_DIR", help="results/<config>/<seed>, with a checkpoint")
    parser.add_argument("--split", choices=SPLITS, default="val", help="default: val")
    parser.add_argument("--graph", type=int, default=0, metavar="I", help="number of the graph in it, from 0")
    parser.add_argument("--layer", type=int, nargs="+", metavar="L", help="from 0; default: the first and the last")
    parser.add_argument(
        "--order", choices=("natural", "community"), default="natural", help="of the nodes; default: as stored"
    )


def read_run(options: argparse.Namespace, max_nodes: int, what: str) -> Trained:
    """The run and graph of :func:`arguments`.

    Args:
        options: parsed options.
        max_nodes: most nodes that a graph may have.
        what: is drawn of it, in the plural.

    Raises:
        UserError: no such run or graph, or too large a graph.
    """
    run = read_trained(options.run, options.split, options.graph)
    if run.num_nodes > max_nodes:
        raise UserError(
            f"--graph {options.graph} has {run.num_nodes:,} nodes; {what} of up to {max_nodes:,} nodes are drawn."
        )
    return run


def chosen_layers(options: argparse.Namespace, layers: Sequence[Any]) -> list[int]:
    """Numbers of the layers to draw.

    Raises:
        UserError: there is no such layer.
    """
    chosen: list[int] = sorted({0, len(layers) - 1}) if options.layer is None else options.layer
    for layer in chosen:
        check_number("--layer", layer, len(layers))
    return chosen


def check_number(option: str, received: int, count: int) -> None:
    """Refuses numbers outside ``0 .. count - 1``."""
    if not 0 <= received < count:
        raise UserError(f"{option} must lie in 0 .. {count - 1}, received {received}.")


def node_order(num_nodes: int, edge_index: np.ndarray, order: str) -> tuple[np.ndarray, list[int]]:
    """Nodes in the order of rows and columns, and the indices at which a new community begins.

    ``community``: communities of the Louvain method, largest first.
    """
    nodes = np.arange(num_nodes)
    if order == "natural":
        return nodes, []
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(nodes.tolist())
    graph.add_edges_from(edge_index.T.tolist())
    groups = sorted(networkx.community.louvain_communities(graph, seed=0), key=lambda group: (-len(group), min(group)))
    nodes = np.array([node for group in groups for node in sorted(group)], dtype=int)
    return nodes, np.cumsum([len(group) for group in groups])[:-1].tolist()


def frame(axes: Axes, borders: Sequence[int]) -> None:
    """Draws the box of a matrix, numbers of nodes, and lines between communities."""
    canvas.whole_numbers(axes.xaxis, axes.yaxis)
    for border in borders:
        axes.axhline(border - 0.5, color="0.5", linewidth=0.4)
        axes.axvline(border - 0.5, color="0.5", linewidth=0.4)
    axes.spines[["top", "right"]].set_visible(True)
