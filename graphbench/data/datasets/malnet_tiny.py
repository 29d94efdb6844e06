"""MalNet-Tiny: function call graphs of programs, classified by type of malware."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.raw_files import reading
from graphbench.data.files.roots import Roots
from graphbench.data.splits import PARTS, Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.registry import register

_URL = "http://malnet.cc.gatech.edu/graph-data/malnet-graphs-tiny.tar.gz"
_SPLIT_URL = "http://malnet.cc.gatech.edu/split-info/split_info_tiny.zip"
_FOLDER = "MalNetTiny/raw"
_FILES = tuple(f"{_FOLDER}/split_info_tiny/type/{part}.txt" for part in PARTS)
_CLASSES = ("addisplay", "adware", "benign", "downloader", "trojan")
_COLUMNS = {"none": 1, "Constant": 1, "LocalDegreeProfile": 5}


@register("PyG-MalNetTiny")
class MalNetTiny(DatasetBuilder):
    """Function call graphs of programs, classified by type of malware.

    Paper: A Large-Scale Database for Graph Representation Learning, https://openreview.net/pdf?id=1xDTDk3XPW.

    The graphs have no features of their own and their edges are directed. As in GraphGPS, nodes without an edge to
    another node are left out. Splits: ``standard``, 3,500/500/1,000.

    Args:
        name: the node features: ``LocalDegreeProfile`` (degree, and smallest, largest, mean and standard deviation of
            the neighbours' degrees, https://arxiv.org/abs/1811.03508), or ``none`` or ``Constant`` (the number 1).
    """

    names = tuple(_COLUMNS)

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        return DatasetCard(
            name="MalNet-Tiny",
            task="graph",
            task_type="classification",
            metric="accuracy",
            maximize=True,
            node_in=_COLUMNS[self.name],
            edge_in=0,
            out_dim=len(_CLASSES),
            split_counts={"standard": 1},
            statistics={"graphs": 5_000},
            licence="CC BY 4.0",
            source="https://mal-net.org",
            files=_FILES,
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the edge lists named in the split files, or what a former run kept of them in the cache."""
        card = self.card
        root = roots.require(card.name, _FILES, dict.fromkeys(_FILES, _SPLIT_URL), fetch=_fetch)
        with reading(*(root / file for file in _FILES)):
            lists = [(root / file).read_text(encoding="utf-8").split() for file in _FILES]
        paths = [root / _FOLDER / f"malnet-graphs-tiny/{name}.edgelist" for names in lists for name in names]
        missing = [path for path in paths if not path.is_file()]
        if missing:
            raise UserError(
                f"{len(missing)} of {len(paths)} graphs of {card.name} are missing, first {missing[0]}: unpack {_URL} "
                f"into {root / _FOLDER}, or delete {root / _FOLDER} and let it be downloaded again."
            )
        total = hashlib.sha256()
        for path in paths:
            total.update(path.read_bytes())
        store, splits = cached_graphs(
            roots,
            "MalNetTiny",
            "MalNetTiny",
            [root / file for file in _FILES],
            lambda: (_read(paths), Splits.consecutive([len(names) for names in lists])),
            graphs=total.hexdigest(),
        )
        store = store.replace(x=_features(store, self.name))
        card.check(store, str(root / _FOLDER))
        return LoadedDataset(store, card, {"standard": (splits,)})


def _fetch(directory: Path) -> None:
    download_archive(_URL, directory / _FOLDER)
    download_archive(_SPLIT_URL, directory / _FOLDER)


def _read(paths: list[Path]) -> GraphStore:
    sizes, edges, labels = [], [], []
    for path in paths:
        label = path.parts[-3]
        if label not in _CLASSES:
            raise UserError(f"{path}: '{label}' is no class of MalNet-Tiny. Allowed: {', '.join(_CLASSES)}.")
        with reading(path):
            ends = np.loadtxt(path, dtype=np.int64, comments="#", ndmin=2).reshape(-1, 2)
        linked = np.unique(ends[ends[:, 0] != ends[:, 1]])
        ends = ends[np.isin(ends[:, 0], linked) & np.isin(ends[:, 1], linked)]
        sizes.append(len(linked))
        edges.append(np.searchsorted(linked, ends).T)
        labels.append(_CLASSES.index(label))
    return GraphStore.from_arrays(
        sizes, [edge_index.shape[1] for edge_index in edges], np.concatenate(edges, axis=1), y=torch.as_tensor(labels)
    )


def _features(store: GraphStore, name: str) -> Tensor:
    if name != "LocalDegreeProfile":
        return torch.ones(store.num_nodes, 1)
    from torch_geometric.data import Data
    from torch_geometric.transforms import LocalDegreeProfile

    start = torch.repeat_interleave(store.node_ptr[:-1], store.edge_counts)
    union = Data(edge_index=store.edge_index.to(torch.int64) + start, num_nodes=store.num_nodes)
    return LocalDegreeProfile()(union).x  # looks at neighbours only, so that all graphs go through at once
