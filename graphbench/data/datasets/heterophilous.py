"""The heterophilous node classification benchmark, and the reader of its ``.npz`` form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.edge_lists import coalesce, to_undirected
from graphbench.data.files.raw_files import read_npz, reading
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts, node_card, node_store, prepared
from graphbench.data.splits import PARTS, Splits
from graphbench.data.store import GraphStore
from graphbench.registry import FromContext, register

_URL = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data"

# The paper counts every edge once; here both directions are counted.
_FACTS = {
    "roman-empire": NodeFacts(22662, 2 * 32927, 300, 18),
    "amazon-ratings": NodeFacts(24492, 2 * 93050, 300, 5),
    "minesweeper": NodeFacts(10000, 2 * 39402, 7, 2),
    "tolokers": NodeFacts(11758, 2 * 519000, 10, 2),
    "questions": NodeFacts(48921, 2 * 153540, 301, 2),
}
_SHA256 = {"tolokers": "dacf3ac94cec53d03cd2adb5255c08b33dee1656c33ca8164a464bd9450a1667"}


@register("PyG-HeterophilousGraphDataset")
class HeterophilousGraph(DatasetBuilder):
    """Graphs whose neighbours often belong to other classes.

    Paper: A critical look at the evaluation of GNNs under heterophily, https://arxiv.org/abs/2302.11640.

    Ten published splits of 50/25/25 %. Two-class graphs are reported as area under the ROC curve, as in the paper.

    Args:
        name: ``roman-empire``, ``amazon-ratings``, ``minesweeper``, ``tolokers`` or ``questions``.
        normalize_features: divide every row of the features by its sum.
    """

    names = tuple(_FACTS)

    def __init__(self, name: FromContext[str], *, normalize_features: bool = False) -> None:
        super().__init__(name.lower().replace("_", "-"))
        self.normalize_features = normalize_features

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        facts, stem = _FACTS[self.name], self.name.replace("-", "_")
        file = f"HeterophilousGraphDataset/{stem}/raw/{stem}.npz"
        return node_card(
            self.name.capitalize(),
            facts,
            metric="auc" if facts.classes == 2 else "accuracy",
            split_counts={"standard": 10},
            licence="MIT",
            source="https://github.com/yandex-research/heterophilous-graphs",
            files=(file,),
            sha256={file: _SHA256[self.name]} if self.name in _SHA256 else {},
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw file and the splits in it."""
        card = self.card
        (file,) = card.files
        root = roots.require(card.name, card.files, {file: f"{_URL}/{Path(file).name}"}, card.sha256)
        store, splits = read_masked_npz(root / file)
        card.check(store, str(root / file))
        return LoadedDataset(prepared(store, normalize_features=self.normalize_features), card, {"standard": splits})


def read_masked_npz(path: Path, *, undirected: bool = True) -> tuple[GraphStore, tuple[Splits, ...]]:
    """A graph and its splits from the arrays ``node_features, node_labels, edges, {train,val,test}_masks``.

    Args:
        path: the ``.npz`` file; ``edges`` are (E, 2), masks (splits, nodes).
        undirected: add the reverse of every edge, as PyG does.

    Raises:
        UserError: the file has another format, or is damaged.
    """
    x, y, edges, *masks = read_npz(path, "node_features", "node_labels", "edges", *(f"{part}_masks" for part in PARTS))
    listed = torch.from_numpy(edges.T.astype(np.int64))
    with reading(path):
        edge_index = (to_undirected if undirected else coalesce)(listed, len(x))
        store = node_store(x.astype(np.float32), edge_index, y.astype(np.int64))
        return store, tuple(Splits.from_masks(*of_parts) for of_parts in zip(*masks, strict=True))
