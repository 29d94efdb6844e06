"""Generated graphs with the statistics of published large ones, for machines without those files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.datasets.linkx import LINKX
from graphbench.data.datasets.ogb_node import OGBNode, amazon2m_split
from graphbench.data.datasets.ogb_papers import OGBPapers
from graphbench.data.files.roots import Roots
from graphbench.data.large.arrays import create
from graphbench.data.large.cache import cached_large_graph
from graphbench.data.large.generator import power_law
from graphbench.data.large.reverse_edges import write_undirected
from graphbench.data.splits import Splits
from graphbench.errors import check_at_least
from graphbench.registry import FromContext, register

_GROUPS = 16
"""Groups of the nodes of a graph with many labels per node; the nodes of a group have the same labels."""

_SPLIT, _LABELS = 100, 101
"""Random streams, next to those of :func:`~graphbench.data.large.generator.power_law`."""


class _Shape(NamedTuple):
    """Statistics of a published graph besides those of its card.

    Attributes:
        original: the card of the published graph.
        pairs: number of pairs of neighbours, each counted once.
        parts: nodes in training, validation and test in the published split; all others have no label.
        homophily: fraction of the pairs that are of one class.
        exponent: exponent of the power law of the degrees.
        noise: noise of the features, see :class:`GeneratedLike`.
    """

    original: DatasetCard
    pairs: int
    parts: tuple[int, int, int]
    homophily: float
    exponent: float
    noise: float


_SHAPES = {
    "ogbn-arxiv": lambda: _Shape(OGBNode("ogbn-arxiv").card, 1166243, (90941, 29799, 48603), 0.66, 2.75, 4.87),
    "ogbn-products": lambda: _Shape(OGBNode("ogbn-products").card, 61859140, (196615, 39323, 2213091), 0.81, 3.5, 3.80),
    "ogbn-proteins": lambda: _Shape(
        OGBNode("ogbn-proteins", node_features="edge_mean").card, 39561252, (86619, 21236, 24679), 0.2, 5.6, 2.03
    ),
    "pokec": lambda: _Shape(LINKX("pokec").card, 22301964, (816401, 408201, 408201), 0.445, 3.3, 20.9),
    "ogbn-papers100M": lambda: _Shape(OGBPapers().card, 1615685872, (1207179, 125265, 214338), 0.6, 3.05, 4.27),
}


@register("GeneratedLike")
class GeneratedLike(DatasetBuilder):
    """A power-law graph with the features, classes, split and degrees of a published graph, of any size.

    Published, in the cards of the originals and in the papers named here, and kept: mean degree, columns, classes,
    task, metric, ratios of the split (Open Graph Benchmark, https://arxiv.org/abs/2005.00687; 22,301,964 pairs of
    friends in pokec, https://snap.stanford.edu/data/soc-Pokec.html); the fraction of neighbours of the same class of
    arxiv (0.66) and products (0.81; https://arxiv.org/abs/2209.06177, "edge homophily") and pokec (0.445,
    https://arxiv.org/abs/2110.14446). Features are a random centre per class plus noise, as much of it as leaves the
    best classifier that sees features alone the accuracy that an MLP has on the original (SGFormer,
    https://arxiv.org/abs/2306.10759, Table 3).

    Our choices: exponents of the degrees (2.75 arxiv, 3.5 products, 5.6 proteins, 3.3 pokec, 3.05 papers100M), the
    homophily of papers100M (0.6) and proteins (0.2), whose nodes belong to 16 groups; each of the 112 labels belongs to
    a random half of the groups.

    Different from the originals: classes are equally large, neighbours beyond their classes are independent (no
    triangles but by chance), and all splits are random, by time, sales or species none. A pair may be drawn more than
    once and is kept once: one edge in a hundred is lost at 100,000 nodes, up to one in five at 5,000.

    Generated once, in memory that does not grow with the edges, into files in the cache that are mapped.

    Args:
        name: ``ogbn-arxiv``, ``ogbn-products`` (Amazon2M with ``dataset.split_mode: amazon2m``), ``ogbn-proteins``,
            ``pokec`` or ``ogbn-papers100M``.
        scale: nodes, as a fraction of those of the original.
        degree: mean number of neighbours; None: that of the original.
        seed: seed of the data set; independent of the seed of the run, so that repeats see the same graph.
    """

    names = tuple(_SHAPES)
    published_files = False

    def __init__(
        self, name: FromContext[str], *, scale: float = 1.0, degree: float | None = None, seed: int = 0
    ) -> None:
        super().__init__(name)
        self._shape = _SHAPES[self.name]()
        original = self._shape.original
        if not 0 < scale <= 1:
            raise ValueError(f"scale must lie above 0 and be at most 1, received {scale}")
        check_at_least(0, seed=seed)
        full = int(original.statistics["nodes"])
        self.nodes = round(scale * full)
        self.classes = _GROUPS if self._labels else max(original.out_dim, 2)
        if self.nodes < 2 * self.classes or min(self._parts()) < 1:
            raise ValueError(
                f"scale {scale} leaves {self.nodes} of {full} nodes; needed are two per class ({self.classes} classes) "
                "and one in every part of the split"
            )
        self.degree = 2 * self._shape.pairs / full if degree is None else degree
        if not 0 <= self.degree < self.nodes:
            raise ValueError(f"degree must lie in 0 .. {self.nodes - 1} (N - 1), received {self.degree:g}")
        self.seed = seed

    @property
    def _labels(self) -> int:
        """Labels per node, 0 for one class."""
        original = self._shape.original
        return original.out_dim if original.task_type == "classification_multilabel" else 0

    def _parts(self) -> list[int]:
        """Nodes per part; all of them, where the original has a label for all."""
        ends = np.cumsum((0, *self._shape.parts)) * self.nodes / self._shape.original.statistics["nodes"]
        return [int(size) for size in np.diff(np.rint(ends).astype(int))]

    @property
    def card(self) -> DatasetCard:
        """Card of the original without its counts: the number of edges is random."""
        return self._shape.original.replace(
            name=f"{self._shape.original.name}-like-{self.nodes}",
            edge_in=0,
            split_counts={"standard": 1},
            statistics={"graphs": 1, "nodes": self.nodes},
            licence="generated, none needed",
            files=(),
            sha256={},
        )

    def load(self, roots: Roots) -> LoadedDataset:
        """Generates the graph, or opens what a former run left in the cache."""
        card, shape = self.card, self._shape
        settings: dict[str, Any] = {
            "columns": card.node_in,
            "classes": self.classes,
            "labels": self._labels,
            "nodes": self.nodes,
            "degree": self.degree,
            "seed": self.seed,
            "parts": self._parts(),
            "homophily": shape.homophily,
            "exponent": shape.exponent,
            "noise": shape.noise,
        }
        store, split = cached_large_graph(roots, "GeneratedLike", card.name, (), self._write, **settings)
        card.check(store)
        return LoadedDataset(store, card, {"standard": (split,), "amazon2m": amazon2m_split})

    def _write(self, folder: Path) -> Splits:
        shape, drawn = self._shape, folder / "drawn"
        store = power_law(
            drawn,
            self.nodes,
            2 * round(self.degree * self.nodes / 2),
            self.seed,
            columns=shape.original.node_in,
            classes=self.classes,
            exponent=shape.exponent,
            homophily=moved_fraction(shape.homophily, self.classes),
            noise=shape.noise,
            dtype=np.float32,
        )
        write_undirected(store.edge_index[:, ::2], self.nodes, folder / "edge_index.npy")
        group = np.load(drawn / "y.npy", mmap_mode="r")
        order = np.random.default_rng([self.seed, _SPLIT]).permutation(self.nodes)
        split = Splits.of(*np.split(order, np.cumsum(self._parts()))[:3])
        if self._labels:
            self._write_labels(folder, group)
        else:
            known = torch.cat(list(split.parts().values())).numpy()
            y = create(folder / "y.npy", (self.nodes,), np.int16)
            y[:] = -1
            y[known] = group[known]
            y.flush()
        del store, group
        shutil.move(drawn / "x.npy", folder / "x.npy")
        shutil.rmtree(drawn)
        return split

    def _write_labels(self, folder: Path, group: np.ndarray) -> None:
        has = np.random.default_rng([self.seed, _LABELS]).random((self._labels, self.classes)).argsort(1)
        y = create(folder / "y.npy", (self.nodes, self._labels), np.float32)
        y[:] = (has < self.classes // 2).T[group]
        y.flush()


def moved_fraction(homophily: float, classes: int) -> float:
    """The argument of :func:`~graphbench.data.large.generator.power_law` that leads to an edge homophily."""
    chance = 1 / classes
    return (homophily - chance) / (1 - chance) if homophily >= chance else homophily / chance - 1
