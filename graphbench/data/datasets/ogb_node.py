"""Node classification of the Open Graph Benchmark: arxiv, products, proteins, in OGB's own raw layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.edge_lists import with_reverse_edges
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.raw_files import read_csv
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import RANDOM_MODES, NodeFacts, node_card, node_store, prepared
from graphbench.data.splits import SplitRequest, Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError, check_one_of

_URL = "https://snap.stanford.edu/ogb/data/nodeproppred"
_TABLES = ("edge", "node-label", "num-node-list")
_SPLIT_FILES = ("train", "valid", "test")
_PROTEINS_EDGE_COLUMNS = 8


class _Facts(NamedTuple):
    graph: NodeFacts
    split: str
    listed_once: bool  # the files have every edge in one direction


_FACTS = {
    "ogbn-arxiv": _Facts(NodeFacts(169343, 1166243, 128, 40), "time", False),
    "ogbn-products": _Facts(NodeFacts(2449029, 2 * 61859140, 100, 47), "sales_ranking", True),
    "ogbn-proteins": _Facts(NodeFacts(132534, 2 * 39561252, 1, 112), "species", True),
}


class OGBNode(DatasetBuilder):
    """Node classification of OGB.

    Paper: Open Graph Benchmark, https://arxiv.org/abs/2005.00687.

    ``standard`` is OGB's split. For products, ``amazon2m`` is the random split of 50/25/25 % under which the
    literature on transformers for large graphs calls the same graph Amazon2M.

    Args:
        name: ``ogbn-arxiv``, ``ogbn-products`` or ``ogbn-proteins``.
        undirected: arxiv: add the missing reverse edges (the other graphs are undirected).
        add_reverse_edges: arxiv: instead of that, append the reverse of every citation even where both papers cite
            each other (the Exphormer release does).
        add_self_loops: arxiv: append a self loop for every paper with a citation.
        node_features: proteins have none of their own: the number of their ``species`` (the Exphormer release), or
            the ``edge_mean`` of the 8 edge features at every node.
    """

    names = tuple(_FACTS)
    offered_by: ClassVar = {"OGB": {name: name for name in names}}

    def __init__(
        self,
        name: str,
        *,
        undirected: bool = True,
        add_reverse_edges: bool = False,
        add_self_loops: bool = False,
        node_features: Literal["species", "edge_mean"] = "species",
    ) -> None:
        check_one_of(("species", "edge_mean"), node_features=node_features)
        super().__init__(name)
        self.add_reverse_edges, self.add_self_loops = add_reverse_edges, add_self_loops
        self.undirected = undirected and not add_reverse_edges
        self.node_features = node_features

    @property
    def card(self) -> DatasetCard:
        """Declared facts; the edges of arxiv are counted as they are published, directed."""
        facts = _FACTS[self.name]
        source = "https://ogb.stanford.edu/docs/nodeprop"
        common: dict[str, Any] = {"split_counts": {"standard": 1}, "source": source, "files": self._files()}
        if self.name == "ogbn-proteins":
            means = self.node_features == "edge_mean"
            return node_card(
                self.name,
                facts.graph._replace(features=_PROTEINS_EDGE_COLUMNS if means else 1),
                task_type="classification_multilabel",
                metric="auc",
                edge_in=_PROTEINS_EDGE_COLUMNS,
                split_modes=("standard", "random", "fixed", "sliced"),
                licence="CC0",
                **common,
            )
        products = self.name == "ogbn-products"
        modes = ("standard", *(["amazon2m"] if products else []), *RANDOM_MODES)
        return node_card(
            self.name, facts.graph, split_modes=modes, licence="Amazon license" if products else "ODC-BY", **common
        )

    def _files(self) -> tuple[str, ...]:
        folder = f"ogb/{self.name.replace('-', '_')}"
        tables = (*_TABLES, "edge-feat" if self.name == "ogbn-proteins" else "node-feat")
        split = _FACTS[self.name].split
        return (
            *(f"{folder}/raw/{table}.csv.gz" for table in tables),
            *(f"{folder}/split/{split}/{part}.csv.gz" for part in _SPLIT_FILES),
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files and the split, or what a former run kept of them in the cache."""
        card = self.card
        url = f"{_URL}/{self.name.removeprefix('ogbn-')}.zip"
        root = roots.require(card.name, card.files, dict.fromkeys(card.files, url), fetch=self._fetch)
        folder = root / f"ogb/{self.name.replace('-', '_')}"
        files = [root / file for file in card.files]
        species = _species(folder) if self.name == "ogbn-proteins" else None
        if species is not None:
            files.append(species)
        store, split = cached_graphs(roots, "OGB", self.name, files, lambda: self._read(folder, species))
        if self.name == "ogbn-proteins" and self.node_features == "edge_mean":
            store = store.replace(x=edge_mean(store))
        card.check(store, str(folder))
        if self.name == "ogbn-arxiv":
            store = prepared(
                store,
                undirected=self.undirected,
                add_reverse_edges=self.add_reverse_edges,
                add_self_loops=self.add_self_loops,
            )
        return LoadedDataset(store, card, {"standard": (split,), "amazon2m": amazon2m_split})

    def _fetch(self, directory: Path) -> None:
        short = self.name.removeprefix("ogbn-")
        download_archive(f"{_URL}/{short}.zip", directory / f"ogb/{self.name.replace('-', '_')}", strip=1)

    def _read(self, folder: Path, species: Path | None) -> tuple[GraphStore, Splits]:
        raw = folder / "raw"
        edge_index = torch.from_numpy(read_csv(raw / "edge.csv.gz", may_be_empty=True).T.astype(np.int64))
        if _FACTS[self.name].listed_once:
            edge_index = with_reverse_edges(edge_index)
        y, edge_attr = read_csv(raw / "node-label.csv.gz"), None
        if species is not None:
            feature = torch.from_numpy(read_csv(raw / "edge-feat.csv.gz").astype(np.float32))
            edge_attr, x = torch.cat([feature, feature]), read_csv(species)
            y = y.astype(np.float32)
        else:
            x, y = read_csv(raw / "node-feat.csv.gz"), y.reshape(-1).astype(np.int64)
        nodes = int(read_csv(raw / "num-node-list.csv.gz")[0, 0])
        if not len(x) == len(y) == nodes:
            raise UserError(f"{raw}: {len(x)} rows of features and {len(y)} of labels for {nodes} nodes.")
        parts = (folder / f"split/{_FACTS[self.name].split}/{part}.csv.gz" for part in _SPLIT_FILES)
        split = Splits.of(*(read_csv(part)[:, 0] for part in parts))
        return node_store(x.astype(np.float32), edge_index, y, edge_attr), split


def edge_mean(store: GraphStore) -> Tensor:
    """(N, D) mean of the features of the edges that end at every node, zeros where none does."""
    assert store.edge_attr is not None
    target = store.edge_index[1].to(torch.int64)
    total = torch.zeros(store.num_nodes, store.edge_attr.shape[1]).index_add_(0, target, store.edge_attr)
    return total / torch.bincount(target, minlength=store.num_nodes).clamp_min(1).unsqueeze(1)


def amazon2m_split(request: SplitRequest) -> Splits:
    """A seeded permutation of all nodes, cut at one half and three quarters."""
    order = np.random.default_rng(request.seed).permutation(request.num_examples)
    half, three_quarters = request.num_examples // 2, request.num_examples // 2 + request.num_examples // 4
    return Splits.of(order[:half], order[half:three_quarters], order[three_quarters:])


def _species(folder: Path) -> Path:
    """The table of species, which the archive calls ``species`` and OGB's own reader renames."""
    candidates = [folder / f"raw/{name}.csv.gz" for name in ("node_species", "species")]
    present = [path for path in candidates if path.is_file()]
    if not present:
        raise UserError(f"there is neither {candidates[0]} nor {candidates[1].name}: delete {folder} to load it again.")
    return present[0]
