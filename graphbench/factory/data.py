"""From configuration to data set, encodings and splits."""

from __future__ import annotations

import dataclasses
import functools
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path

from torch import Tensor

from graphbench import registry
from graphbench.config import Config
from graphbench.config.components import component_keys
from graphbench.config.layer_type import component_names
from graphbench.data.builder import DatasetBuilder, LoadedDataset, read
from graphbench.data.card import DatasetCard
from graphbench.data.context import DatasetContext
from graphbench.data.files.roots import Roots
from graphbench.data.infer_links import InferLinks
from graphbench.data.sparse_features import with_sparse_features
from graphbench.data.split_protocols import check_index, check_mode, make_splits, published_counts
from graphbench.data.splits import FOLD_SEED, SplitRequest, Splits, read_split_file
from graphbench.errors import UserError, unknown
from graphbench.factory.config_errors import config_errors
from graphbench.factory.transforms import build_transforms
from graphbench.structures import DataInfo
from graphbench.tasks.targets import kind_of
from graphbench.tasks.task import LOGGED
from graphbench.transforms.algorithms.cache import apply
from graphbench.transforms.algorithms.shards import apply_shard, missing_shards

logger = logging.getLogger("graphbench")

_NODE_SET_KEYS = ("train_percent", "add_reverse_edges", "add_self_loops")
"""Keys of Exphormer's ``prep`` group that are arguments of node data sets."""


def dataset_context(config: Config) -> DatasetContext:
    """Values of the configuration that data sets may take."""
    dataset = config.tree.dataset
    context = DatasetContext(
        name=dataset.name,
        task=dataset.task,
        task_type=dataset.task_type,
        transductive=dataset.transductive,
        slic_compactness=dataset.slic_compactness,
        folder=str(Path(config.file).parent),
    )
    if config.tree.compat == "exphormer":
        context = dataclasses.replace(context, **{name: config.value(f"prep.{name}") for name in _NODE_SET_KEYS})
    return context


def dataset_builder(config: Config) -> DatasetBuilder:
    """The builder of the configuration's data set, which has read nothing yet."""
    dataset, context = config.tree.dataset, dataset_context(config)
    builder_class = registry.lookup(registry.DATASETS, dataset.format, config.where("dataset.format"))
    arguments = config.component_args("dataset", dataset.format)
    filled = {name: f"dataset.{name}" for name in vars(context) if f"dataset.{name}" in config.values}
    with config_errors(config, f"dataset.{dataset.format}", "dataset.name", filled=filled):
        try:
            builder = registry.construct(builder_class, arguments, context)
        except UserError as error:
            raise UserError(f"{config.where('dataset.name')}: {error}") from None
    if _infers_links(config):
        builder = InferLinks(builder)
    if builder.card is not None:
        _check_card(config, _selected_by(config, builder.card))
        check_mode(dataset.split_mode, builder.card.split_modes, where=config.where("dataset.split_mode"))
    if dataset.split_file and dataset.split_mode != "fixed":
        raise UserError(
            f"{config.where('dataset.split_file')}: dataset.split_file is read with dataset.split_mode fixed only, "
            f"received {dataset.split_mode}. Set it to fixed, or leave the file out."
        )
    _check_indices(config, {} if builder.card is None else builder.card.split_counts)
    return builder


def _infers_links(config: Config) -> bool:
    """Whether the head asks for the edges of the graphs; the default head asks for what the data set has."""
    name = config.tree.gnn.head
    return name != "default" and registry.lookup(registry.HEADS, name, config.where("gnn.head")).infers_links


def read_data(config: Config) -> LoadedDataset:
    """Reads (or generates) the data set, without encodings.

    Raises:
        UserError: data missing or damaged, or the configuration contradicts the card.
    """
    builder = dataset_builder(config)
    with config_errors(config, f"dataset.{config.tree.dataset.format}", "dataset.name"):
        loaded = read(builder, Roots.from_environment(config.tree.dataset.dir))
    loaded = dataclasses.replace(loaded, card=_selected_by(config, loaded.card))
    _check_card(config, loaded.card)
    _check_indices(config, published_counts(loaded.published))
    declared = declared_fingerprint(config)
    if loaded.store.fingerprint != declared:  # those that are declared are known to be finite
        _check_finite(config, loaded)
        if declared is not None:
            logger.warning(
                "%s: the data of %s are not those that this version knows (fingerprint %s instead of %s): files were "
                "changed, or come from another source.",
                config.where("dataset.name"), loaded.card.name, loaded.store.fingerprint[:12], declared[:12],
            )  # fmt: skip
    _check_categories(config, loaded)
    store = with_sparse_features(loaded.store, config.tree.dataset.sparse_features)
    return dataclasses.replace(loaded, store=store)


