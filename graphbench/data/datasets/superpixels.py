"""PascalVOC-SP and COCO-SP: images as graphs of superpixels, one class per superpixel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.raw_files import read_pickle
from graphbench.data.files.roots import Roots
from graphbench.data.graph_records import GraphRecord
from graphbench.data.splits import PARTS, Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError, check_one_of
from graphbench.registry import FromContext, register

EDGES = {"edge_wt_only_coord": 1, "edge_wt_coord_feat": 1, "edge_wt_region_boundary": 2}
"""The three graphs made of one image (dataset.name), and the columns of their edge features."""

_COMPACTNESS = (10, 30)
_NODE_IN = 14
_PUBLISHED = ("edge_wt_region_boundary", 30)


class _Superpixels(DatasetBuilder):
    """Images as graphs of superpixels. Paper: Long Range Graph Benchmark, https://arxiv.org/abs/2206.08164.

    Nodes have 14 numbers (colour statistics and position), edges 1 or 2.

    Args:
        name: how superpixels are connected: ``edge_wt_region_boundary`` (neighbours in the image; the published
            benchmark), ``edge_wt_only_coord`` or ``edge_wt_coord_feat`` (8 nearest).
        slic_compactness: compactness of the segmentation: 10 or 30 (the published benchmark).
    """

    names = tuple(EDGES)
    title: ClassVar[str]
    folder: ClassVar[str]
    archive: ClassVar[str]
    keys: ClassVar[Mapping[tuple[int, str], str]]
    classes: ClassVar[int]
    graphs: ClassVar[int]
    averages: ClassVar[Mapping[str, float]]
    licence: ClassVar[str]

    def __init__(self, name: FromContext[str], slic_compactness: FromContext[int] = 10) -> None:
        super().__init__(name)
        check_one_of(_COMPACTNESS, slic_compactness=slic_compactness)
        self.compactness = slic_compactness

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        published = (self.name, self.compactness) == _PUBLISHED
        return DatasetCard(
            name=self.title if published else f"{self.title}-{self.name}-{self.compactness}",
            task="node",
            task_type="classification",
            metric="f1",
            maximize=True,
            node_in=_NODE_IN,
            edge_in=EDGES[self.name],
            out_dim=self.classes,
            split_counts={"standard": 1},
            statistics={"graphs": self.graphs, **(self.averages if published else {})},
            licence=self.licence,
            source="https://github.com/vijaydwivedi75/lrgb",
            files=tuple(f"{self._folder}/{part}.pickle" for part in PARTS),
        )

    @property
    def _folder(self) -> str:
        return f"{self.folder}/slic_compactness_{self.compactness}/{self.name}/raw"

    @property
    def _url(self) -> str:
        key = self.keys[self.compactness, self.name]
        return f"https://www.dropbox.com/s/{key}/{self.archive}_{self.name}.zip?dl=1"

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache."""
        card = self.card
        root = roots.require(card.name, card.files, dict.fromkeys(card.files, self._url), fetch=self._fetch)
        files = [root / file for file in card.files]
        store, splits = cached_graphs(roots, self.folder, card.name, files, lambda: self._read(files))
        card.check(store, str(root / self._folder))
        return LoadedDataset(store, card, {"standard": (splits,)})

    def _fetch(self, directory: Path) -> None:
        download_archive(self._url, directory / self._folder, strip=1)

    def _read(self, files: list[Path]) -> tuple[GraphStore, Splits]:
        parts = [[self._graph(*graph) for graph in read_pickle(file)] for file in files]
        store = GraphStore.from_graphs([graph for part in parts for graph in part], "node")
        assert store.y is not None
        return store.replace(y=self._targets(store.y)), Splits.consecutive([len(part) for part in parts])

    def _graph(self, x: Tensor, edge_attr: Tensor, edge_index: Tensor, y: Any) -> GraphRecord:
        return GraphRecord(
            edge_index=edge_index,
            x=x.to(torch.float32),
            edge_attr=edge_attr.to(torch.float32).view(edge_index.shape[1], -1),
            y=torch.as_tensor(y).to(torch.int64).view(-1),
        )

    def _targets(self, y: Tensor) -> Tensor:
        return y


@register("PyG-VOCSuperpixels")
class VOCSuperpixels(_Superpixels):
    """Superpixels of PascalVOC. Paper: Long Range Graph Benchmark, https://arxiv.org/abs/2206.08164.

    Splits: ``standard``, 8,498/1,428/1,429.
    """

    title = "PascalVOC-SP"
    folder = "VOCSuperpixels"
    archive = "voc_superpixels"
    keys: ClassVar = {
        (10, "edge_wt_only_coord"): "rk6pfnuh7tq3t37",
        (10, "edge_wt_coord_feat"): "2a53nmfp6llqg8y",
        (10, "edge_wt_region_boundary"): "6pfz2mccfbkj7r3",
        (30, "edge_wt_only_coord"): "toqulkdpb1jrswk",
        (30, "edge_wt_coord_feat"): "xywki8ysj63584d",
        (30, "edge_wt_region_boundary"): "8x722ai272wqwl4",
    }
    classes = 21
    graphs = 11_355
    averages: ClassVar = {"nodes_per_graph": 479.40, "edges_per_graph": 2_710.48}
    licence = "images: Flickr terms of use; graphs: custom (LRGB release)"


# Categories of COCO 2017 that occur, 0 being the background; the class is the position in this list.
_COCO_ABSENT = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83}
COCO_CATEGORIES = tuple(number for number in range(91) if number not in _COCO_ABSENT)


@register("PyG-COCOSuperpixels")
class COCOSuperpixels(_Superpixels):
    """Superpixels of COCO. Paper: Long Range Graph Benchmark, https://arxiv.org/abs/2206.08164.

    The 81 categories that occur are numbered without gaps. Splits: ``standard``, 113,286/5,000/5,000.
    """

    title = "COCO-SP"
    folder = "COCOSuperpixels"
    archive = "coco_superpixels"
    keys: ClassVar = {
        (10, "edge_wt_only_coord"): "prqizdep8gk0ndk",
        (10, "edge_wt_coord_feat"): "zftoyln1pkcshcg",
        (10, "edge_wt_region_boundary"): "fhihfcyx2y978u8",
        (30, "edge_wt_only_coord"): "hrbfkxmc5z9lsaz",
        (30, "edge_wt_coord_feat"): "4rfa2d5ij1gfu9b",
        (30, "edge_wt_region_boundary"): "r6ihg1f4pmyjjy0",
    }
    classes = 81
    graphs = 123_286
    averages: ClassVar = {"nodes_per_graph": 476.88, "edges_per_graph": 2_693.67}
    licence = "CC BY 4.0 (annotations)"

    def _targets(self, y: Tensor) -> Tensor:
        number = torch.full((max(COCO_CATEGORIES) + 1,), -1)
        number[torch.tensor(COCO_CATEGORIES)] = torch.arange(len(COCO_CATEGORIES))
        wrong = y[(y < 0) | (y >= len(number))] if y.numel() else y
        classes = number[y] if not wrong.numel() else y.new_full((1,), -1)
        if bool((classes < 0).any()):
            raise UserError(f"{self.folder}: a superpixel has a category that COCO-SP does not have; damaged files?")
        return classes
