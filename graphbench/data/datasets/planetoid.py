"""Cora, CiteSeer and PubMed: one citation graph each, from the raw files of the Planetoid release."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.files.download import file_sha256
from graphbench.data.files.planetoid import read_planetoid
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import RANDOM_MODES, node_store, prepared
from graphbench.data.splits import Published, SplitRequest, Splits, read_mask_files
from graphbench.errors import UserError
from graphbench.registry import FromContext, register

_URL = "https://github.com/kimiyoung/planetoid/raw/master/data"
_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
_GEOM_GCN_SPLITS = 10

# nodes, directed edges after removing duplicates and self loops, features, classes
_FACTS = {
    "Cora": (2708, 10556, 1433, 7),
    "CiteSeer": (3327, 9104, 3703, 6),
    "PubMed": (19717, 88648, 500, 3),
}
_SHA256 = {
    "Cora": {
        "x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
        "tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
        "allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
        "y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        "ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
        "ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
        "graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
        "test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    },
    "CiteSeer": {
        "x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        "tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        "allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        "y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        "ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        "ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        "graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        "test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    },
    "PubMed": {},
}


@register("PyG-Planetoid")
class Planetoid(DatasetBuilder):
    """Citation graphs with word occurrences as features.

    Paper: Revisiting Semi-Supervised Learning with Graph Embeddings, https://arxiv.org/abs/1603.08861.

    Splits: ``standard`` is the public one (20 per class, 500, 1,000); ``geom-gcn`` are ten of 48/32/20 % (Cora: of its
    largest component), where their files lie in ``Planetoid/<name>/geom-gcn/raw``; ``random-class`` is the protocol of
    the SGFormer release. The Exphormer release draws ``standard`` at random instead, see ``train_percent``.

    Args:
        name: ``Cora``, ``CiteSeer`` or ``PubMed``.
        normalize_features: divide every row of the features by its sum.
        train_percent: make ``standard`` a random split in which this fraction of every class trains and the rest is
            halved (the Exphormer release); none: the public split.
        add_reverse_edges: list every edge a second time (the Exphormer release does).
        add_self_loops: append a self loop for every node that has an edge.
    """

    names = tuple(_FACTS)
    offered_by: ClassVar = {"PyG": {name: name for name in _FACTS}}

    def __init__(
        self,
        name: FromContext[str],
        *,
        normalize_features: bool = False,
        train_percent: FromContext[float | None] = None,
        add_reverse_edges: FromContext[bool] = False,
        add_self_loops: FromContext[bool] = False,
    ) -> None:
        if train_percent is not None and not 0 < train_percent < 1:
            raise ValueError(f"train_percent must lie between 0 and 1, received {train_percent}")
        super().__init__(name)
        self.normalize_features = normalize_features
        self.train_percent = train_percent
        self.add_reverse_edges, self.add_self_loops = add_reverse_edges, add_self_loops

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        nodes, edges, features, classes = _FACTS[self.name]
        return DatasetCard(
            name=self.name,
            task="node",
            task_type="classification",
            metric="accuracy",
            maximize=True,
            node_in=features,
            edge_in=0,
            out_dim=classes,
            transductive=True,
            split_modes=("standard", "geom-gcn", *RANDOM_MODES),
            split_counts={"geom-gcn": _GEOM_GCN_SPLITS, **({} if self.train_percent else {"standard": 1})},
            statistics={"graphs": 1, "nodes": nodes, "edges": edges},
            licence="MIT (repository)",
            source="https://github.com/kimiyoung/planetoid",
            files=tuple(self._file(part) for part in _PARTS),
            split_files={
                "geom-gcn": tuple(
                    f"Planetoid/{self.name}/geom-gcn/raw/{self.name.lower()}_split_0.6_0.2_{number}.npz"
                    for number in range(_GEOM_GCN_SPLITS)
                )
            },
            sha256={self._file(part): value for part, value in _SHA256[self.name].items()},
        )

    def _file(self, part: str) -> str:
        return f"Planetoid/{self.name}/raw/ind.{self.name.lower()}.{part}"

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files and the splits."""
        card = self.card
        urls = {self._file(part): f"{_URL}/ind.{self.name.lower()}.{part}" for part in _PARTS}
        root = roots.require(self.name, card.files, urls, card.sha256)
        for file, expected in card.sha256.items():  # before reading: these files are pickles, which can hold code
            if file_sha256(root / file) != expected:
                raise UserError(
                    f"{root / file} is damaged or of another version (its sha256 is not {expected[:16]}...): delete it "
                    "and let it be downloaded again."
                )
        folder = root / f"Planetoid/{self.name}/raw"
        graph = read_planetoid(folder, self.name.lower())
        store = node_store(graph.x, graph.edge_index, graph.y)
        card.check(store, str(folder))
        store = prepared(
            store,
            normalize_features=self.normalize_features,
            add_reverse_edges=self.add_reverse_edges,
            add_self_loops=self.add_self_loops,
        )
        public = (Splits(*graph.split),)
        drawn = None if self.train_percent is None else partial(drawn_per_class, fraction=self.train_percent)
        published: dict[str, Published] = {"standard": drawn or public}
        geom_gcn = self._geom_gcn(roots)
        return LoadedDataset(store, card, published | ({"geom-gcn": geom_gcn} if geom_gcn else {}))

    def _geom_gcn(self, roots: Roots) -> tuple[Splits, ...]:
        files = self.card.split_files["geom-gcn"]
        root = roots.find(*files)
        if root is None:
            return ()
        return read_mask_files([root / file for file in files])


def drawn_per_class(request: SplitRequest, *, fraction: float) -> Splits:
    """The random split of the Exphormer release: with the same seed, the very nodes it draws.

    Args:
        request: request with the labels.
        fraction: share of every class that trains, rounded down; the rest, shuffled, is halved.
    """
    assert request.labels is not None
    generator = torch.Generator().manual_seed(request.seed)
    train = []
    for label in range(int(request.labels.max()) + 1):
        members = (request.labels == label).nonzero().view(-1)
        train.append(members[torch.randperm(members.numel(), generator=generator)][: int(members.numel() * fraction)])
    held = torch.ones(request.num_examples, dtype=torch.bool)
    held[torch.cat(train)] = False
    rest = held.nonzero().view(-1)
    rest = rest[torch.randperm(rest.numel(), generator=generator)]
    return Splits.of(torch.cat(train), rest[: rest.numel() // 2], rest[rest.numel() // 2 :])
