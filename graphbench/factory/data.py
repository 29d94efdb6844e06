"""From configuration to data set, encodings and splits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from graphbench import registry
from graphbench.config import Config
from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.context import DatasetContext
from graphbench.data.files.roots import Roots
from graphbench.data.infer_links import InferLinks
from graphbench.data.sparse_features import with_sparse_features
from graphbench.data.split_protocols import check_mode, make_splits
from graphbench.data.splits import Splits
from graphbench.errors import UserError
from graphbench.factory.config_errors import config_errors
from graphbench.factory.transforms import build_transforms
from graphbench.structures import DataInfo
from graphbench.transforms.algorithms.cache import apply

_OF_NODE_SETS = ("train_percent", "add_reverse_edges", "add_self_loops")
"""Keys of Exphormer's ``prep`` group that say how a node data set is read."""


def dataset_builder(config: Config) -> DatasetBuilder:
    """The data set of the configuration, nothing read yet."""
    dataset = config.tree.dataset
    kind = registry.lookup("data/datasets", dataset.format, config.where("dataset.format"))
    context = DatasetContext(
        name=dataset.name,
        task=dataset.task,
        task_type=dataset.task_type,
        transductive=dataset.transductive,
        slic_compactness=dataset.slic_compactness,
        **({name: config.tree.prep[name] for name in _OF_NODE_SETS} if config.tree.compat == "exphormer" else {}),
    )
    with config_errors(config, f"dataset.{dataset.format}", "dataset.name"):
        try:
            built: DatasetBuilder = registry.construct(kind, config.component_args("dataset", dataset.format), context)
        except UserError as error:
            raise UserError(f"{config.where('dataset.name')}: {error}") from None
    if config.tree.gnn.head == "infer_links":
        built = InferLinks(built)
    if built.card is not None:
        _check_card(config, built.card)
        check_mode(dataset.split_mode, built.card.split_modes, where=config.where("dataset.split_mode"))
    return built


def read_data(config: Config) -> LoadedDataset:
    """Reads (or generates) the data set, without encodings.

    Raises:
        UserError: data missing or damaged, or not what the configuration says it is.
    """
    loaded = dataset_builder(config).load(Roots.from_environment(config.tree.dataset.dir))
    _check_card(config, loaded.card)
    store = with_sparse_features(loaded.store, config.tree.dataset.sparse_features)
    return dataclasses.replace(loaded, store=store)


def encode(config: Config, loaded: LoadedDataset, progress: Callable[[str], None] | None = None) -> LoadedDataset:
    """Adds the encodings that the model reads, from the cache where they are in it.

    Args:
        config: a loaded configuration.
        loaded: from :func:`read_data`.
        progress: called with a line of text before something is computed.
    """
    cache = Roots.from_environment(config.tree.dataset.dir).cache
    return dataclasses.replace(loaded, store=apply(loaded.store, build_transforms(config), cache, progress))


def build_splits(config: Config, loaded: LoadedDataset, seed: int, index: int | None = None) -> Splits:
    """The split of one run.

    Args:
        config: a loaded configuration.
        loaded: the data.
        seed: of the run; used where ``dataset.split_seed`` is none.
        index: overrides ``dataset.split_index``.
    """
    dataset = config.tree.dataset
    return make_splits(
        dataset.split_mode,
        num_examples=loaded.num_examples,
        labels=loaded.store.y,
        index=dataset.split_index if index is None else index,
        seed=seed if dataset.split_seed is None else dataset.split_seed,
        sizes=dataset.split if config.is_set("dataset.split") else None,
        split_file=dataset.split_file or None,
        published=loaded.published,
        allowed=loaded.card.split_modes,
        where=config.where("dataset.split_mode"),
    )


def declared_info(config: Config) -> DataInfo | None:
    """Sizes from the data set's card, without data; None where only the data can tell."""
    card = dataset_builder(config).card
    return None if card is None else card.info()


def _check_card(config: Config, card: DatasetCard) -> None:
    """Task, metric and its direction belong to the card; a configuration may repeat them but not change them."""
    tree = config.tree
    dataset, direction = tree.dataset, "argmax" if card.maximize else "argmin"
    stated = {
        "dataset.task": (dataset.task, card.task, _same_task(dataset.task, card)),
        "dataset.task_type": (dataset.task_type, card.task_type, _same_type(dataset.task_type, card.task_type)),
        "metric_best": (tree.metric_best, card.metric, tree.metric_best in ("auto", card.metric)),
        "metric_agg": (tree.metric_agg, direction, tree.metric_agg in ("auto", direction)),
    }
    for key, (received, fact, fits) in stated.items():
        if not fits:
            raise UserError(
                f"{config.where(key)}: {key} is '{received}', but the card of {card.name} says '{fact}'. Task and "
                "metric belong to the data set, so that numbers under its name can be compared."
            )


def _same_task(stated: str, card: DatasetCard) -> bool:
    """GraphGPS writes ``graph`` for every inductive task, also where nodes or pairs of nodes are predicted."""
    return stated == card.task or (stated == "graph" and not card.transductive)


def _same_type(stated: str, fact: str) -> bool:
    """GraphGPS writes ``classification`` for two classes, many classes and (Peptides) many labels alike."""
    return stated == fact or (stated == "classification" and fact.startswith("classification"))
