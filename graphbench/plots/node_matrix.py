"""What figures of matrices between the nodes of one graph share: options, the run they read, the order of the nodes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from graphbench.errors import UserError
from graphbench.plots.trained import Trained, read_trained
from graphbench.structures import GraphBatch

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def arguments(parser: argparse.ArgumentParser) -> None:
    """Run, graph, layers and order of the nodes."""
    parser.add_argument("run", type=Path, metavar="RUN_DIR", help="results/<config>/<seed>, with a checkpoint")
    parser.add_argument("--split", choices=("train", "val", "test"), default="val", help="default: val")
    parser.add_argument("--graph", type=int, default=0, metavar="I", help="number of the graph in it, from 0")
    parser.add_argument("--layer", type=int, nargs="+", metavar="L", help="from 0; default: the first and the last")
    parser.add_argument(
        "--order", choices=("natural", "community"), default="natural", help="of the nodes; default: as stored"
    )


def read_run(options: argparse.Namespace, largest: int, what: str) -> Trained:
    """The run and graph of :func:`arguments`.

    Args:
        options: as parsed.
        largest: nodes that a graph may have.
        what: is drawn of it, in the plural.

    Raises:
        UserError: no such run or graph, or too large a graph.
    """
    run = read_trained(options.run, options.split, options.graph)
    if run.num_nodes > largest:
        raise UserError(
            f"--graph {options.graph} has {run.num_nodes:,} nodes; {what} of up to {largest:,} nodes are drawn."
        )
    return run


def ask_layers(model: nn.Module, batch: GraphBatch, method: str, ask: Callable[..., None]) -> None:
    """One forward pass, in which every layer that has a method is met with its input.

    Args:
        model: of a run.
        batch: its input.
        method: name of the method.
        ask: called with the layer's name, the layer, its arguments, its keyword arguments and its output.
    """
    asked = {name: each for name, each in model.named_modules() if callable(getattr(each, method, None))}
    hooks = [each.register_forward_hook(partial(ask, name), with_kwargs=True) for name, each in asked.items()]
    try:
        model(batch)
    finally:
        for hook in hooks:
            hook.remove()


def chosen_layers(options: argparse.Namespace, found: Sequence[Any]) -> list[int]:
    """Numbers of the layers to draw.

    Raises:
        UserError: there is no such layer.
    """
    layers: list[int] = sorted({0, len(found) - 1}) if options.layer is None else options.layer
    for layer in layers:
        check_number("--layer", layer, len(found))
    return layers


def check_number(option: str, received: int, count: int) -> None:
    """Refuses numbers that do not count one of ``count`` things."""
    if not 0 <= received < count:
        raise UserError(f"{option} must lie in 0 .. {count - 1}, received {received}.")


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


def frame(axes: Axes, borders: Sequence[int]) -> None:
    """The box of a matrix, and lines where a community ends."""
    for border in borders:
        for line_of in (axes.axhline, axes.axvline):
            line_of(border - 0.5, color="0.5", linewidth=0.4)
    axes.spines[["top", "right"]].set_visible(True)
