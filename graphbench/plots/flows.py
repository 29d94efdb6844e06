"""Attention weights or SFi flows of a trained model, drawn on the graph itself.

Molecules (graphs with OGB's atom and bond columns) have RDKit's coordinates, element symbols and bonds; other graphs a
force-directed layout. Without ``--node`` the strongest weights between different nodes are arrows, from the node that
is read to the one that reads, the darker the larger, and a node is the darker the more the graph reads of it. With
``--node I`` colours are what node I reads of every node; nodes of which it reads exactly nothing are white. For sparse
flows the dense pattern softmax(s) stands beside. Prints the share of the weight on the node itself, on neighbours and
on all others, and the fraction of exact zeros, over all heads.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from graphbench.data.files.molecules import rebuilt
from graphbench.errors import UserError
from graphbench.plots import canvas, node_matrix
from graphbench.plots.attention import Pattern, read_patterns
from graphbench.plots.trained import Trained

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_NODES = 500
"""Most nodes of a graph: more cannot be told apart."""

ARROW_WIDTH = 1.2
"""Width of the strongest weight, in points."""


@dataclass(frozen=True)
class Drawing:
    """Drawing of a graph: places of its nodes.

    Attributes:
        positions: (n, 2).
        bonds: (E, 2) node numbers, each edge once.
        labels: text per node; empty without.
        orders: (E,) lines per edge.
    """

    positions: np.ndarray
    bonds: np.ndarray
    labels: tuple[str, ...]
    orders: np.ndarray


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    node_matrix.arguments(parser)
    parser.add_argument("--head", type=int, default=0, metavar="H", help="from 0; default: 0")
    parser.add_argument(
        "--node", type=int, metavar="I", help="show what this node reads; default: the strongest of all"
    )
    parser.add_argument("--arrows", type=int, default=20, metavar="K", help="at most; default: %(default)s")


def make(options: argparse.Namespace) -> tuple[Figure, str]:
    """The figure and its name; prints where the weight lies.

    Raises:
        UserError: no such run, graph, layer, head or node, too large a graph, or a model without attention weights.
    """
    run = node_matrix.read_run(options, MAX_NODES, "graphs")
    with torch.no_grad():
        patterns = read_patterns(run.model, run.batch, run.position)
    layers = node_matrix.chosen_layers(options, patterns)
    for layer in layers:
        node_matrix.check_number("--head", options.head, len(next(iter(patterns[layer].weights.values()))))
    if options.node is not None:
        node_matrix.check_number("--node", options.node, run.num_nodes)
    if options.arrows < 0:
        raise UserError(f"--arrows must not be negative, received {options.arrows}.")
    figure = draw(patterns, layers, options.head, layout(run), options.node, options.arrows)
    print(f"{run.config} {run.run_id}, epoch {run.epoch}; {options.split} graph {options.graph}: {run.num_nodes} nodes")
    print(table(patterns, run.edge_index))
    return figure, f"flows-{run.config}-{run.run_id}"


def layout(run: Trained) -> Drawing:
    """Positions of the nodes: RDKit's for a molecule, else a spring model's, the same in every call."""
    atoms, edges = _columns(run)
    molecule = None if atoms is None or edges is None else rebuilt(atoms, run.edge_index, edges)
    pairs = np.sort(run.edge_index.T, axis=1)
    bonds = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    if molecule is None:
        import networkx

        graph = networkx.Graph(bonds.tolist())
        graph.add_nodes_from(range(run.num_nodes))
        placed = networkx.spring_layout(graph, seed=0, iterations=200)
        positions = np.array([placed[node] for node in range(run.num_nodes)])
        return Drawing(positions, bonds, (), np.ones(len(bonds), dtype=int))
    from rdkit.Chem import rdDepictor

    rdDepictor.Compute2DCoords(molecule)
    positions = molecule.GetConformer().GetPositions()[:, :2]
    labels = tuple(atom.GetSymbol() if atom.GetSymbol() != "C" else "" for atom in molecule.GetAtoms())
    types = [molecule.GetBondBetweenAtoms(*map(int, bond)).GetBondTypeAsDouble() for bond in bonds]
    return Drawing(positions, bonds, labels, np.floor(types).astype(int))


def _columns(run: Trained) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(n, 9) atom and (E, 3) bond columns of the graph, None where its features are others."""
    batch, at = run.batch, run.position
    first, end = batch.ragged.ptr[at : at + 2].tolist()
    of_graph = batch.ragged.graph_id[batch.edge_index[0]] == at
    x = batch.x[first:end] if isinstance(batch.x, torch.Tensor) else None
    edge_attr = None if batch.edge_attr is None else batch.edge_attr[of_graph]
    whole = [None if each is None or each.is_floating_point() else each.numpy() for each in (x, edge_attr)]
    return whole[0], whole[1]


