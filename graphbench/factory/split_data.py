"""From configuration to the data of one run: encoded, without the links that it is asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from graphbench.config import Config
from graphbench.contract import ReadsTargets
from graphbench.data.builder import LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.loading.hidden_pairs import without_hidden_pairs
from graphbench.data.splits import Splits
from graphbench.factory.config_errors import config_errors
from graphbench.factory.data import encode
from graphbench.factory.layers import model_class
from graphbench.structures.known_targets import KNOWN


def hides_links(card: DatasetCard) -> bool:
    """Whether splits hide edges of the graph: those that validation and test ask about, others in every split."""
    return card.transductive and card.task == "link_pred"


def shared_data(config: Config, loaded: LoadedDataset, progress: Callable[[str], None] | None = None) -> LoadedDataset:
    """The data with the encodings that all runs of a configuration have in common; none where splits hide links.

    Args:
        config: a loaded configuration.
        loaded: data set from :func:`~graphbench.factory.data.read_data`.
        progress: called with a line of text before something is computed.
    """
    return loaded if hides_links(loaded.card) else encode(config, loaded, progress)


def data_of_split(
    config: Config, loaded: LoadedDataset, splits: Splits, progress: Callable[[str], None] | None = None
) -> LoadedDataset:
    """The data as all batches of a run have it: targets that the model reads, no edge that is an answer.

    Encodings of a graph whose links are asked about are computed without these.

    Args:
        config: a loaded configuration.
        loaded: data from :func:`shared_data`.
        splits: splits of the run.
        progress: called with a line of text before something is computed.

    Raises:
        UserError: the data have encodings of their own, which were computed with edges that are asked about.
    """
    loaded = with_known_targets(config, loaded, splits)
    if not hides_links(loaded.card):
        return loaded
    with config_errors(config, "dataset.name"):
        store = without_hidden_pairs(loaded.store, splits)
    return encode(config, replace(loaded, store=store), progress)


def with_known_targets(config: Config, loaded: LoadedDataset, splits: Splits) -> LoadedDataset:
    """The data as the model of a run reads it: where it reads targets of training nodes, a column names these.

    Args:
        config: a loaded configuration.
        loaded: the data, with encodings.
        splits: splits of the run.
    """
    store, model = loaded.store, model_class(config)
    if not (issubclass(model, ReadsTargets) and loaded.card.transductive and store.y_level == "node"):
        return loaded
    known = torch.zeros(store.num_nodes, dtype=torch.bool)
    known[splits.train] = True
    return replace(loaded, store=store.replace(pe={**store.pe, KNOWN: known}))
