"""Facebook100 networks and genius, the LINKX collection, with users' gender or status as the class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from graphbench.data.card import DatasetCard
from graphbench.data.edges import distinct
from graphbench.data.family import LoadedDataset, known_name
from graphbench.data.one_graph import RANDOM_MODES, NodeFacts, node_card, node_store, prepared
from graphbench.data.raw_files import read_object_array
from graphbench.data.roots import Roots
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.registry import register

_URL = "https://github.com/CUAI/Non-Homophily-Large-Scale/raw/master/data"
_FACTS = {
    "penn94": NodeFacts(41554, 2 * 1362229, 4814, 2),
    "reed98": NodeFacts(962, 2 * 18812, 745, 2),
    "amherst41": NodeFacts(2235, 2 * 90954, 1193, 2),
    "cornell5": NodeFacts(18660, 2 * 790777, 4735, 2),
    "johnshopkins55": NodeFacts(5180, 2 * 186586, 2406, 2),
    "genius": NodeFacts(421961, 984979, 12, 2),
}
_REMOTE = {
    "penn94": "facebook100/Penn94.mat",
    "reed98": "facebook100/Reed98.mat",
    "amherst41": "facebook100/Amherst41.mat",
    "cornell5": "facebook100/Cornell5.mat",
    "johnshopkins55": "facebook100/Johns%20Hopkins55.mat",
    "genius": "genius.mat",
}
_SHA256 = {
    "reed98": "d12ec74dc8c6e237385975b976c3709555a83629a1260be693fb688e3446070e",
    "amherst41": "3108e4b2edb01be05c5a61147583a40e61012820fff7eebe621dd26018caaf00",
    "cornell5": "d9ff76ae34e855cb77b0779a3a320f7f73f848901cb13352e2734c17804c4aec",
    "johnshopkins55": "fc7243bf257155df03afbc397ab34b5f8eb8e75f40cd1603398e207a033ef50f",
}
_PENN94_SPLITS = "fb100-Penn94-splits.npy"


@register("PyG-LINKXDataset")
class LINKX:
    """Paper: Large Scale Learning on Non-Homophilous Graphs, https://arxiv.org/abs/2110.14446.

    Only penn94 has published splits (five of 50/25/25 %); for the others the paper draws at random: split_mode
    ``random`` with ``dataset.split: [0.5, 0.25, 0.25]``. Users without a label belong to no part. As in PyG, a
    Facebook user's features are one-hot columns of student status, major, second major, dorm, year and school.

    Args:
        name: ``penn94``, ``reed98``, ``amherst41``, ``cornell5``, ``johnshopkins55`` or ``genius``.
        undirected: add the missing reverse edges (genius is directed).
    """

    def __init__(self, name: str, *, undirected: bool = False) -> None:
        self.name = known_name("PyG-LINKXDataset", name.lower(), _FACTS)
        self.undirected = undirected

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        folder = f"LINKXDataset/{self.name}/raw"
        published = self.name == "penn94"
        return node_card(
            self.name.capitalize(),
            _FACTS[self.name],
            metric="auc" if self.name == "genius" else "accuracy",
            split_modes=("standard", *RANDOM_MODES) if published else RANDOM_MODES,
            default_split="standard" if published else "random",
            source="https://github.com/CUAI/Non-Homophily-Large-Scale",
            files=(f"{folder}/data.mat", *([f"{folder}/{_PENN94_SPLITS}"] if published else [])),
            sha256={f"{folder}/data.mat": _SHA256[self.name]} if self.name in _SHA256 else {},
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files.

        Raises:
            UserError: files are missing, damaged or of another version.
        """
        card = self.card
        remote = (_REMOTE[self.name], f"splits/{_PENN94_SPLITS}")
        urls = {file: f"{_URL}/{path}" for file, path in zip(card.files, remote, strict=False)}
        root = roots.require(card.name, card.files, urls, card.sha256)
        path = root / card.files[0]
        try:
            store = (_read_genius if self.name == "genius" else _read_facebook)(read_mat(path))
        except KeyError as error:
            raise UserError(f"{path}: there is no array {error} in it; delete the file and load it again.") from None
        card.check(store, str(path))
        splits = tuple(Splits.of(*parts) for parts in read_split_dicts(root / card.files[1])) if card.files[1:] else ()
        return LoadedDataset(prepared(store, undirected=self.undirected), card, {"standard": splits} if splits else {})


def read_mat(path: Path) -> dict[str, Any]:
    """The arrays of a Matlab file by name.

    Raises:
        UserError: no Matlab file, or a damaged one.
    """
    from scipy.io import loadmat  # here, because importing it is slow

    try:
        arrays: dict[str, Any] = loadmat(path)
    except Exception as error:  # damage can surface anywhere in the parser
        raise UserError(f"{path} is damaged ({error}): delete it and let it be downloaded again.") from error
    return arrays


def read_split_dicts(path: Path) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The collection's split files: an array of ``{"train": ..., "valid": ..., "test": ...}``.

    Raises:
        UserError: another kind of file, or a damaged one.
    """
    try:
        return [(each["train"], each["valid"], each["test"]) for each in read_object_array(path).reshape(-1)]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path} holds no list of train, valid and test ({error}).") from error


def _read_facebook(arrays: dict[str, Any]) -> GraphStore:
    """``A`` is the adjacency matrix; ``local_info`` has one column per attribute, the second of them gender."""
    source, target = arrays["A"].tocoo().coords
    info = torch.from_numpy(arrays["local_info"].astype(np.int64))
    attributes = [info[:, column] for column in range(info.shape[1]) if column != 1]
    columns = [torch.nn.functional.one_hot(each.unique(return_inverse=True)[1]) for each in attributes]
    edge_index = distinct(torch.from_numpy(np.stack([source, target]).astype(np.int64)), len(info))
    return node_store(torch.cat(columns, dim=1).to(torch.float32), edge_index, info[:, 1] - 1)


def _read_genius(arrays: dict[str, Any]) -> GraphStore:
    edge_index = torch.from_numpy(arrays["edge_index"].astype(np.int64))
    return node_store(arrays["node_feat"].astype(np.float32), edge_index, arrays["label"].reshape(-1).astype(np.int64))
