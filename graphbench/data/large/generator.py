"""A random graph of any size, written to disk in pieces.

Degrees follow a power law and classes attract each other, so that a model has something to learn and a sampler meets
hubs. Piece i has its own random stream (seed, purpose, i).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphbench.data.files.progress import report
from graphbench.data.large.arrays import create, open_graph
from graphbench.data.store import GraphStore

PIECE = 2**21
"""Rows drawn at a time."""

_PAIRS, _FEATURES, _CENTRES, _NAMES = range(4)


def power_law(
    folder: Path,
    nodes: int,
    edges: int,
    seed: int,
    *,
    columns: int = 32,
    classes: int = 10,
    exponent: float = 2.5,
    homophily: float = 0.5,
    noise: float = 2.0,
    dtype: type[np.floating] = np.float16,
) -> GraphStore:
    r"""One graph with P(degree = d) ~ d^-exponent (https://arxiv.org/abs/cond-mat/0107420, the static model).

    A node of rank r (of N) is an end of a pair with probability proportional to (r + 1)^(-1 / (exponent - 1)), drawn
    from the continuous distribution: r = floor(N u^((exponent - 1) / (exponent - 2))) for uniform u. Both directions
    of every pair are edges; a pair may be drawn twice, no node is its own neighbour.

    Args:
        folder: folder of the files; created.
        nodes: N.
        edges: E, directed, even.
        seed: seed of everything random.
        columns: columns of the features: the centre of the node's class plus noise.
        classes: rank modulo this is a node's class and its target.
        exponent: exponent of the power law, above 2.
        homophily: fraction of the pairs whose second end is moved to the first one's class; where negative, its size is
            the fraction moved to another class. Of C classes, h + (1 - h) / C of the pairs are of one class in the end,
            for negative h (1 + h) / C.
        noise: standard deviation of the features around their centre, whose entries have 1.
        dtype: type of the features.

    Raises:
        ValueError: an odd number of edges, or numbers out of range.
    """
    fits = exponent > 2 and (0 if classes == 1 else -1) <= homophily <= 1
    if edges % 2 or edges < 0 or nodes < 2 * classes or classes < 1 or not fits:
        raise ValueError(
            "need an even number of edges, at least two nodes per class, an exponent above 2 and homophily in -1 .. 1 "
            f"(of one class: 0 .. 1); received {edges} edges, {nodes} nodes, {classes} classes, exponent {exponent}, "
            f"homophily {homophily}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    # Ranks are hidden by a random numbering, or sampling by node number would be sampling by degree.
    name = np.random.default_rng([seed, _NAMES]).permutation(nodes).astype(np.int32)
    _write_edges(folder, name, edges, seed, classes, exponent, homophily)
    y = create(folder / "y.npy", (nodes,), np.uint8 if classes <= 256 else np.int32)
    y[name] = np.arange(nodes) % classes
    centre = np.random.default_rng([seed, _CENTRES]).standard_normal((classes, columns), dtype=np.float32)
    x = create(folder / "x.npy", (nodes, columns), dtype)
    for piece, first in enumerate(range(0, nodes, PIECE)):
        rows = y[first : first + PIECE]
        drawn = np.random.default_rng([seed, _FEATURES, piece]).standard_normal((len(rows), columns), dtype=np.float32)
        x[first : first + PIECE] = centre[rows] + noise * drawn
    x.flush()
    y.flush()
    return open_graph(folder)


def _write_edges(
    folder: Path, name: np.ndarray, edges: int, seed: int, classes: int, exponent: float, homophily: float
) -> None:
    edge_index = create(folder / "edge_index.npy", (2, edges), np.int32)
    power = (exponent - 1) / (exponent - 2)
    for piece, first in enumerate(range(0, edges // 2, PIECE)):
        rng = np.random.default_rng([seed, _PAIRS, piece])
        report(first, edges // 2)
        count = min(PIECE, edges // 2 - first)
        ends = np.empty((2, count), dtype=np.int64)
        left = np.arange(count)
        while len(left):
            drawn = (len(name) * rng.random((2, len(left))) ** power).astype(np.int64)
            label = drawn[0] % classes
            moves = rng.random(len(left)) < abs(homophily)
            if homophily < 0:
                label = (label + rng.integers(1, classes, len(left))) % classes
            moved = drawn[1] - drawn[1] % classes + label
            drawn[1] = np.where(moves & (moved < len(name)), moved, drawn[1])
            ends[:, left] = drawn
            left = left[drawn[0] == drawn[1]]
        ends = name[ends]
        edge_index[:, 2 * first : 2 * (first + count) : 2] = ends
        edge_index[:, 2 * first + 1 : 2 * (first + count) : 2] = ends[::-1]
    edge_index.flush()
