"""AQSOL: molecules with their solubility in water, in the form of the Benchmarking GNNs release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.raw_files import read_pickle
from graphbench.data.files.roots import Roots
from graphbench.data.graph_records import GraphRecord
from graphbench.data.splits import PARTS, Splits
from graphbench.data.store import GraphStore
from graphbench.registry import register

_URL = "https://www.dropbox.com/s/lzu9lmukwov12kt/aqsol_graph_raw.zip?dl=1"
_FILES = tuple(f"AQSOL/raw/{part}.pickle" for part in PARTS)
_TYPES, _BONDS = 65, 5


@register("PyG-AQSOL")
class AQSOL(DatasetBuilder):
    """Molecules and their solubility in water.

    Paper: Benchmarking Graph Neural Networks, https://arxiv.org/abs/2003.00982; data: AqSolDB.

    Nodes carry one of 65 atom types, edges a bond type 1 .. 4. Molecules without bonds, and those whose last atoms have
    no bond, are left out as in GraphGPS: 9,823 remain. Splits: ``standard``, by scaffold, 7,831/996/996.

    Args:
        name: there is one data set; ``none`` or ``AQSOL``.
    """

    names = ("none", "AQSOL")

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        return DatasetCard(
            name="AQSOL",
            task="graph",
            task_type="regression",
            metric="mae",
            maximize=False,
            node_in=1,
            edge_in=1,
            out_dim=1,
            vocabularies={"node": (_TYPES,), "edge": (_BONDS,)},
            split_counts={"standard": 1},
            statistics={"graphs": 9_823},
            licence="CC0 (AqSolDB)",
            source="https://github.com/graphdeeplearning/benchmarking-gnns",
            files=_FILES,
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache."""
        card = self.card
        root = roots.require("AQSOL", _FILES, dict.fromkeys(_FILES, _URL), fetch=_fetch)
        files = [root / file for file in _FILES]
        store, splits = cached_graphs(roots, "AQSOL", "AQSOL", files, lambda: _read(files))
        card.check(store, str(root / "AQSOL/raw"))
        return LoadedDataset(store, card, {"standard": (splits,)})


def _fetch(directory: Path) -> None:
    download_archive(_URL, directory / "AQSOL/raw", strip=1)


def _read(files: list[Path]) -> tuple[GraphStore, Splits]:
    graphs: list[GraphRecord] = []
    counts = []
    for file in files:
        read = [_graph(*molecule) for molecule in read_pickle(file)]
        kept = [graph for graph in read if graph.edge_index.numel() and _covers(graph)]
        graphs += kept
        counts.append(len(kept))
    return GraphStore.from_graphs(graphs), Splits.consecutive(counts)


def _graph(atoms: Any, bonds: Any, edge_index: Any, target: Any) -> GraphRecord:
    return GraphRecord(
        edge_index=torch.from_numpy(np.asarray(edge_index, dtype=np.int64).reshape(2, -1)),
        x=torch.from_numpy(np.asarray(atoms).astype(np.uint8).reshape(-1, 1)),
        edge_attr=torch.from_numpy(np.asarray(bonds).astype(np.uint8).reshape(-1, 1)),
        y=torch.from_numpy(np.asarray(target, dtype=np.float32).reshape(1)),
    )


def _covers(graph: GraphRecord) -> bool:
    """Whether the last atom has a bond."""
    return int(graph.edge_index.max()) + 1 == len(graph.x)