def fingerprint_key(config: Config) -> str | None:
    """Name of the data set among the declared fingerprints; None where arguments make other graphs of its files."""
    dataset = config.tree.dataset
    builder = registry.lookup(registry.DATASETS, dataset.format, config.where("dataset.format"))
    defaults = {name: key.default for name, key in component_keys(builder).items()}
    given = config.component_args("dataset", dataset.format)
    changed = any(value != defaults.get(name, value) for name, value in given.items())
    if changed or config.tree.compat == "exphormer" or _infers_links(config):
        return None
    return f"{dataset.format}/{dataset.name}" if builder.published_files else None


def declared_fingerprint(config: Config) -> str | None:
    """Declared :attr:`~graphbench.data.store.GraphStore.fingerprint` of the published files; None where nobody says."""
    key = fingerprint_key(config)
    return None if key is None else _declared_fingerprints().get(key)


@functools.cache
def _declared_fingerprints() -> dict[str, str]:
    """Written by ``python -m scripts.fingerprints``."""
    text = resources.files("graphbench.data").joinpath("fingerprints.json").read_text(encoding="utf-8")
    return json.loads(text)


def _check_categories(config: Config, loaded: LoadedDataset) -> None:
    """Refuses a stated size of a table of categories that the data exceed; what the card says may be larger still.

    Raises:
        UserError: naming the largest category.
    """
    for level, features in (("node", loaded.store.x), ("edge", loaded.store.edge_attr)):
        key = f"dataset.{level}_encoder_num_types"
        namespace = registry.NODE_ENCODERS if level == "node" else registry.EDGE_ENCODERS
        named = set(component_names(config.value(f"dataset.{level}_encoder_name"))) & set(registry.names(namespace))
        reads = any("num_types" in registry.parameters(registry.lookup(namespace, name)) for name in named)
        stated = config.value(key) if reads else 0
        if stated and isinstance(features, Tensor) and features.numel():
            largest = int(features[:, 0].max())
            if largest >= stated:
                raise UserError(
                    f"{config.where(key)}: {key} is {stated}, but {loaded.card.name} has {level}s of category "
                    f"{largest}, counted from 0. Leave it out to take as many as the data set has."
                )


def _check_finite(config: Config, loaded: LoadedDataset) -> None:
    """Refuses features that are no numbers, which would show as a loss that is none.

    Raises:
        UserError: naming the first row of nodes or edges with one.
    """
    for name, level in (("x", "node"), ("edge_attr", "edge")):
        values = loaded.store.x if name == "x" else loaded.store.edge_attr
        if not isinstance(values, Tensor) or not values.is_floating_point():
            continue
        if bool(values.sum().isfinite()):  # one pass without memory; infinite also where finite numbers are too large
            continue
        wrong = (~values.isfinite()).reshape(len(values), -1).any(1).nonzero()
        if len(wrong):
            raise UserError(
                f"{config.where('dataset.name')}: {len(wrong):,} {level}s of {loaded.card.name} have NaN or infinity "
                f"among their features ({name}), the first is {level} {int(wrong[0]):,} of all graphs together."
            )


def encode(config: Config, loaded: LoadedDataset, progress: Callable[[str], None] | None = None) -> LoadedDataset:
    """Adds the encodings that the model reads, from the cache where they are in it.

    Args:
        config: a loaded configuration.
        loaded: data set from :func:`read_data`.
        progress: called with a line of text before something is computed.
    """
    cache, transforms = Roots.from_environment(config.tree.dataset.dir).cache, build_transforms(config)
    with config_errors(config, "dataset.node_encoder_name", *(f"posenc_{name}" for name in transforms)):
        return dataclasses.replace(loaded, store=apply(loaded.store, transforms, cache, progress))


def encode_shards(
    config: Config,
    loaded: LoadedDataset,
    numbers: Iterable[int],
    shards: int,
    progress: Callable[[str], None] | None = None,
) -> bool:
    """Computes the encodings of some shards of the graphs into the cache, where :func:`encode` finds them.

    Args:
        config: a loaded configuration.
        loaded: data set from :func:`read_data`.
        numbers: numbers of the shards, from 0.
        shards: number of shards, see :func:`~graphbench.transforms.algorithms.shards.apply_shard`.
        progress: called with a line of text before something is computed.

    Returns:
        Whether all shards are there now.
    """
    cache, transforms = Roots.from_environment(config.tree.dataset.dir).cache, build_transforms(config)
    found = [apply_shard(loaded.store, transforms, cache, number, shards, progress) for number in numbers]
    return found[-1]


def missing(config: Config, loaded: LoadedDataset, shards: int) -> list[int]:
    """Numbers of the shards that :func:`encode_shards` would compute."""
    cache = Roots.from_environment(config.tree.dataset.dir).cache
    return missing_shards(loaded.store, build_transforms(config), cache, shards)


