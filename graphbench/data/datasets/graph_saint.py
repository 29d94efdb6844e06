"""Flickr and Reddit2: one large graph each, in the form and with the split of the GraphSAINT release."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from graphbench.data.card import DatasetCard
from graphbench.data.family import LoadedDataset, known_name
from graphbench.data.one_graph import NodeFacts, node_card, node_store
from graphbench.data.raw_files import read_npz
from graphbench.data.roots import Roots
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.registry import register

_PARTS = ("adj_full.npz", "feats.npy", "class_map.json", "role.json")
_DRIVE = "https://drive.usercontent.google.com/download?confirm=t&id="


class _GraphSAINT:
    """Paper: GraphSAINT: Graph Sampling Based Inductive Learning Method, https://arxiv.org/abs/1907.04931.

    The whole graph is seen while training, as PyG's loaders of these sets do.
    """

    title: str
    facts: NodeFacts
    drive: tuple[str, str, str, str]

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        files = tuple(f"{self.title}/raw/{part}" for part in _PARTS)
        return node_card(self.title, self.facts, source="https://github.com/GraphSAINT/GraphSAINT", files=files)

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files and the split.

        Raises:
            UserError: files are missing, damaged or of another version.
        """
        card = self.card
        urls = {file: f"{_DRIVE}{number}" for file, number in zip(card.files, self.drive, strict=True)}
        folder = roots.require(card.name, card.files, urls) / f"{self.title}/raw"
        store, split = _read(folder)
        card.check(store, str(folder))
        return LoadedDataset(store, card, {"standard": (split,)})


@register("PyG-Flickr")
class Flickr(_GraphSAINT):
    """Images that share properties, by tag. Paper: https://arxiv.org/abs/1907.04931.

    Args:
        name: ``none``: there is one such graph.
    """

    title, facts = "Flickr", NodeFacts(89250, 899756, 500, 7)
    drive = (
        "1crmsTbd1-2sEXsGwa2IKnIB7Zd3TmUsy",
        "1join-XdvX3anJU_MLVtick7MgeAQiWIZ",
        "1uxIkbtg5drHTsKt-PAsZZ4_yJmgFmle9",
        "1htXCtuktuCW8TR8KiKfrFDAxUgekQoV7",
    )

    def __init__(self, name: str = "none") -> None:
        known_name("PyG-Flickr", name, ("none", "Flickr"))


@register("PyG-Reddit2")
class Reddit2(_GraphSAINT):
    """Posts commented by the same users, by community. Paper: https://arxiv.org/abs/1907.04931.

    Args:
        name: ``none``: there is one such graph.
    """

    title, facts = "Reddit2", NodeFacts(232965, 23213838, 602, 41)
    drive = (
        "1sncK996BM5lpuDf75lDFqCiDZyErc1c2",
        "1ZsHaJ0ussP1W722krmEIp_8pwKAoi5b3",
        "1JF3Pjv9OboMNYs2aXRQGbJbc4t_nDd5u",
        "1nJIKd77lcAGU4j-kVNx_AIGEkveIKz3A",
    )

    def __init__(self, name: str = "none") -> None:
        known_name("PyG-Reddit2", name, ("none", "Reddit2"))


def _read(folder: Path) -> tuple[GraphStore, Splits]:
    *parts, shape = read_npz(folder / "adj_full.npz", "data", "indices", "indptr", "shape")
    try:
        matrix = sparse.csr_matrix(tuple(parts), shape)
        x = np.load(folder / "feats.npy").astype(np.float32)
        classes = json.loads((folder / "class_map.json").read_text(encoding="utf-8"))
        role = json.loads((folder / "role.json").read_text(encoding="utf-8"))
        y = np.full(len(x), -1, dtype=np.int64)
        y[[int(node) for node in classes]] = list(classes.values())
        split = Splits.of(role["tr"], role["va"], role["te"])
    except (OSError, KeyError, ValueError, TypeError, IndexError, EOFError) as error:
        raise UserError(
            f"{folder}: one of {', '.join(_PARTS)} is damaged ({error}). Delete them and let them be downloaded again."
        ) from error
    source, target = matrix.tocoo().coords
    return node_store(x, torch.from_numpy(np.stack([source, target]).astype(np.int64)), y), split
