"""PCQM4Mv2: 3.7 million molecules with the gap between two electron orbitals, from OGB's large-scale challenge."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.datasets.ogb_graphs import ATOM_VOCABULARY, BOND_VOCABULARY
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.molecules import molecules
from graphbench.data.files.raw_files import read_table, read_torch
from graphbench.data.files.roots import Roots
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError

_URL = "https://dgl-data.s3-accelerate.amazonaws.com/dataset/OGB-LSC/pcqm4m-v2.zip"
_FILES = ("pcqm4m-v2/raw/data.csv.gz", "pcqm4m-v2/split_dict.pt")
_SEED = 42
_VALIDATION = 150_000
_SMALL_VALIDATION = 50_000
_SMALL_FRACTION = 0.1
_PARTS = ("train", "valid", "test-dev", "test-challenge")

# graphs in all parts of each selection
GRAPHS = {"PCQM4Mv2-subset": 446_405, "PCQM4Mv2-full": 3_452_151, "PCQM4Mv2-inference": 368_014}


class PCQM4M(DatasetBuilder):
    """Molecules and the HOMO-LUMO gap in eV.

    Paper: OGB-LSC, https://arxiv.org/abs/2103.09430.

    The selections of GraphGPS. ``full``: 150,000 random molecules of the challenge's training part validate, the
    challenge's validation part tests (its own test parts have no public targets). ``subset``: of that a tenth of the
    training molecules and 50,000 of the validating ones. ``inference``: the challenge's valid, test-dev and
    test-challenge parts as train, val and test; targets of the last two are NaN. Only molecules of these parts are
    read, once, with RDKit; ``full`` takes a good while.

    Args:
        name: ``PCQM4Mv2-subset``, ``PCQM4Mv2-full`` or ``PCQM4Mv2-inference``.
    """

    names = tuple(GRAPHS)
    offered_by: ClassVar = {"OGB": {name: name for name in names}}

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        return DatasetCard(
            name=self.name,
            task="graph",
            task_type="regression",
            metric="mae",
            maximize=False,
            node_in=len(ATOM_VOCABULARY),
            edge_in=len(BOND_VOCABULARY),
            out_dim=1,
            vocabularies={"node": ATOM_VOCABULARY, "edge": BOND_VOCABULARY},
            split_counts={"standard": 1},
            statistics={"graphs": GRAPHS[self.name]},
            licence="CC BY 4.0",
            source="https://ogb.stanford.edu/docs/lsc/pcqm4mv2/",
            files=_FILES,
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache."""
        card = self.card
        root = roots.require(self.name, _FILES, dict.fromkeys(_FILES, _URL), fetch=_fetch)
        files = [root / file for file in _FILES]
        store, splits = cached_graphs(roots, "PCQM4Mv2", self.name, files, lambda: self._read(*files))
        card.check(store, str(root / "pcqm4m-v2"))
        return LoadedDataset(store, card, {"standard": (splits,)})

    def _read(self, table: Path, split: Path) -> tuple[GraphStore, Splits]:
        rows = read_table(table)
        parts = read_torch(split)
        if not isinstance(parts, dict) or any(part not in parts for part in _PARTS):
            raise UserError(f"{split} does not hold the parts {', '.join(_PARTS)}: delete it and download it again.")
        parts = self._select({name: np.asarray(numbers) for name, numbers in parts.items()})
        chosen = rows.iloc[np.concatenate(parts)]
        read: dict[str, Any] = molecules(chosen["smiles"].tolist(), self.name)
        y = np.array(chosen["homolumogap"], dtype=np.float32)[:, None]
        return GraphStore.from_arrays(**read, y=y), Splits.consecutive([len(part) for part in parts])

    def _select(self, parts: dict[str, np.ndarray]) -> list[np.ndarray]:
        if self.name == "PCQM4Mv2-inference":
            return [parts[name] for name in _PARTS[1:]]
        shuffled = np.random.default_rng(_SEED).permutation(parts["train"])
        val, train = shuffled[:_VALIDATION], shuffled[_VALIDATION:]
        if self.name == "PCQM4Mv2-subset":
            train, val = train[: int(_SMALL_FRACTION * len(train))], val[:_SMALL_VALIDATION]
        return [train, val, parts["valid"]]


def _fetch(directory: Path) -> None:
    download_archive(_URL, directory / "pcqm4m-v2", strip=1)
