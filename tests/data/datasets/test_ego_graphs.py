from __future__ import annotations

from functools import partial

import pytest

from graphbench.data.datasets.ego_graphs import EgoGraphs
from graphbench.errors import UserError
from tests.data.datasets.test_graph_saint import write_training_files
from tests.dataset_case import TrainingCase

WRITE = partial(write_training_files, "Flickr", 500, 7, False)
TRAINING_CASES = {"EgoGraphs": TrainingCase("large/survey-flickr.yaml", write=WRITE)}


def test_the_card_is_that_of_the_graph_with_a_graph_per_node() -> None:
    card = EgoGraphs("Flickr").card
    assert (card.name, card.task, card.transductive, card.out_dim, card.node_in) == ("Flickr", "graph", False, 7, 500)
    assert card.statistics == {"graphs": 89250}


def test_wrong_values_are_named() -> None:
    with pytest.raises(UserError, match="flickr"):
        EgoGraphs("flickr")
    with pytest.raises(ValueError, match="depth must be at least 1, received 0"):
        EgoGraphs("Flickr", depth=0)
