"""Settings that nothing reads: keys without a component that takes them, encoder states without a layer.

A key that its own file, or the command line, changes and nothing reads is a slip of whoever wrote it: it would tell two
configurations apart that train the same model. What a file that it builds on sets is left out, as are defaults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from torch import nn

from graphbench import registry
from graphbench.config import Config
from graphbench.config.schema import SCHEMA
from graphbench.data.split_protocols import SplitMode
from graphbench.factory.data import dataset_builder
from graphbench.factory.layer_groups import GNN_FIELDS, GROUPS, GT, layer_group
from graphbench.factory.layers import layers_in_use, model_class, takes_layers
from graphbench.heads.contract import Head
from graphbench.layers.attention.biased_transformer import BiasedTransformer
from graphbench.layers.blocks.grit import GritTransformerLayer
from graphbench.layers.contract import Attention, GraphLayer
from graphbench.layers.local.distance_gate import DistanceGate
from graphbench.models.contract import EncodedModel, Model
from graphbench.train.contract import ScheduleContext

READERS: Mapping[str, tuple[type[nn.Module], str]] = {
    "pair_bias": (BiasedTransformer, "BiasedTransformer does"),
    "stable_encoding": (DistanceGate, "local layers that have gt.<layer>.equivstable do, where it is true"),
    "edge_states": (GritTransformerLayer, "GritTransformer does"),
}
"""Modules that read the states which encoders supply, and what to name for it; complete layers contain them."""

_OF_LAYERS = {
    "gt": {"heads": "gt.n_heads", "attn_dropout": "gt.attn_dropout"},
    "gnn": {name: f"gnn.{name}" for name in GNN_FIELDS},
    "graphormer": {},
}
"""Keys that fill arguments of some layers, by argument."""

_OF_BLOCKS = {
    "gt.dropout": ("dropout", "hidden_dropout"),
    "gt.local_dropout": (),
    "gt.residual": ("residual",),
    "gt.batch_norm": ("norm",),
    "gt.layer_norm": ("norm",),
}
"""Keys that blocks of parallel layers read; without such blocks they fill these arguments of layers."""

_OF_SCHEDULES = {
    field.name: f"optim.{field.name}"
    for field in dataclasses.fields(ScheduleContext)
    if field.name not in ("optimizer", "max_epoch")
}
"""Keys that fill arguments of schedules alone, by argument."""


def without_effect(config: Config, model: Model) -> Iterator[str]:
    """Sentences about what a configuration sets and nothing of a model or its training reads.

    Args:
        config: a loaded configuration.
        model: what it builds; parameters need no values.
    """
    yield from _unread_with_others(config)
    yield from _unread_of_data(config)
    yield from _unread_arguments(config, model)
    yield from _unread_of_layers(config)
    yield from _unread_states(config, model)


def _is_changed(config: Config, key: str) -> bool:
    return config.is_own(key) and config.value(key) != SCHEMA[key].default


def _unread_with_others(config: Config) -> Iterator[str]:
    """Sentences about keys that are read with other values of another key only."""
    for name, key in SCHEMA.items():
        if not key.only_with or not _is_changed(config, name):
            continue
        readable = [
            config.value(other) in values if values else config.value(other) != SCHEMA[other].default
            for other, values in key.only_with.items()
        ]
        if not any(readable):
            present = " and ".join(f"{other} {config.value(other)!s}".strip() for other in key.only_with)
            needed = " or ".join(
                f"{other} {'/'.join(map(str, values))}" if values else other for other, values in key.only_with.items()
            )
            yield f"{config.where(name)}: {name} has no effect with {present}: it is read with {needed}."


def _unread_of_data(config: Config) -> Iterator[str]:
    """Sentences about sizes and seeds of splits that are not drawn with them, and sizes of batches that are all."""
    dataset = config.tree.dataset
    mode = SplitMode.parse(dataset.split_mode)
    read_file = mode.protocol == "fixed" and dataset.split_file
    unread = {
        "dataset.split": mode.folds is not None or read_file,
        "dataset.split_seed": mode.protocol in ("fixed", "sliced") and dataset.train_fraction == 1,
    }
    for key, has_no_effect in unread.items():
        if has_no_effect and _is_changed(config, key):
            yield f"{config.where(key)}: {key} has no effect: dataset.split_mode {dataset.split_mode} does not read it."
    key, sampler = "train.batch_size", config.tree.train.sampler
    if sampler == "full_batch" and config.value(key) != 1 and _is_changed(config, key) and _is_one_batch(config):
        yield (
            f"{config.where(key)}: {key} has no effect: all examples are one batch (the data are transductive, "
            "train.sampler is full_batch)."
        )


def _is_one_batch(config: Config) -> bool:
    """Whether all examples lie in one graph that nothing cuts."""
    card = dataset_builder(config).card
    dataset = config.tree.dataset
    return dataset.transductive and dataset.task != "graph" if card is None else card.transductive


def _arguments(config: Config, model: Model) -> Iterator[tuple[type, str, Mapping[str, str]]]:
    """Components of which there is one, what names them, and the keys that fill their arguments."""
    tree = config.tree
    schedule = registry.lookup(registry.SCHEDULES, tree.optim.scheduler)
    yield schedule, f"optim.scheduler {tree.optim.scheduler}", _OF_SCHEDULES
    optimizer = registry.lookup(registry.OPTIMIZERS, tree.optim.optimizer)
    yield optimizer, f"optim.optimizer {tree.optim.optimizer}", {"momentum": "optim.momentum"}
    yield (
        type(model),
        f"model.type {tree.model.type}",
        {"stage_type": "gnn.stage_type", "pre_mp": "gnn.layers_pre_mp"},
    )
    for head in (module for module in model.modules() if isinstance(module, Head)):
        name = f"the head {head.registered_name}"
        yield type(head), name, {"pooling": "model.graph_pooling", "decoding": "model.edge_decoding"}


def _unread_arguments(config: Config, model: Model) -> Iterator[str]:
    """Sentences about keys that would fill an argument which the component that is named does not have."""
    for component, name, keys in _arguments(config, model):
        parameters = registry.parameters(component)
        for argument, key in keys.items():
            reads = argument in parameters and parameters[argument].from_context
            if not reads and _is_changed(config, key):
                yield f"{config.where(key)}: {key} has no effect: {name} does not read it."


def _unread_of_layers(config: Config) -> Iterator[str]:
    """Sentences about keys of layers, none of which reads them, and of layers that the model does not have."""
    name = config.tree.model.type
    model = model_class(config)
    group = layer_group(model)
    for other in (each for each in GROUPS.values() if each is not group):
        for key in (f"{other.name}.{last}" for last in other.own):
            if _is_changed(config, key):
                read_keys = f"{group.layer_type}, {group.number}"
                yield f"{config.where(key)}: {key} has no effect: {name} reads {read_keys} instead."
    used = [(each, layer) for _, each, layer in layers_in_use(config)] if takes_layers(config) else []
    read: set[str] = set()
    for _, layer in used:
        fields = {argument for argument, parameter in registry.parameters(layer).items() if parameter.from_context}
        if issubclass(layer, Attention) and "dropout" in fields:  # that of an attention is gt.attn_dropout
            fields = fields - {"dropout"} | {"attn_dropout"}
        read |= fields
    names = f" ({', '.join(dict.fromkeys(each for each, _ in used))})" if used else ""
    readers: dict[str, tuple[str, ...]] = {key: (field,) for field, key in _OF_LAYERS[group.name].items()}
    if group is GT and "block" not in registry.parameters(model):
        readers |= _OF_BLOCKS
    for key, fields_of_key in readers.items():
        if read.isdisjoint(fields_of_key) and _is_changed(config, key):
            yield f"{config.where(key)}: {key} has no effect: no layer of {name}{names} reads it."


def _unread_states(config: Config, model: Model) -> Iterator[str]:
    """Sentences about encoders whose state for layers no layer reads; none where layers are not of this package."""
    layers = [module for module in model.modules() if isinstance(module, GraphLayer | DistanceGate)]
    if not isinstance(model, EncodedModel) or any(
        not type(each).__module__.startswith("graphbench.") for each in layers
    ):
        return
    key = "dataset.node_encoder_name"
    for name, encoder in model.encoder.batch_encoders.items():
        if encoder.supplies is None:
            continue
        reader, advice = READERS[encoder.supplies]
        own = encoder.supplies == "pair_bias" and model.own_pair_bias
        if own or not any(isinstance(each, reader) for each in layers):
            yield (
                f"{config.where(key)}: {name} supplies state.{encoder.supplies}, which none of these layers reads "
                f"({advice}): this state has no effect."
            )
