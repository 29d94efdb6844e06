"""What raw files in miniature are made of: a few random graphs, tables and splits in the published formats."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch

PARTS = {"train": 8, "val": 4, "test": 4}
"""Graphs per part of a data set of many graphs."""

TOTAL = sum(PARTS.values())
NODES = 48
"""Nodes of a data set of one graph."""

SMILES = [f"{'C' * (1 + number % 5)}OC(=O)N{'C' * (number % 3)}" for number in range(TOTAL)]


def rng() -> np.random.Generator:
    """The random stream of a file."""
    return np.random.default_rng(0)


def ring(nodes: int) -> torch.Tensor:
    """(2, 2n) both directions of a cycle."""
    node = torch.arange(nodes)
    return torch.cat([torch.stack([node, (node + 1) % nodes]), torch.stack([(node + 1) % nodes, node])], dim=1)


def random_edges(nodes: int = NODES, edges: int = 120) -> np.ndarray:
    """(2, E) directed, with repetitions and loops."""
    return rng().integers(0, nodes, (2, edges))


def random_adjacency() -> np.ndarray:
    """(NODES, NODES) bool, directed, with loops."""
    return rng().random((NODES, NODES)) < 0.1


def part_ranges() -> dict[str, np.ndarray]:
    """The graphs of every part, one part after the other."""
    ends = np.cumsum([0, *PARTS.values()])
    return {part: np.arange(low, high) for part, low, high in zip(PARTS, ends, ends[1:], strict=False)}


def node_parts(nodes: int = NODES) -> list[np.ndarray]:
    """A random half of the nodes, and two quarters."""
    return np.split(rng().permutation(nodes), [nodes // 2, 3 * nodes // 4])


def made(folder: Path) -> Path:
    """The folder, created."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_table(path: Path, rows: Iterable[object]) -> None:
    """A compressed table of comma-separated values without a header."""
    lines = (",".join(str(value) for value in np.atleast_1d(row)) for row in rows)
    (made(path.parent) / path.name).write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def write_split_dicts(path: Path) -> None:
    """Five splits in the format of the LINKX collection."""
    split = dict(zip(("train", "valid", "test"), node_parts(), strict=True))
    np.save(path, np.array([split] * 5, dtype=object), allow_pickle=True)