def build_splits(config: Config, loaded: LoadedDataset, seed: int, index: int | None = None) -> Splits:
    """The split of one run.

    Args:
        config: a loaded configuration.
        loaded: the data.
        seed: seed of the run; used where ``dataset.split_seed`` is none, but for folds, which all runs have in common.
        index: overrides ``dataset.split_index``.
    """
    dataset = config.tree.dataset
    seed = seed if dataset.split_seed is None else dataset.split_seed
    request = SplitRequest(
        num_examples=loaded.num_examples,
        labels=loaded.store.y,
        index=dataset.split_index if index is None else index,
        seed=seed,
        fold_seed=FOLD_SEED if dataset.split_seed is None else dataset.split_seed,
        sizes=dataset.split,
        split_file=config.beside(dataset.split_file) if dataset.split_file else None,
        published=loaded.published,
        published_files=loaded.card.split_files,
    )
    modes, where = loaded.card.split_modes, config.where("dataset.split_mode")
    splits = make_splits(dataset.split_mode, request, allowed=modes, where=where)
    try:
        return splits.with_train_fraction(dataset.train_fraction, seed)
    except UserError as error:
        raise UserError(f"{config.where('dataset.train_fraction')}: {error}") from None


def declared_info(config: Config) -> DataInfo | None:
    """Sizes from the data set's card, without data; None where only the data can tell."""
    card = dataset_builder(config).card
    return None if card is None else _selected_by(config, card).info()


def _selected_by(config: Config, card: DatasetCard) -> DatasetCard:
    """The card with ``metric_best`` as its metric; all others are computed as well. The loss, which is none, leaves it.

    Raises:
        UserError: it is not computed for this data set.
    """
    name = config.tree.metric_best
    if name in ("auto", "loss", card.metric):
        return card
    kind = kind_of(card.task_type, card.out_dim)
    computed = [card.metric, *LOGGED[kind], *config.tree.custom_metrics]
    if name not in computed:
        error = unknown("metric_best", name, {"auto", "loss", *computed}, config.where("metric_best"))
        if name in registry.names(registry.METRICS) and kind in registry.lookup(registry.METRICS, name).kinds:
            raise UserError(f"{error} '{name}' is computed on request: custom_metrics '[{name}]'.")
        raise error
    return card.replace(metric=name, maximize=registry.lookup(registry.METRICS, name).maximize)


def _check_card(config: Config, card: DatasetCard) -> None:
    """Refuses a task or direction other than the card's; a configuration may repeat them.

    Raises:
        UserError: naming the key.
    """
    tree = config.tree
    dataset = tree.dataset
    direction = "argmax" if card.maximize else "argmin"
    if config.selects_by_loss:
        direction = "argmin"
        if tree.metric_agg == "argmax":
            raise UserError(
                f"{config.where('metric_agg')}: metric_agg is 'argmax', but the lowest loss (metric_best) is best."
            )
    stated = {
        "dataset.task": (dataset.task, card.task, _same_task(dataset.task, card)),
        "dataset.task_type": (dataset.task_type, card.task_type, _same_type(dataset.task_type, card.task_type)),
        "metric_agg": (tree.metric_agg, direction, tree.metric_agg in ("auto", direction)),
    }
    for key, (received, fact, fits) in stated.items():
        if not fits:
            raise UserError(
                f"{config.where(key)}: {key} is '{received}', but the card of {card.name} says '{fact}'. The task "
                "and its metrics belong to the data set, so that numbers under its name can be compared."
            )


def _check_indices(config: Config, counts: Mapping[str, int]) -> None:
    """Refuses a run on a split that does not exist, as far as it is known how many there are (``counts``, by mode)."""
    dataset, several = config.tree.dataset, config.tree.run_multiple_splits
    where = config.where("run_multiple_splits" if several else "dataset.split_index")
    if dataset.split_mode == "fixed":
        file = config.beside(dataset.split_file) if dataset.split_file else None
        counts = {"fixed": len(read_split_file(file)) if file and file.is_file() else 1}
    for index in several or [dataset.split_index]:
        check_index(dataset.split_mode, index, counts, where)


def _same_task(stated: str, card: DatasetCard) -> bool:
    """Whether the tasks agree; GraphGPS writes ``graph`` for every inductive task, of nodes and pairs as well."""
    return stated == card.task or (stated == "graph" and not card.transductive)


def _same_type(stated: str, fact: str) -> bool:
    """Whether the types agree; GraphGPS writes ``classification`` for two classes, many classes and many labels."""
    return stated == fact or (stated == "classification" and fact.startswith("classification"))
