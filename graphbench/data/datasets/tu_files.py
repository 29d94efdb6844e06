"""Readers of the TU collection's files: comma-separated tables per field, or adjacency lists in one file."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from graphbench.data.files.raw_files import reading
from graphbench.data.store import GraphStore
from graphbench.errors import UserError


def read_raw(files: list[Path], name: str) -> dict[str, Tensor]:
    """Offsets, graph-local edges, targets, labels and attributes, independent of the arguments of the builder."""
    if files[0].suffix == ".gz":
        return _clean(*_parse_compact(files[0]))
    by_part = {file.stem[len(name) + 1 :]: file for file in files}
    graph = _column(by_part["graph_indicator"], np.int64) - 1
    if (np.diff(graph) < 0).any():
        raise UserError(f"{by_part['graph_indicator']}: the nodes of a graph must follow one another.")
    edges = _table(by_part["A"], np.int64).T - 1
    optional = {
        part: torch.from_numpy(_table(by_part[part], np.int64 if part.endswith("labels") else np.float32))
        for part in ("node_labels", "node_attributes", "edge_labels", "edge_attributes")
        if part in by_part
    }
    if "graph_attributes" in by_part:
        y = torch.from_numpy(_table(by_part["graph_attributes"], np.float32))
    elif "graph_labels" in by_part:
        y = torch.from_numpy(_column(by_part["graph_labels"], np.int64)).unique(return_inverse=True)[1]
    else:
        raise UserError(f"{files[0].parent}: there is neither {name}_graph_labels.txt nor {name}_graph_attributes.txt.")
    return _clean(np.bincount(graph, minlength=len(y)), edges, y, **optional)


def _clean(nodes: np.ndarray, edges: np.ndarray, y: Tensor, **optional: Tensor) -> dict[str, Tensor]:
    """Removes self loops and repeated edges, sorts, and renumbers the nodes inside each graph."""
    index = torch.from_numpy(np.ascontiguousarray(edges))
    sizes = torch.from_numpy(nodes)
    first = (index[0] != index[1]).nonzero().view(-1)
    code, order = torch.sort(index[0, first] * int(nodes.sum()) + index[1, first], stable=True)
    distinct = torch.ones(len(code), dtype=torch.bool)
    distinct[1:] = code.diff() != 0
    first = first[order[distinct]]
    index = index[:, first]
    graph = torch.repeat_interleave(torch.arange(len(nodes)), sizes)
    counts = torch.bincount(graph[index[0]], minlength=len(nodes))
    start = torch.cumsum(sizes, 0) - sizes
    store = GraphStore.from_arrays(sizes, counts, index - start[graph[index[0]]], y=y)
    read = store.tensors()
    read["y"] = read.pop("y_graph")
    for part, values in optional.items():
        chosen = values[first] if part.startswith("edge") else values
        read[part] = chosen - chosen.min(0).values if part.endswith("labels") and len(chosen) else chosen
    return read


def _parse_compact(path: Path) -> tuple[np.ndarray, np.ndarray, Tensor]:
    """Nodes per graph, edges and targets from adjacency lists.

    The text is the number of graphs; then per graph a line ``n label`` and n lines ``0 d v1 ... vd``.
    """
    with gzip.open(path, "rt", encoding="ascii") as file:
        numbers = np.fromstring(file.read(), dtype=np.int64, sep=" ")
    sizes, labels, degrees, starts = [], [], [], []
    position = 1
    for _ in range(int(numbers[0])):
        size, label = int(numbers[position]), int(numbers[position + 1])
        position += 2
        sizes.append(size)
        labels.append(label)
        for _ in range(size):
            degrees.append(int(numbers[position + 1]))
            starts.append(position + 2)
            position += 2 + degrees[-1]
    degree = np.asarray(degrees)
    offset = np.repeat(np.cumsum(sizes) - sizes, sizes)  # first node of the graph of every node
    source = np.repeat(np.arange(len(degree)), degree)
    within = np.arange(len(source)) - np.repeat(np.cumsum(degree) - degree, degree)
    target = numbers[np.asarray(starts)[source] + within] + offset[source]
    y = torch.as_tensor(labels).unique(return_inverse=True)[1]
    return np.asarray(sizes), np.stack([source, target]), y


def _table(path: Path, dtype: type) -> np.ndarray:
    with reading(path):
        return np.loadtxt(path, dtype=dtype, delimiter=",", ndmin=2)


def _column(path: Path, dtype: type) -> np.ndarray:
    return _table(path, dtype)[:, 0]
