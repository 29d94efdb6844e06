"""Link prediction of the Open Graph Benchmark: one graph, and pairs of its nodes that are linked or not.

Examples are pairs. The messages of all of them pass over the training edges, as the archives list them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.edge_lists import with_reverse_edges
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.raw_files import read_csv, read_npz, read_torch
from graphbench.data.files.roots import Roots
from graphbench.data.links import other_targets, unlinked_pairs
from graphbench.data.single_graph import NodeFacts, node_card, node_store, prepared
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.data.stored_pairs import StoredEdges
from graphbench.errors import UserError

_URL = "https://snap.stanford.edu/ogb/data/linkproppred"
_NEGATIVE_SEED = 0  # training pairs are the same in every run


class _Facts(NamedTuple):
    nodes: int
    features: int
    metric: str
    split: str
    archive: str
    listed_once: bool = True  # the files have every edge in one direction


_FACTS = {
    "ogbl-collab": _Facts(235868, 128, "hits@50", "time", "collab"),
    "ogbl-ppa": _Facts(576289, 58, "hits@100", "throughput", "ppassoc"),
    "ogbl-ddi": _Facts(4267, 0, "hits@20", "target", "ddi"),
    "ogbl-citation2": _Facts(2927963, 128, "mrr_candidates", "time", "citation-v2", listed_once=False),
    "ogbl-vessel": _Facts(3538495, 3, "auc", "spatial", "vessel", listed_once=False),
}
_BINARY = "ogbl-vessel"
_RANKED = "ogbl-citation2"


class OGBLink(DatasetBuilder):
    """Link prediction of OGB.

    Paper: Open Graph Benchmark, https://arxiv.org/abs/2005.00687.

    Every pair is a row of ``y``: 1 linked, 0 not. Unlinked pairs of val and test are OGB's; those of training, as many
    as linked ones, are drawn uniformly, once. ddi has no node features: a column of ones.

    citation2 is a ranking: every citation of val and test is followed by the 1,000 candidates that OGB gives for it, in
    training by one random paper that its source does not cite. At full size these are 234 million rows, which need
    ``train.sampler: neighbor``; without it all of them are asked about at once.

    Args:
        name: ``ogbl-collab``, ``ogbl-ppa``, ``ogbl-ddi``, ``ogbl-vessel`` or ``ogbl-citation2``.
        undirected: citation2: messages pass against the direction of citations, too.
    """

    names = tuple(_FACTS)
    offered_by: ClassVar = {"OGB": {name: name for name in names}}

    def __init__(self, name: str, *, undirected: bool = True) -> None:
        super().__init__(name)
        self.undirected = undirected and self.name == _RANKED

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        facts = _FACTS[self.name]
        return node_card(
            self.name,
            NodeFacts(facts.nodes, 0, facts.features or 1, 2),
            task="link_pred",
            metric=facts.metric,
            split_modes=("standard",),
            split_counts={"standard": 1},
            statistics={"graphs": 1, "nodes": facts.nodes},
            source="https://ogb.stanford.edu/docs/linkprop",
            files=self._files(),
        )

    def _files(self) -> tuple[str, ...]:
        folder, facts = f"ogb/{self.name.replace('-', '_')}", _FACTS[self.name]
        tables = ["edge.csv.gz", "num-node-list.csv.gz", *(["node-feat.csv.gz"] if facts.features else [])]
        if self.name == _BINARY:
            tables = ["data.npz"]
        return (
            *(f"{folder}/raw/{table}" for table in tables),
            *(f"{folder}/split/{facts.split}/{part}.pt" for part in ("train", "valid", "test")),
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files and the split, or what a former run kept of them in the cache."""
        card = self.card
        url = f"{_URL}/{_FACTS[self.name].archive}.zip"
        root = roots.require(card.name, card.files, dict.fromkeys(card.files, url), fetch=self._fetch)
        folder = root / f"ogb/{self.name.replace('-', '_')}"
        files = [root / file for file in card.files]
        store, split = cached_graphs(roots, "OGB", self.name, files, lambda: self._read(folder))
        card.check(store, str(folder))
        return LoadedDataset(prepared(store, undirected=self.undirected), card, {"standard": (split,)})

    def _fetch(self, directory: Path) -> None:
        url = f"{_URL}/{_FACTS[self.name].archive}.zip"
        download_archive(url, directory / f"ogb/{self.name.replace('-', '_')}", strip=1)

    def _read(self, folder: Path) -> tuple[GraphStore, Splits]:
        facts = _FACTS[self.name]
        edge_index, x = (_binary if self.name == _BINARY else _tables)(folder / "raw")
        if facts.listed_once:
            edge_index = with_reverse_edges(edge_index)
        train, val, test = (
            read_torch(folder / f"split/{facts.split}/{part}.pt") for part in ("train", "valid", "test")
        )
        asked = (_ranked if self.name == _RANKED else _classified)(edge_index, len(x), (train, val, test), folder)
        index = torch.cat([pairs.to(torch.int32) for pairs, _ in asked], dim=1)
        y = torch.cat([labels for _, labels in asked])
        store = node_store(x, edge_index, np.zeros(len(x), dtype=np.int64)).replace(
            y=y, y_level="pair", edge_sets={"label": StoredEdges(torch.tensor([0, len(y)]), index)}
        )
        return store, Splits.consecutive([labels.numel() for _, labels in asked])


