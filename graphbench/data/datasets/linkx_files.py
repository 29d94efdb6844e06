"""Readers of the LINKX collection: a graph from a folder, splits from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphbench.data.edge_lists import coalesce
from graphbench.data.files.raw_files import read_csv, read_object_array, read_table, read_torch, reading
from graphbench.data.single_graph import node_store
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.structures import SparseRows


def read_mat(path: Path) -> dict[str, Any]:
    """The arrays of a Matlab file by name.

    Raises:
        UserError: no Matlab file, or a damaged one.
    """
    from scipy.io import loadmat  # here, because importing it is slow
    from scipy.sparse import issparse

    with reading(path):
        arrays: dict[str, Any] = loadmat(path, spmatrix=False)
        for values in arrays.values():
            if issparse(values):
                values.check_format(full_check=True)  # SciPy converts wrong indices without looking, beyond its memory
    return arrays


def read_split_dicts(path: Path) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The collection's split files: an array of ``{"train": ..., "valid": ..., "test": ...}``.

    Raises:
        UserError: the file has another format, or is damaged.
    """
    try:
        return [(split["train"], split["valid"], split["test"]) for split in read_object_array(path).reshape(-1)]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} holds no list of train, valid and test ({error}).") from error


def facebook(folder: Path) -> GraphStore:
    """Reads ``A``, the adjacency matrix, and ``local_info``, a column per attribute, of which the second is gender."""
    arrays = read_mat(folder / "data.mat")
    source, target = arrays["A"].tocoo().coords
    info = torch.from_numpy(arrays["local_info"].astype(np.int64))
    attributes = [info[:, column] for column in range(info.shape[1]) if column != 1]
    values = torch.stack([values.unique(return_inverse=True)[1] for values in attributes], dim=1)
    widths = values.amax(0) + 1
    columns = (values + widths.cumsum(0) - widths).reshape(-1)  # dense, those of penn94 are 800 MB
    ptr = torch.arange(len(info) + 1) * len(widths)
    x = SparseRows(ptr, columns, torch.ones(len(columns)), int(widths.sum()))
    edge_index = coalesce(torch.from_numpy(np.stack([source, target]).astype(np.int64)), len(info))
    return node_store(x, edge_index, info[:, 1] - 1)


def genius(folder: Path) -> GraphStore:
    """Reads ``edge_index``, dense ``node_feat`` and ``label`` (-1: none); pokec's file, too."""
    arrays = read_mat(folder / "data.mat")
    return _listed(arrays["edge_index"], arrays["node_feat"], arrays["label"].reshape(-1))


def patents(folder: Path) -> GraphStore:
    """Reads ``edge_index``, sparse ``node_feat``, and the ``years`` whose fifths are the classes."""
    arrays = read_mat(folder / "data.mat")
    x = arrays["node_feat"].astype(np.float32).toarray()
    return _listed(arrays["edge_index"], x, quantile_classes(arrays["years"].reshape(-1), 5))


def arxiv_year(folder: Path) -> GraphStore:
    """Reads the tables of ogbn-arxiv; the classes are fifths of its years."""
    edges, x = read_csv(folder / "edge.csv.gz").T, read_csv(folder / "node-feat.csv.gz")
    return _listed(edges, x, quantile_classes(read_csv(folder / "node_year.csv.gz").reshape(-1), 5))


def twitch_gamer(folder: Path) -> GraphStore:
    """Reads two tables with a header; ``mature`` is the class, all other columns but the number are features."""
    import pandas  # here, because importing it costs a second

    edges = read_table(folder / "twitch-gamer_edges.csv").to_numpy().T
    users = read_table(folder / "twitch-gamer_feat.csv").drop(columns="numeric_id")
    for date in ("created_at", "updated_at"):
        users[date] = users[date].str.replace("-", "").astype(np.int64)
    users["language"] = pandas.factorize(users["language"])[0]  # numbered in the order of appearance
    x = users.drop(columns="mature").to_numpy(dtype=np.float64)
    # In double precision: dates are numbers of eight digits.
    return _listed(edges, (x - x.mean(0)) / x.std(0, ddof=1), users["mature"].to_numpy())


def wiki(folder: Path) -> GraphStore:
    """Reads three tensors: edges (E, 2), features, classes."""
    edges, x, y = (read_torch(folder / f"wiki_{name}2M.pt") for name in ("edges", "features", "views"))
    return _listed(edges.T.numpy(), x.numpy(), y.reshape(-1).numpy())


def quantile_classes(values: np.ndarray, classes: int) -> np.ndarray:
    """(N,) class k: not below the k / classes quantile and below the next one; -1 where there is no value.

    Args:
        values: (N,) numbers, NaN allowed.
        classes: number of classes.
    """
    bounds = np.nanquantile(values, np.arange(1, classes) / classes)
    return np.where(np.isnan(values), -1, np.searchsorted(bounds, values, side="right"))


def _listed(edges: np.ndarray, x: np.ndarray, y: np.ndarray) -> GraphStore:
    """One graph with its edges as they are listed."""
    edge_index = torch.from_numpy(np.ascontiguousarray(edges)).to(torch.int64)
    return node_store(x.astype(np.float32, copy=False), edge_index, y.astype(np.int64))
