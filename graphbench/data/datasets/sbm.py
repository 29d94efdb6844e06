"""SBM-PATTERN and SBM-CLUSTER, generated at any size and seed, with the published parameters or others."""

from __future__ import annotations

from typing import Literal

import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.roots import Roots
from graphbench.data.generators import BlockModel, sbm_cluster, sbm_pattern
from graphbench.data.splits import Splits
from graphbench.errors import check_at_least, check_one_of, check_within
from graphbench.registry import FromContext, register

# communities, p, q, graphs per part of the published sets
_PUBLISHED = {
    "PATTERN": (5, 0.5, 0.35, (10_000, 2_000, 2_000)),
    "CLUSTER": (6, 0.55, 0.25, (10_000, 1_000, 1_000)),
}
_SIGNALS = 3


@register("SBM")
class SBM(DatasetBuilder):
    """Graphs drawn from stochastic block models.

    Paper: Benchmarking Graph Neural Networks, https://arxiv.org/abs/2003.00982.

    The recipe is the published one. The variant of Hybrid Focal and Full-Range Attention Based Graph Transformers
    (FFGT), appendix B, is ``q: 0.01, p: 0.16, pattern_p: 0.16, pattern_q: 0.05, pattern_size: 20``, p from 0.10 to
    0.16; its printed statistics are those of connected graphs only (``connected: true``), which its text does not say.

    Args:
        name: ``PATTERN`` (is the node part of the hidden pattern?) or ``CLUSTER`` (which community?).
        train_graphs: training graphs; None as published (10,000).
        val_graphs: validation graphs; None as published (2,000; CLUSTER 1,000).
        test_graphs: test graphs; None as published (2,000; CLUSTER 1,000).
        seed: seed of the data set; independent of the seed of the run, so that repeats see the same graphs.
        communities: communities per graph; None as published (5; CLUSTER 6).
        size_min: nodes of the smallest community.
        size_max: nodes of the largest community, included.
        p: edge probability inside a community; None as published (0.5; CLUSTER 0.55).
        q: edge probability between communities; None as published (0.35; CLUSTER 0.25).
        patterns: PATTERN only: number of hidden patterns.
        pattern_size: PATTERN only: nodes per pattern; None draws each from size_min .. size_max, as published.
        pattern_p: PATTERN only: edge probability inside a pattern.
        pattern_q: PATTERN only: probability of an edge between a pattern node and a base node.
        connected: PATTERN only: draw every graph again until it is connected.
        features: the signal as ``one_hot`` floats (as PyG ships these sets) or as one ``category`` column.
    """

    names = tuple(_PUBLISHED)
    published_files = False

    def __init__(
        self,
        name: FromContext[str],
        *,
        train_graphs: int | None = None,
        val_graphs: int | None = None,
        test_graphs: int | None = None,
        seed: int = 0,
        communities: int | None = None,
        size_min: int = 5,
        size_max: int = 34,
        p: float | None = None,
        q: float | None = None,
        patterns: int = 100,
        pattern_size: int | None = None,
        pattern_p: float = 0.5,
        pattern_q: float = 0.5,
        connected: bool = False,
        features: Literal["one_hot", "category"] = "one_hot",
    ) -> None:
        super().__init__(name)
        published_communities, published_p, published_q, counts = _PUBLISHED[name]
        chosen = (train_graphs, val_graphs, test_graphs)
        self.counts = tuple(
            published if given is None else given for given, published in zip(chosen, counts, strict=True)
        )
        if min(self.counts) < 1:
            raise ValueError(f"every part needs at least one graph, received {self.counts}")
        check_at_least(0, seed=seed)
        check_at_least(1, patterns=patterns, pattern_size=1 if pattern_size is None else pattern_size)
        check_within(0, 1, pattern_p=pattern_p, pattern_q=pattern_q)
        check_one_of(("one_hot", "category"), features=features)
        self.seed = seed
        self.base = BlockModel(
            published_communities if communities is None else communities,
            size_min,
            size_max,
            published_p if p is None else p,
            published_q if q is None else q,
        )
        self.patterns = patterns
        self.pattern_sizes = (size_min, size_max) if pattern_size is None else (pattern_size, pattern_size)
        self.pattern_p, self.pattern_q, self.connected = pattern_p, pattern_q, connected
        self.features = features

    @property
    def card(self) -> DatasetCard:
        """Declared facts; sizes of graphs are random and therefore not stated."""
        categories = self._categories
        return DatasetCard(
            name=f"SBM-{self.name}",
            task="node",
            task_type="classification",
            metric="accuracy-SBM",
            maximize=True,
            node_in=categories if self.features == "one_hot" else 1,
            edge_in=0,
            out_dim=1 if self.name == "PATTERN" else self.base.communities,
            vocabularies={} if self.features == "one_hot" else {"node": (categories,)},
            split_counts={"standard": 1},
            statistics={"graphs": sum(self.counts)},
            licence="generated here",
            source="https://arxiv.org/abs/2003.00982",
        )

    @property
    def _categories(self) -> int:
        return _SIGNALS if self.name == "PATTERN" else self.base.communities + 1

    def load(self, roots: Roots) -> LoadedDataset:
        """Generates the graphs; nothing is read or written."""
        if self.name == "PATTERN":
            store = sbm_pattern(
                self.counts,
                self.seed,
                base=self.base,
                patterns=self.patterns,
                pattern_sizes=self.pattern_sizes,
                pattern_p=self.pattern_p,
                pattern_q=self.pattern_q,
                categories=_SIGNALS,
                connected=self.connected,
            )
        else:
            store = sbm_cluster(self.counts, self.seed, base=self.base)
        if self.features == "one_hot":
            assert isinstance(store.x, torch.Tensor)
            store = store.replace(x=torch.eye(self._categories)[store.x[:, 0].to(torch.int64)])
        self.card.check(store)
        return LoadedDataset(store, self.card, {"standard": (Splits.consecutive(self.counts),)})
