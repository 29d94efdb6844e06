"""Deezer users of Europe, the artists they like as features, their gender as the class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from scipy import sparse

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.datasets.linkx_files import read_mat, read_split_dicts
from graphbench.data.edge_lists import coalesce
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import RANDOM_MODES, NodeFacts, node_card, node_store, prepared
from graphbench.data.sparse_features import sparse_rows
from graphbench.data.splits import Splits
from graphbench.errors import UserError
from graphbench.registry import FromContext, register

_MAT, _SPLITS = "deezer_europe/deezer-europe.mat", "deezer_europe/deezer-europe-splits.npy"
_SHA256 = {
    _MAT: "21eae0b09c2defc55817ceb7a8227d0b36cf8bddce5b2c546a96bfb965280e5f",
    _SPLITS: "15dc2ccafca32dd89316334ad12bc47892383abb8f4edd76a90a70780c861c2f",
}
_URL = "https://github.com/CUAI/Non-Homophily-Large-Scale/raw/master/data"


@register("Deezer")
class Deezer(DatasetBuilder):
    """Deezer users of Europe: the artists they like, and their gender as the class.

    Paper: Characteristic Functions on Graphs, https://arxiv.org/abs/2005.07959.

    Five published splits of 50/25/25 %. The 31,241 columns are 99.9 % zeros and read as sparse rows: 16 MB, where a
    dense tensor takes 3.5 GB (``dataset.sparse_features: never``).

    Args:
        name: ``deezer-europe``.
        normalize_features: divide every row of the features by its sum.
    """

    names = ("deezer-europe",)

    def __init__(self, name: FromContext[str] = "deezer-europe", *, normalize_features: bool = False) -> None:
        super().__init__(name)
        self.normalize_features = normalize_features

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        return node_card(
            "Deezer-Europe",
            NodeFacts(28281, 185504, 31241, 2),
            metric="auc",
            split_modes=("standard", *RANDOM_MODES),
            split_counts={"standard": 5},
            licence="MIT (graph); none stated (splits)",
            source="https://github.com/benedekrozemberczki/datasets",
            files=(_MAT, _SPLITS),
            sha256=_SHA256,
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files."""
        card = self.card
        urls = {_MAT: f"{_URL}/deezer-europe.mat", _SPLITS: f"{_URL}/splits/deezer-europe-splits.npy"}
        root = roots.require(card.name, card.files, urls, card.sha256)
        x, edge_index, y = read_sparse(root / _MAT)
        store = node_store(sparse_rows(x), edge_index, y)
        card.check(store, str(root / _MAT))
        splits = tuple(Splits.of(*parts) for parts in read_split_dicts(root / _SPLITS))
        return LoadedDataset(prepared(store, normalize_features=self.normalize_features), card, {"standard": splits})


def read_sparse(path: Path) -> tuple[sparse.csr_matrix, torch.Tensor, np.ndarray]:
    """Features (N, F) as float32 CSR, edges (2, E), classes (N,) from the arrays ``A``, ``features``, ``label``.

    Raises:
        UserError: the file has another format, or is damaged.
    """
    arrays = read_mat(path)
    try:
        source, target = arrays["A"].tocoo().coords
        x, y = sparse.csr_matrix(arrays["features"], dtype=np.float32), arrays["label"].reshape(-1).astype(np.int64)
    except (KeyError, AttributeError) as error:
        raise UserError(f"{path} does not hold the arrays A, features and label ({error}).") from error
    return x, coalesce(torch.from_numpy(np.stack([source, target]).astype(np.int64)), len(y)), y
