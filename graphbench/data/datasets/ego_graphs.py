"""The nodes of a large graph as graphs: sampled neighbourhoods, for models that attend to all pairs of a graph."""

from __future__ import annotations

from graphbench import registry
from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.roots import Roots
from graphbench.data.large.ego_graphs import ego_graphs
from graphbench.errors import check_at_least
from graphbench.registry import register

_SOURCES = {
    "Flickr": ("PyG-Flickr", "none"),
    "ogbn-arxiv": ("OGB", "ogbn-arxiv"),
    "Reddit": ("PyG-Reddit", "none"),
    "Yelp": ("PyG-Yelp", "none"),
}
"""Name here -> ``dataset.format`` and ``dataset.name`` of the graph."""


@register("EgoGraphs")
class EgoGraphs(DatasetBuilder):
    """Ego graphs of the nodes of one graph, sampled once; classes and split are those of the nodes.

    Paper: Decoupling the Depth and Scope of Graph Neural Networks (ShaDow), https://arxiv.org/abs/2012.01380; in
    a survey of graph transformers, https://arxiv.org/abs/2202.08455.

    Args:
        name: ``Flickr``, ``ogbn-arxiv``, ``Reddit`` or ``Yelp``.
        depth: hops around a node.
        neighbors: neighbours drawn per node and hop.
        seed: seed of the draws.

    Differences from the survey's program: neighbourhoods are drawn once, not anew whenever a node is visited. Features
    of all graphs lie in memory: about 8 GiB for Flickr, 4 GiB for ogbn-arxiv; with 5 neighbours at most 17 GiB for
    Reddit and 26 GiB for Yelp.
    """

    names = tuple(_SOURCES)

    def __init__(self, name: registry.FromContext[str], *, depth: int = 2, neighbors: int = 10, seed: int = 0) -> None:
        check_at_least(1, depth=depth, neighbors=neighbors)
        super().__init__(name)
        source, own_name = _SOURCES[self.name]
        builder = registry.lookup(registry.DATASETS, source)
        self.source: DatasetBuilder = builder(own_name)
        self.depth, self.neighbors, self.seed = depth, neighbors, seed

    @property
    def card(self) -> DatasetCard:
        """The card of the graph, for one graph per node."""
        card = self.source.card
        assert card is not None
        statistics = {"graphs": card.statistics["nodes"]}
        return card.replace(task="graph", transductive=False, split_modes=("standard",), statistics=statistics)

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the graph and draws a neighbourhood of every node."""
        loaded = self.source.load(roots)
        store = ego_graphs(loaded.store, depth=self.depth, neighbors=self.neighbors, seed=self.seed)
        self.card.check(store)
        return LoadedDataset(store, self.card, {"standard": loaded.published["standard"]})
