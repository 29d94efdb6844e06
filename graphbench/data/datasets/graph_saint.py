"""Flickr, Reddit and Yelp: one large graph each, in the files of GraphSAINT (Reddit: of GraphSAGE) with their split."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.edge_lists import coalesce
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.raw_files import read_npz, reading
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts, node_card, node_store
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.registry import register

_PARTS = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
_DRIVE = "https://drive.usercontent.google.com/download?confirm=t&id="


class _OneGraph(DatasetBuilder):
    """One large graph, seen whole in training (as PyG's loaders of these sets do); features are not scaled."""

    title: str
    facts: NodeFacts
    task_type = "classification"
    metric = "accuracy"
    source = "https://github.com/GraphSAINT/GraphSAINT"
    parts: tuple[str, ...] = _PARTS

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        files = tuple(f"{self.title}/raw/{part}" for part in self.parts)
        task = {"task_type": self.task_type, "metric": self.metric}
        return node_card(self.title, self.facts, source=self.source, files=files, split_counts={"standard": 1}, **task)

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files and the split, or what a former run kept of them in the cache."""
        card = self.card
        folder = self._require(roots, card) / f"{self.title}/raw"
        files = [folder / part for part in self.parts]
        store, split = cached_graphs(roots, "GraphSAINT", self.title, files, lambda: self._read(folder))
        card.check(store, str(folder))
        return LoadedDataset(store, card, {"standard": (split,)})

    def _require(self, roots: Roots, card: DatasetCard) -> Path:
        raise NotImplementedError

    def _read(self, folder: Path) -> tuple[GraphStore, Splits]:
        raise NotImplementedError


class _GraphSAINT(_OneGraph):
    """A graph in the files of GraphSAINT.

    Paper: GraphSAINT: Graph Sampling Based Inductive Learning Method, https://arxiv.org/abs/1907.04931.
    """

    drive: tuple[str, str, str, str]

    def _require(self, roots: Roots, card: DatasetCard) -> Path:
        urls = {file: f"{_DRIVE}{number}" for file, number in zip(card.files, self.drive, strict=True)}
        return roots.require(card.name, card.files, urls)

    def _read(self, folder: Path) -> tuple[GraphStore, Splits]:
        *parts, shape = read_npz(folder / "adj_full.npz", "data", "indices", "indptr", "shape")
        with reading(*(folder / part for part in _PARTS)):
            matrix = sparse.csr_matrix(tuple(parts), shape)
            x = np.load(folder / "feats.npy").astype(np.float32)
            y = self._targets(json.loads((folder / "class_map.json").read_text(encoding="utf-8")), len(x))
            role = json.loads((folder / "role.json").read_text(encoding="utf-8"))
            split = Splits.of(role["tr"], role["va"], role["te"])
            matrix.check_format(full_check=True)
        source, target = matrix.tocoo().coords
        return node_store(x, torch.from_numpy(np.stack([source, target]).astype(np.int64)), y), split

    def _targets(self, classes: dict[str, int | list[int]], nodes: int) -> np.ndarray:
        """A class per node (-1: none), or a row of 0 and 1 per node (NaN: none)."""
        several = self.task_type == "classification_multilabel"
        y = np.full((nodes, self.facts.classes), np.nan, np.float32) if several else np.full(nodes, -1, np.int64)
        y[[int(node) for node in classes]] = list(classes.values())
        return y


@register("PyG-Flickr")
class Flickr(_GraphSAINT):
    """Images that share properties, by tag. Paper: https://arxiv.org/abs/1907.04931.

    Args:
        name: ``none``: there is one such graph.
    """

    names = ("none", "Flickr")
    title, facts = "Flickr", NodeFacts(89250, 899756, 500, 7)
    drive = (
        "1crmsTbd1-2sEXsGwa2IKnIB7Zd3TmUsy",
        "1join-XdvX3anJU_MLVtick7MgeAQiWIZ",
        "1uxIkbtg5drHTsKt-PAsZZ4_yJmgFmle9",
        "1htXCtuktuCW8TR8KiKfrFDAxUgekQoV7",
    )


@register("PyG-Yelp")
class Yelp(_GraphSAINT):
    """Customers who are friends, by the 100 kinds of business they reviewed. Paper: https://arxiv.org/abs/1907.04931.

    Micro-averaged F1 over all labels, as in the paper. Differs from its release, which scales features to mean 0 and
    standard deviation 1 over the training nodes.

    Args:
        name: ``none``: there is one such graph.
    """

    names = ("none", "Yelp")
    title, facts = "Yelp", NodeFacts(716847, 13954819, 300, 100)
    task_type, metric = "classification_multilabel", "f1-micro"
    drive = (
        "1Juwx8HtDwSzmVIJ31ooVa1WljI4U5JnA",
        "1Zy6BZH_zLEjKlEFSduKE5tV9qqA_8VtM",
        "1VUcBGr0T0-klqerjAjxRmAqFuld_SMWU",
        "1NI5pa5Chpd-52eSmLW60OnB3WS5ikxq_",
    )


@register("PyG-Reddit2")
class Reddit2(_GraphSAINT):
    """Posts commented by the same users, by community. Paper: https://arxiv.org/abs/1907.04931.

    Args:
        name: ``none``: there is one such graph.
    """

    names = ("none", "Reddit2")
    title, facts = "Reddit2", NodeFacts(232965, 23213838, 602, 41)
    drive = (
        "1sncK996BM5lpuDf75lDFqCiDZyErc1c2",
        "1ZsHaJ0ussP1W722krmEIp_8pwKAoi5b3",
        "1JF3Pjv9OboMNYs2aXRQGbJbc4t_nDd5u",
        "1nJIKd77lcAGU4j-kVNx_AIGEkveIKz3A",
    )


@register("PyG-Reddit")
class Reddit(_OneGraph):
    """Posts commented by the same users, with five times the edges. Paper: GraphSAGE, https://arxiv.org/abs/1706.02216.

    Args:
        name: ``none``: there is one such graph.
    """

    names = ("none", "Reddit")
    title, facts = "Reddit", NodeFacts(232965, 114615892, 602, 41)
    parts = ("reddit_data.npz", "reddit_graph.npz")
    source = "https://snap.stanford.edu/graphsage"
    url = "https://data.dgl.ai/dataset/reddit.zip"

    def _require(self, roots: Roots, card: DatasetCard) -> Path:
        urls = dict.fromkeys(card.files, self.url)
        return roots.require(
            card.name, card.files, urls, fetch=lambda to: download_archive(self.url, to / "Reddit/raw")
        )

    def _read(self, folder: Path) -> tuple[GraphStore, Splits]:
        x, y, part = read_npz(folder / self.parts[0], "feature", "label", "node_types")
        source, target = read_npz(folder / self.parts[1], "row", "col")
        edge_index = coalesce(torch.from_numpy(np.stack([source, target]).astype(np.int64)), len(x))
        split = Splits.from_masks(part == 1, part == 2, part == 3)
        return node_store(x.astype(np.float32), edge_index, y.astype(np.int64)), split
