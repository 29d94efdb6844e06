"""ogbn-mag: papers, authors, institutions and fields of study as one graph, from OGB's raw csv files."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.raw_files import read_csv, reading
from graphbench.data.files.roots import Roots
from graphbench.data.heterogeneous import homogeneous
from graphbench.data.single_graph import NodeFacts, node_card, node_store
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError

_NAME = "ogbn-mag"
_URL = "http://snap.stanford.edu/ogb/data/nodeproppred/mag.zip"
_FOLDER = "ogb/ogbn_mag"
_KINDS = ("author", "field_of_study", "institution", "paper")
_RELATIONS = (
    ("author", "affiliated_with", "institution"),
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "has_topic", "field_of_study"),
)
_FACTS = NodeFacts(1_939_743, 2 * 21_111_007, len(_KINDS) + 128, 349)
_PARTS = ("train", "valid", "test")


class OGBMag(DatasetBuilder):
    """1.9 million nodes of four kinds, 21 million edges of four relations; the venue of a paper, one of 349.

    Paper: Open Graph Benchmark, https://arxiv.org/abs/2005.00687.

    One graph for models that know one kind of nodes (:mod:`graphbench.data.heterogeneous`): the four kinds are the
    first columns of the features, the 128 of papers follow, 0 for all others; every relation is there in both
    directions, its number is the feature of an edge. Only papers have targets and a place in the split, by year.

    Args:
        name: ``ogbn-mag``.
    """

    names = (_NAME,)
    offered_by: ClassVar = {"OGB": {name: name for name in names}}

    def __init__(self, name: str = _NAME) -> None:
        super().__init__(name)

    @property
    def card(self) -> DatasetCard:
        """Declared facts; edges are those of both directions."""
        raw = f"{_FOLDER}/raw"
        return node_card(
            self.name,
            _FACTS,
            edge_in=1,
            vocabularies={"edge": (2 * len(_RELATIONS),)},
            split_modes=("standard", "fixed"),
            split_counts={"standard": 1},
            licence="ODC-BY",
            source="https://ogb.stanford.edu/docs/nodeprop",
            files=(
                f"{raw}/num-node-dict.csv.gz",
                f"{raw}/node-feat/paper/node-feat.csv.gz",
                f"{raw}/node-label/paper/node-label.csv.gz",
                *(f"{raw}/relations/{'___'.join(relation)}/edge.csv.gz" for relation in _RELATIONS),
                *(f"{_FOLDER}/split/time/paper/{part}.csv.gz" for part in _PARTS),
            ),
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files and the split, or what a former run kept of them in the cache."""
        card = self.card
        root = roots.require(card.name, card.files, dict.fromkeys(card.files, _URL), fetch=self._fetch)
        files = [root / file for file in card.files]
        store, split = cached_graphs(roots, "OGB", self.name, files, lambda: self._read(files))
        card.check(store, str(root / _FOLDER))
        return LoadedDataset(store, card, {"standard": (split,)})

    def _fetch(self, directory: Path) -> None:
        download_archive(_URL, directory / _FOLDER, strip=1)

    def _read(self, files: list[Path]) -> tuple[GraphStore, Splits]:
        from torch_geometric.data import HeteroData

        counts, (x, y) = _counts(files[0]), (read_csv(file) for file in files[1:3])
        if not len(x) == len(y) == counts["paper"]:
            raise UserError(f"{files[0]}: {counts['paper']} papers, {len(x)} rows of features, {len(y)} of labels.")
        data = HeteroData()
        for kind in _KINDS:
            data[kind].num_nodes = counts[kind]
        data["paper"].x = torch.from_numpy(x.astype(np.float32))
        data["paper"].y = torch.from_numpy(y.reshape(-1).astype(np.int64))
        for relation, file in zip(_RELATIONS, files[3:7], strict=True):
            edges = torch.from_numpy(read_csv(file).T.astype(np.int64))
            for kind, ends in zip(relation[::2], edges, strict=True):
                if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < counts[kind]:
                    raise UserError(f"{file}: names {kind} {int(ends.max())}, but there are {counts[kind]}.")
            data[relation].edge_index = edges
        fields = homogeneous(data)
        first = sum(counts[kind] for kind in _KINDS[: _KINDS.index("paper")])
        split = Splits.of(*(first + read_csv(part)[:, 0].astype(np.int64) for part in files[7:]))
        return node_store(fields["x"], fields["edge_index"], fields["y"], fields["edge_attr"]), split


def _counts(file: Path) -> dict[str, int]:
    """Nodes of every kind."""
    import pandas

    with reading(file):
        table = pandas.read_csv(file)
        return {kind: int(table[kind][0]) for kind in _KINDS}
