"""dataset.format ``OGB``: everything that OGB distributes or that is built on its molecules, by name."""

from __future__ import annotations

from typing import Any, Literal

from graphbench import registry
from graphbench.data.builder import DatasetBuilder, LoadedDataset, known_name
from graphbench.data.card import DatasetCard
from graphbench.data.datasets import ogb_graphs, ogb_link, ogb_node, ogb_papers, pcqm4m, pcqm_contact, peptides
from graphbench.data.files.roots import Roots

_DATASETS: dict[str, Any] = {
    **ogb_graphs.DATASETS,
    **peptides.DATASETS,
    **pcqm4m.DATASETS,
    **pcqm_contact.DATASETS,
    **ogb_node.DATASETS,
    **ogb_papers.DATASETS,
    **ogb_link.DATASETS,
}


@registry.register("OGB")
class OGB:
    """One format for many data sets, as in GraphGPS; each has a class of its own, which takes what it knows.

    Args:
        name: e.g. ``ogbg-molhiv``, ``peptides-functional``, ``PCQM4Mv2-subset``, ``ogbn-arxiv``; ``ogbg_molhiv`` is
            understood, too.
        undirected: ogbn-arxiv, ogbn-papers100M: add the missing reverse edges.
        add_reverse_edges: ogbn-arxiv: instead of that, append the reverse of every citation.
        add_self_loops: ogbn-arxiv: append self loops.
        node_features: ogbn-proteins: ``species`` or ``edge_mean``.
    """

    def __init__(
        self,
        name: str,
        *,
        undirected: bool = True,
        add_reverse_edges: bool = False,
        add_self_loops: bool = False,
        node_features: Literal["species", "edge_mean"] = "species",
    ) -> None:
        official = name.replace("_", "-") if name.startswith("ogb") else name
        options = {
            "name": known_name("OGB", official, _DATASETS),
            "undirected": undirected,
            "add_reverse_edges": add_reverse_edges,
            "add_self_loops": add_self_loops,
            "node_features": node_features,
        }
        self._dataset: DatasetBuilder = registry.construct(_DATASETS[official], {}, options)

    @property
    def card(self) -> DatasetCard | None:
        """Declared facts."""
        return self._dataset.card

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache.

        Raises:
            UserError: files are missing, or are not what was published.
        """
        return self._dataset.load(roots)
