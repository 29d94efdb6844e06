"""PCQM-Contact: pairs of atoms that are distant in the molecular graph and close in space."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.datasets.ogb_graphs import ATOM_VOCABULARY, BOND_VOCABULARY
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download
from graphbench.data.files.molecules import molecules
from graphbench.data.files.raw_files import read_table, read_torch
from graphbench.data.files.roots import Roots
from graphbench.data.loading.negatives import with_negatives
from graphbench.data.splits import PARTS, Splits
from graphbench.data.store import GraphStore
from graphbench.data.stored_pairs import StoredEdges
from graphbench.errors import UserError

_URL = "https://datasets-public-research.s3.us-east-2.amazonaws.com/PCQM4M/pcqm4m-contact.tsv.gz"
_SPLIT_URLS = {
    "shuffle": "https://www.dropbox.com/s/p8fzkt2ff3zrpo7/530k_shuffle_split_dict.pt?dl=1",
    "num-atoms": "https://www.dropbox.com/s/vjilcw352lvl8kl/530k_num-atoms_split_dict.pt?dl=1",
}
_FOLDER = "pcqm4m-v2-contact/530k"
_TABLE = f"{_FOLDER}/raw/pcqm4m-contact.tsv.gz"
_EVERY = 6  # the benchmark is every sixth molecule of the table
_SEED = 42
_CHUNK = 10_000  # graphs whose false pairs are drawn at once


class PCQMContact(DatasetBuilder):
    """Pairs of atoms that are distant in the molecular graph and close in space.

    Paper: Long Range Graph Benchmark, https://arxiv.org/abs/2206.08164.

    529,434 molecules (hydrogens included) with OGB's atom and bond columns. Examples are molecules; the targets
    belong to pairs of atoms, ``edge_sets["label"]``: every contact in both directions (1), and for each of these two
    pairs with the same first atom that are no contact (0), drawn once with a fixed seed, or for every batch
    (``dataset.resample_negative``, :mod:`graphbench.data.loading.negatives`). MRR and Hits do not depend on them.
    Split: ``standard``, 90/5/5 %, at random or with the largest molecules in val and test.

    Args:
        name: ``PCQM4Mv2Contact-shuffle`` or ``PCQM4Mv2Contact-num-atoms``.
    """

    names = tuple(f"PCQM4Mv2Contact-{split_rule}" for split_rule in _SPLIT_URLS)
    offered_by: ClassVar = {"OGB": {name: name for name in names}}

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.split_rule = name.split("-", 1)[1]

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        return DatasetCard(
            name="PCQM-Contact" if self.split_rule == "shuffle" else f"PCQM-Contact-{self.split_rule}",
            task="link_pred",
            task_type="classification",
            metric="mrr",
            maximize=True,
            node_in=len(ATOM_VOCABULARY),
            edge_in=len(BOND_VOCABULARY),
            out_dim=1,
            vocabularies={"node": ATOM_VOCABULARY, "edge": BOND_VOCABULARY},
            split_counts={"standard": 1},
            statistics={"graphs": 529_434, "nodes_per_graph": 30.14, "edges_per_graph": 61.09},
            licence="CC BY 4.0",
            source="https://github.com/vijaydwivedi75/lrgb",
            files=(_TABLE, self._split_file),
        )

    @property
    def _split_file(self) -> str:
        return f"{_FOLDER}/530k_{self.split_rule}_split_dict.pt"

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache."""
        card = self.card
        # The release writes num-atoms with a hyphen and looks for it with an underscore.
        other = f"{_FOLDER}/530k_{self.split_rule.replace('-', '_')}_split_dict.pt"
        split_file = other if roots.find(_TABLE, other) else self._split_file
        files = (_TABLE, split_file)
        urls = {_TABLE: _URL, split_file: _SPLIT_URLS[self.split_rule]}
        root = roots.require(card.name, files, urls, fetch=lambda directory: _fetch(directory, urls))
        table, split = (root / file for file in files)
        store, splits = cached_graphs(
            roots, "PCQM-Contact", card.name, [table, split], lambda: (_read(table), _read_split(split))
        )
        card.check(store, str(root / _FOLDER))
        return LoadedDataset(store, card, {"standard": (splits,)})


def _fetch(directory: Path, urls: dict[str, str]) -> None:
    for file, url in urls.items():
        if not (directory / file).is_file():
            download(url, directory / file)


def _read_split(path: Path) -> Splits:
    parts = read_torch(path)
    if not isinstance(parts, dict) or any(part not in parts for part in PARTS):
        raise UserError(f"{path} does not hold the parts {', '.join(PARTS)}: delete it and download it again.")
    return Splits.of(*(parts[part] for part in PARTS))


def _read(table: Path) -> GraphStore:
    rows = read_table(table, separator="\t")
    if "cxsmiles" not in rows:
        raise UserError(f"{table} has no column cxsmiles; columns there: {', '.join(rows)}.")
    read = molecules(rows["cxsmiles"].tolist()[::_EVERY], "PCQM-Contact", contacts=True)
    return contact_store(read, _SEED)


def contact_store(read: dict[str, np.ndarray], seed: int) -> GraphStore:
    """Molecules with at least one contact, with their positive and negative pairs.

    Args:
        read: arrays from :func:`~graphbench.data.files.molecules.molecules` with ``contacts``.
        seed: seed of the pairs that are no contact.
    """
    kept = read["num_contacts"] > 0
    nodes, edges, contacts = (read[name][kept] for name in ("nodes", "edges", "num_contacts"))
    owner = np.tile(np.repeat(np.arange(len(nodes)), contacts), 2)
    both = np.concatenate([read["contacts"], read["contacts"][::-1]], axis=1).astype(np.int64)
    largest = int(nodes.max(initial=1))
    code = np.unique((owner * largest + both[0]) * largest + both[1])  # each pair once, sorted
    counts = np.bincount(code // largest**2, minlength=len(nodes))
    index = np.stack([code // largest % largest, code % largest]).astype(np.int32)
    graphs = GraphStore.from_arrays(
        nodes,
        edges,
        read["edge_index"][:, np.repeat(kept, read["edges"])],
        x=read["x"][np.repeat(kept, read["nodes"])],
        edge_attr=read["edge_attr"][np.repeat(kept, read["edges"])],
    )
    asked = StoredEdges(torch.from_numpy(np.concatenate([[0], np.cumsum(counts)])), torch.from_numpy(index))
    return _with_fixed_negatives(
        graphs.replace(edge_sets={"label": asked}, y=torch.ones(len(code), dtype=torch.int64), y_level="pair"), seed
    )


def _with_fixed_negatives(store: GraphStore, seed: int) -> GraphStore:
    generator = torch.Generator().manual_seed(seed)
    counts, index, y = [], [], []
    for start in range(0, store.num_graphs, _CHUNK):
        batch = store.gather(range(start, min(start + _CHUNK, store.num_graphs)))
        batch = with_negatives(batch, generator)
        asked = batch.edge_sets["label"]
        assert batch.y is not None
        counts.append(asked.ptr.diff())
        index.append((asked.index - batch.ragged.ptr[batch.ragged.graph_id[asked.index[0]]]).to(torch.int32))
        y.append(batch.y)
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cat(counts).cumsum(0)])
    return store.replace(edge_sets={"label": StoredEdges(ptr, torch.cat(index, dim=1))}, y=torch.cat(y))
