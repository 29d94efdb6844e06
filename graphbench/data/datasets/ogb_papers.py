"""ogbn-papers100M: 111 million papers, too large for the memory of most machines, in OGB's binary raw layout."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.download import download_archive
from graphbench.data.files.raw_files import read_csv
from graphbench.data.files.roots import Roots
from graphbench.data.large.arrays import create
from graphbench.data.large.cache import cached_large_graph, once
from graphbench.data.large.npz import unpack
from graphbench.data.large.reverse_edges import write_undirected
from graphbench.data.single_graph import NodeFacts, node_card
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError

_NAME = "ogbn-papers100M"
_URL = "https://snap.stanford.edu/ogb/data/nodeproppred/papers100M-bin.zip"
_FOLDER = "ogb/ogbn_papers100M"
_FACTS = NodeFacts(111059956, 1615685872, 128, 172)
_PARTS = ("train", "valid", "test")


class OGBPapers(DatasetBuilder):
    """111 million papers and their citations.

    Paper: Open Graph Benchmark, https://arxiv.org/abs/2005.00687.

    The archive (57 GB) is converted once, in memory that does not grow with the edges, into files in the cache that are
    mapped: 13 GB of edges (26 GB with ``undirected``), 57 GB of features. While undirected edges are sorted, another
    13 GB of the cache and 52 GB of ``$TMPDIR`` are taken. A conversion that is broken off goes on behind the array that
    it finished last. 1.5 million papers (of arXiv) have a subject and a place in the split; all others carry the
    target -1.

    Args:
        name: ``ogbn-papers100M``.
        undirected: add the missing reverse edges.
    """

    names = (_NAME,)
    offered_by: ClassVar = {"OGB": {name: name for name in names}}

    def __init__(self, name: str = _NAME, *, undirected: bool = True) -> None:
        super().__init__(name)
        self.undirected = undirected

    @property
    def card(self) -> DatasetCard:
        """Declared facts; edges are counted as they are published, directed."""
        return node_card(
            self.name,
            _FACTS,
            split_modes=("standard", "fixed"),
            split_counts={"standard": 1},
            licence="ODC-BY",
            source="https://ogb.stanford.edu/docs/nodeprop",
            files=(
                *(f"{_FOLDER}/raw/{file}.npz" for file in ("data", "node-label")),
                *(f"{_FOLDER}/split/time/{part}.csv.gz" for part in _PARTS),
            ),
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Converts the raw files, or opens what a former run left in the cache."""
        card = self.card
        root = roots.require(card.name, card.files, dict.fromkeys(card.files, _URL), fetch=self._fetch)
        folder = root / _FOLDER

        def write(to: Path) -> Splits:
            return self._write(folder, to, card)

        files = [root / file for file in card.files]
        store, split = cached_large_graph(roots, "OGB", self.name, files, write, undirected=self.undirected)
        return LoadedDataset(store, card, {"standard": (split,)})

    def _fetch(self, directory: Path) -> None:
        download_archive(_URL, directory / _FOLDER, strip=1)

    def _write(self, folder: Path, to: Path, card: DatasetCard) -> Splits:
        raw = folder / "raw"
        y = once(to / "y.npy", functools.partial(_write_targets, raw / "node-label.npz"))
        nodes = len(y)
        x = once(to / "x.npy", functools.partial(unpack, raw / "data.npz", "node_feat"))

        def checked(piece: np.ndarray) -> np.ndarray:
            if len(piece) and not 0 <= int(piece.min()) <= int(piece.max()) < nodes:
                wrong = int(piece.min()) if int(piece.min()) < 0 else int(piece.max())
                raise ValueError(f"an edge names node {wrong}, but there are {nodes} nodes")
            return piece

        listed = to / ("listed.npy" if self.undirected else "edge_index.npy")
        if listed.exists() or not (to / "edge_index.npy").exists():
            edge_index = once(listed, lambda path: unpack(raw / "data.npz", "edge_index", path, np.int32, checked))
            try:
                _check(card, x, edge_index, y, folder)
            except ValueError as error:
                raise UserError(f"{folder}: {error}. Delete the folder and let it be downloaded again.") from error
            if self.undirected:
                both = functools.partial(write_undirected, torch.from_numpy(edge_index), nodes)
                once(to / "edge_index.npy", both)
                listed.unlink()
        return Splits.of(*(read_csv(folder / f"split/time/{part}.csv.gz")[:, 0] for part in _PARTS))


def _write_targets(file: Path, path: Path) -> None:
    """A copy in one column: targets are numbers, the archive has a matrix of them."""
    matrix = path.with_suffix(".matrix")
    labels = unpack(file, "node_label", matrix, np.int16, _classes)
    y = create(path, (len(labels),), np.int16)
    y[:] = labels.reshape(-1)
    y.flush()
    matrix.unlink()


def _check(card: DatasetCard, x: np.ndarray, edge_index: np.ndarray, y: np.ndarray, folder: Path) -> None:
    """Compares the listed edges, before reverse ones are added, with what is published."""
    store = GraphStore(
        node_ptr=torch.tensor([0, len(y)]),
        edge_ptr=torch.tensor([0, edge_index.shape[-1]]),
        edge_index=torch.from_numpy(edge_index),
        x=torch.from_numpy(x),
        y=torch.from_numpy(y),
        y_level="node",
    )
    card.check(store, str(folder))


def _classes(piece: np.ndarray) -> np.ndarray:
    """Subjects as numbers, -1 where the file says NaN."""
    return np.where(np.isnan(piece), -1, piece).astype(np.int16)
