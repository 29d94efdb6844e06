"""Small graphs whose pairs of equal colour are 'in contact', inductive and transductive.

``link_graphs_plugin.py`` registers them for configurations that list it under ``plugins``.
"""

from __future__ import annotations

from itertools import pairwise

import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.roots import Roots
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore, StoredEdges
from graphbench.registry import FromContext

COLOURS = 4
GRAPHS = 24


def _graphs(sizes: list[int], generator: torch.Generator) -> dict:
    rings = [torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]) for n in sizes]
    edges = [torch.cat([ring, ring.flip(0)], dim=1) for ring in rings]
    colour = torch.randint(0, COLOURS, (sum(sizes),), generator=generator)
    return {"edges": edges, "colour": colour, "x": torch.nn.functional.one_hot(colour, COLOURS).float()}


def _contacts(colour: torch.Tensor) -> torch.Tensor:
    """All ordered pairs of different nodes of one colour."""
    return ((colour[:, None] == colour) & ~torch.eye(len(colour), dtype=torch.bool)).nonzero().T


class Contacts(DatasetBuilder):
    """Many graphs; states the true pairs only, as PCQM-Contact does."""

    def __init__(self, name: FromContext[str]) -> None:
        self.name = name

    @property
    def card(self) -> DatasetCard:
        return DatasetCard(
            name="contacts",
            task="graph",
            task_type="classification_binary",
            metric="mrr",
            maximize=True,
            node_in=COLOURS,
            edge_in=0,
            out_dim=1,
            split_modes=("standard", "random", "cv-kfold-K"),
        )

    def load(self, roots: Roots) -> LoadedDataset:
        sizes = [6 + g % 7 for g in range(GRAPHS)]
        made = _graphs(sizes, torch.Generator().manual_seed(1))
        pairs = [_contacts(colour) for colour in made["colour"].split(sizes)]
        counts = torch.tensor([0, *(each.shape[1] for each in pairs)])
        store = GraphStore.from_arrays(
            sizes, [each.shape[1] for each in made["edges"]], torch.cat(made["edges"], 1), x=made["x"]
        ).replace(
            y=torch.ones(int(counts.sum())),
            y_level="pair",
            edge_sets={"label": StoredEdges(counts.cumsum(0), torch.cat(pairs, 1))},
        )
        parts = [range(a, b) for a, b in pairwise((0, 16, 20, GRAPHS))]
        return LoadedDataset(store, self.card, {"standard": (Splits.of(*parts),)})


class OneContactGraph(DatasetBuilder):
    """One graph of 40 nodes; its pairs, true and false ones, are the examples; true ones of training are its edges."""

    def __init__(self, name: FromContext[str]) -> None:
        self.name = name

    @property
    def card(self) -> DatasetCard:
        return DatasetCard(
            name="one-contact-graph",
            task="link_pred",
            task_type="classification_binary",
            metric="auc",
            maximize=True,
            node_in=COLOURS,
            edge_in=0,
            out_dim=1,
            transductive=True,
            split_modes=("random",),
        )

    def load(self, roots: Roots) -> LoadedDataset:
        colour = torch.randint(0, COLOURS, (40,), generator=torch.Generator().manual_seed(2))
        first, second = torch.triu_indices(40, 40, 1)
        true = colour[first] == colour[second]
        edges = torch.stack([first, second])[:, true]
        both = torch.cat([edges, edges.flip(0)], dim=1)
        noisy = torch.nn.functional.one_hot(colour, COLOURS) + 0.1 * torch.randn(40, COLOURS)
        store = GraphStore.from_arrays([40], [both.shape[1]], both, x=noisy).replace(
            y=true.long(),
            y_level="pair",
            edge_sets={"label": StoredEdges(torch.tensor([0, len(true)]), torch.stack([first, second]))},
        )
        return LoadedDataset(store, self.card)
