"""ZINC: molecules with penalised logP, in the form of the Benchmarking GNNs release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download, download_archive
from graphbench.data.files.raw_files import read_pickle
from graphbench.data.files.roots import Roots
from graphbench.data.graph_records import GraphRecord
from graphbench.data.splits import PARTS, Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.registry import register

_URL = "https://www.dropbox.com/s/feo9qle74kg48gy/molecules.zip?dl=1"
_INDEX_URL = "https://raw.githubusercontent.com/graphdeeplearning/benchmarking-gnns/master/data/molecules/{}.index"
_FILES = tuple(f"ZINC/raw/{part}.{ending}" for ending in ("pickle", "index") for part in PARTS)
_STATISTICS: dict[str, dict[str, float]] = {
    "subset": {"graphs": 12_000, "nodes": 277_864, "edges": 597_970},
    "full": {"graphs": 249_456},
}
_TYPES, _BONDS = 28, 4


@register("PyG-ZINC")
class ZINC(DatasetBuilder):
    """Molecules and their penalised logP.

    Paper: Benchmarking Graph Neural Networks, https://arxiv.org/abs/2003.00982.

    Nodes carry one of 28 atom types, edges a bond type 1 .. 3 (0 is "no bond"); the target is logP - SA - cycles.
    Splits: ``standard``, 10,000/1,000/1,000 (full: 220,011/24,445/5,000).

    Args:
        name: ``subset`` (12,000 molecules) or ``full`` (249,456).
    """

    names = tuple(_STATISTICS)

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        return DatasetCard(
            name="ZINC" if self.name == "subset" else "ZINC-full",
            task="graph",
            task_type="regression",
            metric="mae",
            maximize=False,
            node_in=1,
            edge_in=1,
            out_dim=1,
            vocabularies={"node": (_TYPES,), "edge": (_BONDS,)},
            split_counts={"standard": 1},
            statistics=_STATISTICS[self.name],
            source="https://github.com/graphdeeplearning/benchmarking-gnns",
            files=_FILES,
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache."""
        card = self.card
        root = roots.require(card.name, _FILES, dict.fromkeys(_FILES, _URL), fetch=_fetch)
        folder = root / "ZINC/raw"
        store, splits = cached_graphs(
            roots, "ZINC", self.name, [root / file for file in _FILES], lambda: _read(folder, self.name == "subset")
        )
        card.check(store, str(folder))
        return LoadedDataset(store, card, {"standard": (splits,)})


def _fetch(directory: Path) -> None:
    folder = directory / "ZINC/raw"
    download_archive(_URL, folder, strip=1)
    for part in PARTS:
        download(_INDEX_URL.format(part), folder / f"{part}.index")


def _read(folder: Path, subset: bool) -> tuple[GraphStore, Splits]:
    graphs: list[GraphRecord] = []
    counts = []
    for part in PARTS:
        content = read_pickle(folder / f"{part}.pickle")
        chosen = _positions(folder / f"{part}.index", len(content)) if subset else range(len(content))
        graphs += [_graph(content[number]) for number in chosen]
        counts.append(len(chosen))
    return GraphStore.from_graphs(graphs), Splits.consecutive(counts)


def _positions(path: Path, available: int) -> Sequence[int]:
    numbers = [int(number) for number in path.read_text(encoding="ascii").strip().split(",")]
    if numbers and max(numbers) >= available:
        raise UserError(
            f"{path} names molecule {max(numbers)}, but {path.with_suffix('.pickle')} holds {available}: the two files "
            "are not of the same release."
        )
    return numbers


def _graph(molecule: dict[str, Any]) -> GraphRecord:
    bonds = molecule["bond_type"].to(torch.uint8)
    edge_index = bonds.nonzero().T
    return GraphRecord(
        edge_index=edge_index,
        x=molecule["atom_type"].to(torch.uint8).view(-1, 1),
        edge_attr=bonds[edge_index[0], edge_index[1]].view(-1, 1),
        y=molecule["logP_SA_cycle_normalized"].to(torch.float32),
    )