def draw(
    patterns: Sequence[Pattern], layers: Sequence[int], head: int, drawing: Drawing, node: int | None, arrows: int
) -> Figure:
    """One row per layer, one column per view; within a row one scale of colours."""
    columns = max(len(patterns[layer].weights) for layer in layers)
    low, high = drawing.positions.min(0), drawing.positions.max(0)
    wide, tall = np.maximum(high - low, 0.4 * float((high - low).max() or 1.0))
    figure = canvas.new_figure(2.4 * columns + 0.8, len(layers) * (2.4 * float(np.clip(tall / wide, 0.5, 1.2)) + 0.5))
    grid = figure.subplots(len(layers), columns, squeeze=False)
    for layer, line in zip(layers, grid, strict=True):
        views = patterns[layer].weights
        shades = {view: _shades(weights[head], node) for view, weights in views.items()}
        top = max(float(shade.max()) for shade in shades.values()) or 1.0
        for axes in line[len(views) :]:
            axes.set_visible(False)
        for (view, weights), axes in zip(views.items(), line, strict=False):
            _graph(axes, drawing, shades[view], top, node)
            if node is None:
                _arrows(axes, drawing, weights[head], arrows)
            axes.set_title(f"layer {layer}, head {head}\n{view}")
        label = "mean weight of its readers" if node is None else f"weight of node {node}"
        figure.colorbar(axes.collections[-1], ax=line, label=label, aspect=25)
    return figure


def _shades(weights: np.ndarray, node: int | None) -> np.ndarray:
    """(n,) how much is read of every node, by all together or by one."""
    return weights.mean(0) if node is None else weights[node]


def _graph(axes: Axes, drawing: Drawing, shade: np.ndarray, top: float, node: int | None) -> None:
    from matplotlib.collections import LineCollection

    positions, ends = drawing.positions, drawing.positions[drawing.bonds]
    across = np.stack([-(ends[:, 1] - ends[:, 0])[:, 1], (ends[:, 1] - ends[:, 0])[:, 0]], 1)
    lines: list[Any] = []
    for bond, aside, order in zip(ends, across, drawing.orders, strict=True):
        lines += [bond + 0.07 * aside * (line - (order - 1) / 2) for line in range(order)]
    width = float(np.clip(200 / max(len(lines), 1), 0.1, 0.8))  # many lines would be one grey area
    axes.add_collection(LineCollection(lines, colors="0.6", linewidths=width, zorder=1))
    size = float(np.clip(3000 / len(shade), 14, 70))
    (x, y), read = positions.T, shade > 0
    axes.scatter(x, y, s=size, c="white", edgecolors="0.25", linewidths=0.6, zorder=2)
    axes.scatter(
        x[read], y[read], s=size, c=shade[read], cmap="Blues", vmin=0.0, vmax=top, edgecolors="0.25", linewidths=0.6,
        zorder=3,
    )  # fmt: skip
    if node is not None:
        axes.plot(x[node], y[node], "o", ms=size**0.5, mfc="none", mec="#D55E00", mew=1.8, zorder=4)
    for place, text in enumerate(drawing.labels):
        ink = "white" if shade[place] > 0.6 * top else "black"
        axes.text(x[place], y[place], text, ha="center", va="center", fontsize=6, color=ink, zorder=5)
    axes.set_aspect("equal")
    axes.margins(0.12)
    axes.axis("off")


def _arrows(axes: Axes, drawing: Drawing, weights: np.ndarray, count: int) -> None:
    """The strongest weights between different nodes; equal ones in the order of the nodes."""
    from matplotlib.patches import FancyArrowPatch

    between = weights * (1 - np.eye(len(weights)))
    strongest = [flat for flat in np.argsort(-between, axis=None, kind="stable")[:count] if between.flat[flat] > 0]
    for flat in strongest:
        reads, is_read = divmod(int(flat), len(weights))
        strength = float(between.flat[flat] / between.max())
        axes.add_patch(
            FancyArrowPatch(
                drawing.positions[is_read], drawing.positions[reads], connectionstyle="arc3,rad=0.2",
                arrowstyle="-|>", mutation_scale=5, shrinkA=4, shrinkB=4, linewidth=ARROW_WIDTH * strength,
                color="#D55E00", alpha=0.25 + 0.7 * strength, zorder=4, clip_on=False,
            )
        )  # fmt: skip


def table(patterns: Sequence[Pattern], edge_index: np.ndarray) -> str:
    """Shares of the weight by where it goes, as Markdown."""
    rows = []
    for number, pattern in enumerate(patterns):
        for view, weights in pattern.weights.items():
            mean = weights.mean(0)
            itself = np.eye(len(mean), dtype=bool)
            neighbours = np.zeros_like(itself)
            neighbours[edge_index[1], edge_index[0]] = True  # rows read
            masks = (itself, neighbours & ~itself, ~(neighbours | itself))
            total = mean.sum() or 1.0
            shares = [f"{mean[mask].sum() / total:.3f}" for mask in masks]
            rows.append([number, view, *shares, f"{pattern.zero_fraction(view):.3f}"])
    return canvas.markdown(["layer", "view", "itself", "neighbours", "others", "exact zeros"], rows)
