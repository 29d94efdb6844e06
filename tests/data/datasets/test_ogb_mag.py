"""ogbn-mag in miniature: kinds, relations in both directions, targets and split of papers only."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.data.datasets import ogb_mag
from graphbench.data.datasets.ogb import OGB
from graphbench.data.datasets.ogb_mag import OGBMag
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import NodeFacts
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.errors import UserError
from tests.dataset_case import TrainingCase
from tests.raw_files import rng, write_table

COUNTS = {"author": 5, "field_of_study": 2, "institution": 2, "paper": 12}
RELATIONS = {
    "author___affiliated_with___institution": [(0, 0), (4, 1)],
    "author___writes___paper": [(author % 5, author) for author in range(12)],
    "paper___cites___paper": [(1, 0), (2, 1), (11, 3)],
    "paper___has_topic___field_of_study": [(paper, paper % 2) for paper in range(12)],
}
X = rng().standard_normal((12, 128)).round(3)


def write_files(root: Path) -> None:
    raw = root / "ogb/ogbn_mag/raw"
    raw.mkdir(parents=True)
    with gzip.open(raw / "num-node-dict.csv.gz", "wt") as file:
        file.write(f"{','.join(COUNTS)}\n{','.join(map(str, COUNTS.values()))}\n")
    write_table(raw / "node-feat/paper/node-feat.csv.gz", X)
    write_table(raw / "node-label/paper/node-label.csv.gz", np.arange(12) * 29)
    for name, edges in RELATIONS.items():
        write_table(raw / f"relations/{name}/edge.csv.gz", edges)
    for part, papers in (("train", range(8)), ("valid", (8, 9)), ("test", (10, 11))):
        write_table(root / f"ogb/ogbn_mag/split/time/paper/{part}.csv.gz", papers)


FACTS = NodeFacts(sum(COUNTS.values()), 2 * sum(map(len, RELATIONS.values())), 132, 349)
TRAINING_CASES = {
    "ogbn-mag": TrainingCase(
        "large/sgformer-mag.yaml", write=write_files, overrides={"train.train_parts": 2},
        replaced=((ogb_mag, "_FACTS", FACTS),),
    )
}  # fmt: skip


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Roots:
    write_files(tmp_path)
    monkeypatch.setattr(ogb_mag, "_FACTS", FACTS)
    return Roots(tmp_path, (), tmp_path / "cache")


def test_one_graph_of_four_kinds(roots: Roots) -> None:
    loaded = OGB("ogbn-mag").load(roots)
    store = loaded.store
    assert store.x[:, :4].sum(0).tolist() == list(COUNTS.values())
    np.testing.assert_allclose(store.x[9:, 4:], X, rtol=1e-6)
    assert not store.x[:9, 4:].any()
    assert store.y.tolist() == [-1] * 9 + [29 * paper for paper in range(12)]
    split = make_splits("standard", SplitRequest(21, published=loaded.published), allowed=loaded.card.split_modes)
    assert [part.tolist() for part in split.parts().values()] == [list(range(9, 17)), [17, 18], [19, 20]]
    relation, (source, target) = store.edge_attr.reshape(-1), store.edge_index.long()
    for forth in (0, 2, 4, 6):
        there = torch.stack([source, target])[:, relation == forth]
        assert torch.equal(torch.stack([target, source])[:, relation == forth + 1], there)
    assert (9 + 11, 9 + 3) in list(zip(source[relation == 4].tolist(), target[relation == 4].tolist(), strict=True))


def test_files_that_contradict_each_other(roots: Roots, tmp_path: Path) -> None:
    raw = tmp_path / "ogb/ogbn_mag/raw"
    write_table(raw / "relations/paper___cites___paper/edge.csv.gz", [(1, 12)])
    with pytest.raises(UserError, match="names paper 12, but there are 12"):
        OGBMag().load(roots)
    write_table(raw / "node-label/paper/node-label.csv.gz", [1, 2])
    with pytest.raises(UserError, match="12 papers, 12 rows of features, 2 of labels"):
        OGBMag().load(roots)


def test_knowledge_graphs_are_refused_with_the_reason() -> None:
    for name in ("ogbl-biokg", "ogbl_wikikg2"):
        with pytest.raises(UserError, match=r"completing triples of a knowledge graph .* is no task here"):
            OGB(name)
