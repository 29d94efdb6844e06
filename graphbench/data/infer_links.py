"""Synthetic link prediction: the edges of any data set's graphs (``dataset.infer_link_label: edge``)."""

from __future__ import annotations

import dataclasses

import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.roots import Roots
from graphbench.data.store import GraphStore
from graphbench.data.stored_pairs import StoredEdges
from graphbench.errors import UserError


class InferLinks(DatasetBuilder):
    """Another data set whose targets are replaced: which pairs of nodes are edges?

    Args:
        graphs: the other data set.
    """

    def __init__(self, graphs: DatasetBuilder) -> None:
        self._graphs = graphs

    @property
    def card(self) -> DatasetCard | None:
        """The card of the other data set, for link prediction."""
        card = self._graphs.card
        return None if card is None else infer_links_card(card)

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the graphs and draws the pairs."""
        return infer_links(self._graphs.load(roots))


def infer_links_card(card: DatasetCard) -> DatasetCard:
    """The card of the link prediction task on a data set's graphs: two classes of pairs, no edge features."""
    return card.replace(
        task="graph",
        task_type="classification_multi",
        metric="accuracy",
        maximize=True,
        out_dim=2,
        edge_in=0,
        vocabularies={level: sizes for level, sizes in card.vocabularies.items() if level != "edge"},
    )


def infer_links(loaded: LoadedDataset) -> LoadedDataset:
    """Targets for every edge of every graph and as many other pairs (self pairs among them), in a fixed random order.

    Args:
        loaded: graphs with at most half of all pairs linked.

    Raises:
        UserError: a graph has more edges than other pairs, so that classes could not be balanced.
    """
    store = loaded.store
    generator = torch.Generator().manual_seed(0)
    index, label, counts = [], [], []
    for graph in range(store.num_graphs):
        nodes = int(store.sizes[graph])
        edges = store.edge_index[:, int(store.edge_ptr[graph]) : int(store.edge_ptr[graph + 1])].long()
        linked = torch.zeros(nodes * nodes, dtype=torch.bool)
        linked[edges[0] * nodes + edges[1]] = True
        present, absent = linked.nonzero().view(-1), (~linked).nonzero().view(-1)
        if len(absent) < len(present):
            raise UserError(
                f"dataset.infer_link_label: graph {graph} has {len(present)} linked pairs and {len(absent)} others; "
                "the task needs as many others as linked ones."
            )
        absent = absent[torch.randperm(len(absent), generator=generator)[: len(present)]]
        pair = torch.cat([present, absent])
        pair = pair[torch.randperm(len(pair), generator=generator)]
        index.append(torch.stack([pair // max(nodes, 1), pair % max(nodes, 1)]).to(torch.int32))
        label.append(linked[pair].long())
        counts.append(len(pair))
    ptr = torch.tensor([0, *counts]).cumsum(0)
    pairs = StoredEdges(ptr, torch.cat([torch.empty(2, 0, dtype=torch.int32), *index], dim=1))
    asking = GraphStore(
        store.node_ptr,
        store.edge_ptr,
        store.edge_index,
        x=store.x,
        y=torch.cat([torch.empty(0, dtype=torch.int64), *label]),
        y_level="pair",
        edge_sets={"label": pairs},
    )
    return dataclasses.replace(loaded, store=asking, card=infer_links_card(loaded.card))
