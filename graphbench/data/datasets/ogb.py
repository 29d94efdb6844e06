"""``dataset.format: OGB``: everything that OGB distributes or that is built on its molecules, by name."""

from __future__ import annotations

from typing import Literal

from graphbench.data.builder import DatasetCollection
from graphbench.errors import UserError
from graphbench.registry import FromContext, register

_KNOWLEDGE_GRAPHS = ("ogbl-wikikg2", "ogbl-biokg")


@register("OGB")
class OGB(DatasetCollection):
    """Graphs of the Open Graph Benchmark. The builder of a data set takes the arguments that it has.

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
        name: FromContext[str],
        *,
        undirected: bool = True,
        add_reverse_edges: FromContext[bool] = False,
        add_self_loops: FromContext[bool] = False,
        node_features: Literal["species", "edge_mean"] = "species",
    ) -> None:
        if name.replace("_", "-") in _KNOWLEDGE_GRAPHS:
            raise UserError(
                f"OGB data set '{name}': completing triples of a knowledge graph (head, relation, tail) is no task "
                "here; its models score relations, not pairs of nodes."
            )
        super().__init__(
            name.replace("_", "-") if name.startswith("ogb") else name,
            undirected=undirected,
            add_reverse_edges=add_reverse_edges,
            add_self_loops=add_self_loops,
            node_features=node_features,
        )
