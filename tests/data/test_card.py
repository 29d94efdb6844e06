from __future__ import annotations

import pytest
import torch

from graphbench.data.card import DatasetCard, out_dim_of
from graphbench.data.store import GraphStore
from graphbench.errors import UserError

CARD = DatasetCard(
    name="Tiny",
    task="graph",
    task_type="classification",
    metric="accuracy",
    maximize=True,
    node_in=2,
    edge_in=0,
    out_dim=1,
    split_modes=("random",),
    statistics={"graphs": 2, "nodes": 3, "edges": 2, "nodes_per_graph": 1.5},
)


def _store(**changes: object) -> GraphStore:
    parts = {"x": torch.ones(3, 2), "y": torch.tensor([0, 1])} | changes
    return GraphStore.from_arrays([2, 1], [2, 0], torch.tensor([[0, 1], [1, 0]]), **parts)


def test_info_without_and_with_data() -> None:
    declared = CARD.info()
    assert (declared.node_in, declared.out_dim, declared.max_nodes, declared.degree_histogram) == (2, 1, None, None)
    assert CARD.info(_store()).max_nodes == 2
    measured = CARD.info(_store(), [1])
    assert (measured.max_nodes, measured.degree_histogram) == (1, (1,))
    of_nodes = CARD.replace(task="node", transductive=True).info(_store(), [2, 1])  # nodes of a graph, not graphs
    assert of_nodes.max_nodes == 2


def test_matching_data_pass() -> None:
    CARD.check(_store())


@pytest.mark.parametrize(
    ("card", "store", "message"),
    [
        (CARD.replace(statistics={"graphs": 3}), _store(), "graphs 2 instead of 3"),
        (CARD.replace(statistics={"nodes_per_graph": 1.6}), _store(), "nodes_per_graph 1.5 instead of 1.6"),
        (CARD, _store(x=torch.ones(3, 1)), "1 columns of x instead of 2"),
        (CARD, _store(edge_attr=torch.ones(2, 1)), "1 columns of edge_attr instead of 0"),
        (CARD, _store(y=torch.tensor([0, 2])), "3 classes instead of 2"),
    ],
)
def test_other_data_are_refused_with_every_difference(card: DatasetCard, store: GraphStore, message: str) -> None:
    with pytest.raises(UserError, match=rf"raw/x: these are not the published Tiny graphs: .*{message}"):
        card.check(store, "raw/x")


def test_a_card_must_not_contradict_itself() -> None:
    with pytest.raises(ValueError, match=r"unknown statistics \['atoms'\]"):
        CARD.replace(statistics={"atoms": 1})
    with pytest.raises(ValueError, match="task must be one of"):
        CARD.replace(task="molecule")


@pytest.mark.parametrize(
    ("y", "task_type", "expected"),
    [
        (torch.tensor([0, 1]), "classification", 1),
        (torch.tensor([0, 1]), "classification_multi", 2),
        (torch.tensor([0, 2]), "classification", 3),
        (torch.tensor([[0.0], [float("nan")]]), "classification_binary", 1),
        (torch.ones(4, 3), "classification_multilabel", 3),
        (torch.ones(4, 1), "regression", 1),
        (torch.ones(4), "regression", 1),
    ],
)
def test_width_of_the_prediction(y: torch.Tensor, task_type: str, expected: int) -> None:
    assert out_dim_of(y, task_type) == expected