_Part = dict[str, Any]
_Asked = list[tuple[Tensor, Tensor]]


def _classified(edge_index: Tensor, nodes: int, parts: tuple[_Part, _Part, _Part], folder: Path) -> _Asked:
    """Per part: linked pairs followed by unlinked ones (2, P), and their labels (P,)."""
    asked: _Asked = []
    for number, part in enumerate(parts):
        linked = _pairs(part, "edge", folder)
        if number == 0 and "edge_neg" not in part:
            unlinked = unlinked_pairs(edge_index, nodes, linked.shape[1], np.random.default_rng(_NEGATIVE_SEED))
        else:
            unlinked = _pairs(part, "edge_neg", folder)
        counts = torch.tensor([linked.shape[1], unlinked.shape[1]])
        asked.append((torch.cat([linked, unlinked], dim=1), torch.repeat_interleave(torch.tensor([1, 0]), counts)))
    return asked


def _ranked(edge_index: Tensor, nodes: int, parts: tuple[_Part, _Part, _Part], folder: Path) -> _Asked:
    """Per part: every link followed by its candidates (2, P), and their labels (P,)."""
    asked: _Asked = []
    for number, part in enumerate(parts):
        source, target = (_column(part, f"{end}_node", folder) for end in ("source", "target"))
        if number:
            candidates = _column(part, "target_node_neg", folder).reshape(len(source), -1)
        else:
            rng = np.random.default_rng(_NEGATIVE_SEED)
            candidates = other_targets(edge_index, nodes, source, rng).unsqueeze(1)
        targets = torch.cat([target.unsqueeze(1), candidates], dim=1)
        labels = torch.zeros_like(targets, dtype=torch.uint8)
        labels[:, 0] = 1
        sources = source.unsqueeze(1).expand_as(targets)
        asked.append((torch.stack([sources.reshape(-1), targets.reshape(-1)]), labels.reshape(-1)))
    return asked


def _pairs(part: _Part, name: str, folder: Path) -> Tensor:
    return _column(part, name, folder).T


def _column(part: _Part, name: str, folder: Path) -> Tensor:
    if name not in part:
        raise UserError(f"{folder}/split: there is no '{name}' in one of the parts; delete {folder} to load it again.")
    return torch.as_tensor(part[name]).to(torch.int64)


def _tables(raw: Path) -> tuple[Tensor, np.ndarray]:
    edge_index = torch.from_numpy(read_csv(raw / "edge.csv.gz", may_be_empty=True).T.astype(np.int64))
    nodes = int(read_csv(raw / "num-node-list.csv.gz")[0, 0])
    features = raw / "node-feat.csv.gz"
    x = read_csv(features).astype(np.float32) if features.is_file() else np.ones((nodes, 1), dtype=np.float32)
    return edge_index, x


def _binary(raw: Path) -> tuple[Tensor, np.ndarray]:
    """Edges and node features; the archive's edge features are not read, as in OGB's own models."""
    edge_index, x = read_npz(raw / "data.npz", "edge_index", "node_feat")
    return torch.from_numpy(edge_index.astype(np.int64)), x.astype(np.float32)
