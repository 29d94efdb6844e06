"""Peptides-func and Peptides-struct: functions and shapes of peptides, read from their SMILES."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.datasets.ogb_graphs import ATOM_VOCABULARY, BOND_VOCABULARY
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.molecules import molecules
from graphbench.data.files.raw_files import read_pickle, read_table
from graphbench.data.files.roots import Roots
from graphbench.data.splits import PARTS, Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.vocabulary import TaskType

_URL = "https://www.dropbox.com/s/{}?dl=1"
_SHAPES = (
    *(f"Inertia_{weight}_{axis}" for weight in ("mass", "valence") for axis in "abc"),
    *(f"length_{axis}" for axis in "abc"),
    "Spherocity",
    "Plane_best_fit",
)


@dataclass(frozen=True)
class _Facts:
    name: str
    task_type: TaskType
    metric: str
    out_dim: int
    table: str
    split: str
    keys: tuple[str, str]
    sha256: Mapping[str, str] = field(default_factory=dict)


FACTS = {
    "peptides-functional": _Facts(
        "Peptides-func",
        "classification_multilabel",
        "ap",
        10,
        "peptide_multi_class_dataset.csv.gz",
        "splits_random_stratified_peptide.pickle",
        ("ol2v01usvaxbsr8", "j4zcnx2eipuo0xz"),
        {
            "table": "e314f7dfb1ac46ef83fe5f5aa4fe502ad4527da633b64e6b997cb0c452511de3",
            "split": "4573079852cce8867ad2d734c5dd22d77538bbe9f628223a8d4b3b531f6fffd0",
        },
    ),
    "peptides-structural": _Facts(
        "Peptides-struct",
        "regression",
        "mae",
        len(_SHAPES),
        "peptide_structure_normalized_dataset.csv.gz",
        "splits_random_stratified_peptide_structure.pickle",
        ("0d4aalmq4b4e2nh", "9dfifzft1hqgow6"),
    ),
}


class Peptides(DatasetBuilder):
    """Functions, or properties of the shape, of peptides.

    Paper: Long Range Graph Benchmark, https://arxiv.org/abs/2206.08164.

    15,535 peptides with OGB's atom and bond columns. ``peptides-functional``: ten labels that may hold together;
    ``peptides-structural``: eleven standardised properties of the shape in space. Split: ``standard``,
    10,873/2,331/2,331.
    The SMILES are read once (RDKit, about a minute) and kept in the cache.

    Args:
        name: ``peptides-functional`` or ``peptides-structural``.
    """

    names = tuple(FACTS)
    offered_by: ClassVar = {"OGB": {name: name for name in names}}

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.facts = FACTS[name]

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        facts = self.facts
        files = {"table": f"{self.name}/raw/{facts.table}", "split": f"{self.name}/{facts.split}"}
        return DatasetCard(
            name=facts.name,
            task="graph",
            task_type=facts.task_type,
            metric=facts.metric,
            maximize=facts.metric == "ap",
            node_in=len(ATOM_VOCABULARY),
            edge_in=len(BOND_VOCABULARY),
            out_dim=facts.out_dim,
            vocabularies={"node": ATOM_VOCABULARY, "edge": BOND_VOCABULARY},
            split_counts={"standard": 1},
            statistics={"graphs": 15_535, "nodes": 2_344_859, "edges": 4_773_974},
            licence="CC BY-NC 4.0",
            source="https://github.com/vijaydwivedi75/lrgb",
            files=tuple(files.values()),
            sha256={files[role]: value for role, value in facts.sha256.items()},
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache."""
        card = self.card
        names = (self.facts.table, self.facts.split)
        urls = {
            file: _URL.format(f"{key}/{name}")
            for file, key, name in zip(card.files, self.facts.keys, names, strict=True)
        }
        root = roots.require(card.name, card.files, urls, card.sha256)
        table, split = (root / file for file in card.files)
        store, splits = cached_graphs(roots, "Peptides", card.name, [table, split], lambda: self._read(table, split))
        card.check(store, str(root / self.name))
        return LoadedDataset(store, card, {"standard": (splits,)})

    def _read(self, table: Path, split: Path) -> tuple[GraphStore, Splits]:
        rows = read_table(table)
        targets = ["labels"] if self.facts.metric == "ap" else list(_SHAPES)
        missing = [column for column in ("smiles", *targets) if column not in rows]
        if missing:
            raise UserError(f"{table} has no column {', '.join(missing)}; columns there: {', '.join(rows)}.")
        y = rows[targets].to_numpy() if targets != ["labels"] else [ast.literal_eval(text) for text in rows["labels"]]
        read: dict[str, Any] = molecules(rows["smiles"].tolist(), self.name)
        store = GraphStore.from_arrays(**read, y=np.asarray(y, dtype=np.float32))
        parts = read_pickle(split)
        return store, Splits.of(*(parts[part] for part in PARTS))
