"""The only translator from configuration to objects.

Every component is built by :func:`graphbench.registry.construct`: what its own section of the configuration says,
else what the surroundings supply under the parameter's name (the dictionaries below), else the constructor's default.
No other module reads a configuration.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from lightning_fabric import Fabric
from torch import nn
from yacs.config import CfgNode

from graphbench import registry
from graphbench.config import Config
from graphbench.config.load import component_names
from graphbench.config.schema import GRAPH_LAYERS
from graphbench.config.values import parse_range
from graphbench.data.card import DatasetCard
from graphbench.data.family import DatasetFamily, LoadedDataset
from graphbench.data.roots import Roots
from graphbench.data.splits import Splits, make_splits
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import UserError
from graphbench.layers.gps import GPSBlock
from graphbench.structures import DataInfo
from graphbench.tasks.task import Task, logged_metrics
from graphbench.train.accelerator import make_fabric
from graphbench.train.loggers import CSVLogger, TensorBoardLogger, WandbLogger
from graphbench.train.parameter_groups import parameter_groups
from graphbench.train.progress import ProgressBar
from graphbench.train.reporter import Reporter
from graphbench.train.settings import Settings
from graphbench.transforms._cache import apply

HEAD_OF_TASK = {"graph": "graph", "node": "node"}
"""Head that ``gnn.head: default`` stands for."""


@contextlib.contextmanager
def blame(config: Config, *keys: str) -> Iterator[None]:
    """Turns a component's ValueError into the user's message, with the place of the first of ``keys`` that was set."""
    try:
        yield
    except ValueError as error:
        key = next((each for each in keys if config.is_set(each)), keys[0])
        raise UserError(f"{config.where(key)}: {key}: {error}") from error


# --- data ---------------------------------------------------------------------------------------------------------


def family(config: Config) -> DatasetFamily:
    """The data set of the configuration, nothing read yet."""
    dataset = config.tree.dataset
    kind = registry.lookup("data/datasets", dataset.format, config.where("dataset.format"))
    supplied = {
        "name": dataset.name,
        "task": dataset.task,
        "task_type": dataset.task_type,
        "transductive": dataset.transductive,
    }
    with blame(config, f"dataset.{dataset.format}", "dataset.name"):
        try:
            built: DatasetFamily = registry.construct(kind, config.own("dataset", dataset.format), supplied)
        except UserError as error:
            raise UserError(f"{config.where('dataset.name')}: {error}") from None
    if built.card is not None:
        _check_card(config, built.card)
    return built


def read_data(config: Config) -> LoadedDataset:
    """Reads (or generates) the data set, without encodings.

    Raises:
        UserError: data missing or damaged, or not what the configuration says it is.
    """
    loaded = family(config).load(Roots.from_environment(config.tree.dataset.dir))
    _check_card(config, loaded.card)
    return loaded


def encode(config: Config, loaded: LoadedDataset, progress: Callable[[str], None] | None = None) -> LoadedDataset:
    """Adds the encodings that the model reads, from the cache where they are in it.

    Args:
        config: a loaded configuration.
        loaded: from :func:`read_data`.
        progress: called with a line of text before something is computed.
    """
    cache = Roots.from_environment(config.tree.dataset.dir).cache
    return dataclasses.replace(loaded, store=apply(loaded.store, transforms(config), cache, progress))


def splits(config: Config, loaded: LoadedDataset, seed: int, index: int | None = None) -> Splits:
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
    card = family(config).card
    return None if card is None else card.info()


def _check_card(config: Config, card: DatasetCard) -> None:
    """Task, metric and its direction belong to the card; a configuration may repeat them but not change them."""
    tree = config.tree
    dataset, direction = tree.dataset, "argmax" if card.maximize else "argmin"
    stated = {
        "dataset.task": (dataset.task, card.task, dataset.task == card.task),
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


def _same_type(stated: str, fact: str) -> bool:
    """GraphGPS writes ``classification`` for two classes, many classes and (Peptides) many labels alike."""
    return stated == fact or (stated == "classification" and fact.startswith("classification"))


# --- model --------------------------------------------------------------------------------------------------------


def model(config: Config, info: DataInfo) -> nn.Module:
    """The model that the configuration describes, for data with the sizes in ``info``.

    Args:
        config: a loaded configuration.
        info: from the data set's card, or measured.

    Returns:
        A module that maps a :class:`~graphbench.structures.GraphBatch` to predictions, (G, out_dim) for graph tasks
        and (N, out_dim) for node tasks.

    Raises:
        UserError: unknown component, or values that do not fit each other.
    """
    tree = config.tree
    where = config.where("model.type")
    kind = registry.lookup("models", tree.model.type, where)
    wanted = registry.parameters(kind)
    if tree.gt.dim_hidden != tree.gnn.dim_inner and {"block", "attention"} & set(wanted):
        raise UserError(
            f"{config.where('gt.dim_hidden')}: gt.dim_hidden and gnn.dim_inner are the same width and must be equal, "
            f"received {tree.gt.dim_hidden} and {tree.gnn.dim_inner} ({config.where('gnn.dim_inner')})."
        )
    dim, dim_edge = tree.gnn.dim_inner, tree.gnn.dim_edge or tree.gnn.dim_inner
    edge_encoder = _edge_encoder(config, info, dim_edge)
    node_encoder, dim_encoded = _node_encoder(config, info, dim)
    supplied = {
        "encoder": node_encoder,
        "dim_encoded": dim_encoded,
        "edge_encoder": edge_encoder,
        "dim": dim,
        "dim_edge": dim_edge,
        "layers": tree.gt.layers,
        "layers_pre_mp": tree.gnn.layers_pre_mp,
        "l2norm": tree.gnn.l2norm,
        "batchnorm": tree.gnn.batchnorm,
        "dropout": tree.gnn.dropout,
        "act": tree.gnn.act,
        "head": lambda dim_in: _head(config, info, dim_in),
    }
    if {"block", "local", "attention"} & set(wanted):
        local, attention = _layer_factories(config, edge_encoder is not None, dim_edge)
        supplied |= {"local": local, "attention": attention, "block": lambda: _block(config, local, attention)}
    with blame(config, f"gt.{tree.model.type}", "model.type"):
        built: nn.Module = registry.construct(kind, config.own("gt", tree.model.type), supplied)
    return built


def _node_encoder(config: Config, info: DataInfo, dim: int) -> tuple[nn.Module, int]:
    tree = config.tree
    if not tree.dataset.node_encoder:
        if "node" in info.vocabularies:
            raise UserError(
                f"{config.where('dataset.node_encoder')}: the node features of {info.name} are categories and need an "
                "encoder: set dataset.node_encoder to true and dataset.node_encoder_name to TypeDictNode (or Atom)."
            )
        return NodeEncoder(None, {}, info.node_in, batch_norm=False), info.node_in
    key, where = "dataset.node_encoder_name", config.where("dataset.node_encoder_name")
    parts = component_names(tree.dataset.node_encoder_name)
    features = [part for part in parts if part in registry.names("encoders/node")]
    encodings = [part for part in parts if part not in features]
    if len(features) > 1:
        raise UserError(
            f"{where}: {key} names {len(features)} feature encoders ({', '.join(features)}); one is allowed."
        )
    positional = {name: _positional_encoder(config, name) for name in encodings}
    width = dim - sum(config.tree[f"posenc_{name}"].dim_pe for name in encodings)
    if width < 0 or (features and width == 0):
        raise UserError(
            f"{where}: the encodings take {dim - width} of gnn.dim_inner = {dim} columns and leave {max(width, 0)} to "
            "the node features; reduce posenc_*.dim_pe."
        )
    node: nn.Module | None = None
    if features or (info.node_in and width):
        # An encoding on its own (GraphGPS: `LapPE`) keeps the node features through a linear map of them.
        name = features[0] if features else "LinearNode"
        vocabulary = info.vocabularies.get("node", ())
        supplied = {
            "dim": width,
            "node_in": info.node_in,
            "num_types": tree.dataset.node_encoder_num_types or (vocabulary[0] if vocabulary else 0),
        }
        with blame(config, "dataset.node_encoder_num_types", key):
            node = registry.construct(
                registry.lookup("encoders/node", name, where), config.own("dataset", name), supplied
            )
    with blame(config, key):
        return NodeEncoder(node, positional, dim, batch_norm=tree.dataset.node_encoder_bn), dim


def _positional_encoder(config: Config, name: str) -> nn.Module:
    group = f"posenc_{name}"
    where = config.where("dataset.node_encoder_name")
    kind = registry.lookup("encoders/positional", name, where)
    if not config.tree[group].enable:
        raise UserError(f"{where}: dataset.node_encoder_name uses {name}, but {group}.enable is false; set it to true.")
    with blame(config, group):
        encoder: nn.Module = registry.construct(kind, encoding_arguments(config, name), {})
    return encoder


def encoding_arguments(config: Config, name: str) -> dict[str, Any]:
    """The keys of ``posenc_<name>`` without their sub-groups, ``times_func`` parsed to ``times``."""
    group = f"posenc_{name}"
    flat: dict[str, Any] = {}
    for key, value in config.tree[group].items():
        flat.update(value if isinstance(value, CfgNode) else {key: value})
    if "times" in flat:
        function = flat.pop("times_func")
        if function:
            flat["times"] = parse_range(
                function, f"{group}.kernel.times_func", config.where(f"{group}.kernel.times_func")
            )
        if not flat["times"]:
            raise UserError(
                f"{config.where(group)}: {group} needs steps: set {group}.kernel.times (a list) or "
                f"{group}.kernel.times_func, e.g. range(1,17)."
            )
    return flat


def transforms(config: Config) -> dict[str, Any]:
    """The transforms that precompute the encodings the model reads, by encoder name."""
    if not config.tree.dataset.node_encoder:
        return {}
    found = {}
    for name in component_names(config.tree.dataset.node_encoder_name):
        if name in registry.names("encoders/positional"):
            transform = registry.lookup("transforms", registry.lookup("encoders/positional", name).transform)
            with blame(config, f"posenc_{name}"):
                found[name] = registry.construct(transform, encoding_arguments(config, name), {})
    return found


def _edge_encoder(config: Config, info: DataInfo, dim_edge: int) -> nn.Module | None:
    tree = config.tree
    if not tree.dataset.edge_encoder:
        return None
    key, where = "dataset.edge_encoder_name", config.where("dataset.edge_encoder_name")
    name = tree.dataset.edge_encoder_name
    vocabulary = info.vocabularies.get("edge", ())
    supplied = {
        "dim": dim_edge,
        "edge_in": info.edge_in,
        "num_types": tree.dataset.edge_encoder_num_types or (vocabulary[0] if vocabulary else 0),
    }
    with blame(config, "dataset.edge_encoder_num_types", key):
        features = registry.construct(
            registry.lookup("encoders/edge", name, where), config.own("dataset", name), supplied
        )
        return EdgeEncoder(features, dim_edge, batch_norm=tree.dataset.edge_encoder_bn)


def _layer_factories(
    config: Config, has_edges: bool, dim_edge: int
) -> tuple[Callable[[int, int], nn.Module] | None, Callable[[], nn.Module] | None]:
    """Makers of the local and the global part of ``gt.layer_type``; None for a part left out."""
    tree, key = config.tree, "gt.layer_type"
    where = config.where(key)
    parts = component_names(tree.gt.layer_type)
    local_names = [part for part in parts if part in registry.names("layers/local")]
    attention_names = [part for part in parts if part not in local_names]
    if len(local_names) > 1 or len(attention_names) > 1 or not parts:
        raise UserError(
            f"{where}: {key} is <local>+<global> with one of each at most (None leaves one out), "
            f"received '{tree.gt.layer_type}'."
        )

    def local(dim_in: int, dim_out: int) -> nn.Module:
        (name,) = local_names
        kind = registry.lookup("layers/local", name, where)
        if getattr(kind, "needs_edges", False) and not has_edges:
            raise UserError(
                f"{where}: {name} reads edge features; set dataset.edge_encoder to true "
                f"(DummyEdge where the data set has none)."
            )
        supplied = {
            "dim_in": dim_in,
            "dim_out": dim_out,
            "dim_edge": dim_edge,
            "heads": tree.gt.n_heads,
            "dropout": tree.gt.dropout,
            "act": tree.gnn.act,
        }
        with blame(config, f"gt.{name}", key):
            layer: nn.Module = registry.construct(kind, config.own("gt", name), supplied)
        return layer

    def attention() -> nn.Module:
        (name,) = attention_names
        kind = registry.lookup("layers/attention", name, where)
        supplied = {"dim": tree.gt.dim_hidden, "heads": tree.gt.n_heads, "dropout": tree.gt.attn_dropout}
        with blame(config, f"gt.{name}", "gt.n_heads", key):
            layer: nn.Module = registry.construct(kind, config.own("gt", name), supplied)
        return layer

    return (local if local_names else None), (attention if attention_names else None)


def _block(
    config: Config,
    local: Callable[[int, int], nn.Module] | None,
    attention: Callable[[], nn.Module] | None,
) -> nn.Module:
    tree = config.tree
    if tree.gt.layer_norm and tree.gt.batch_norm:
        raise UserError(
            f"{config.where('gt.layer_norm')}: gt.layer_norm and gt.batch_norm exclude each other; set one to false."
        )
    dim = tree.gt.dim_hidden
    with blame(config, "gt.layer_type"):
        return GPSBlock(
            dim,
            local=local(dim, dim) if local else None,
            attention=attention() if attention else None,
            dropout=tree.gt.dropout,
            act=tree.gnn.act,
            norm="layer" if tree.gt.layer_norm else "batch" if tree.gt.batch_norm else "none",
        )


def _head(config: Config, info: DataInfo, dim_in: int) -> nn.Module:
    tree = config.tree
    name = tree.gnn.head
    if name == "default":
        if info.task not in HEAD_OF_TASK:
            raise UserError(
                f"{config.where('dataset.task')}: no default head for dataset.task {info.task}; set gnn.head."
            )
        name = HEAD_OF_TASK[info.task]
    kind = registry.lookup("heads", name, config.where("gnn.head"))
    supplied = {
        "dim_in": dim_in,
        "out_dim": info.out_dim,
        "layers_post_mp": max(tree.gnn.layers_post_mp, 1),  # GraphGym: 0 stands for 1
        "pooling": tree.model.graph_pooling,
        "act": tree.gnn.act,
        "dropout": tree.gnn.dropout,
        "batchnorm": tree.gnn.batchnorm,
    }
    with blame(config, "model.graph_pooling", "gnn.head"):
        head: nn.Module = registry.construct(kind, config.own("gnn", name), supplied)
    return head


def task(config: Config, info: DataInfo) -> Task:
    """Loss and metrics of the configuration."""
    names = list(dict.fromkeys([*logged_metrics(info), *config.tree.custom_metrics]))
    with blame(config, "custom_metrics"):
        return Task(loss(config, info), names, info.task_type, info.out_dim, thresh=config.tree.model.thresh)


def loss(config: Config, info: DataInfo) -> Callable[..., Any]:
    """The loss function of the configuration."""
    tree = config.tree
    kind = registry.lookup("tasks/losses", tree.model.loss_fun, config.where("model.loss_fun"))
    supplied = {"task_type": info.task_type, "out_dim": info.out_dim, "size_average": tree.model.size_average}
    with blame(config, "model.loss_fun"):
        built: Callable[..., Any] = registry.construct(kind, config.own("model", tree.model.loss_fun), supplied)
    return built


def optimizer(config: Config, model: nn.Module) -> Any:
    """The optimiser of a model; the attention branch of two-branch models may have a weight decay of its own."""
    optim = config.tree.optim
    own = {} if optim.attention_weight_decay is None else {"attention_branch": optim.attention_weight_decay}
    kind = registry.lookup("train/optimizers", optim.optimizer, config.where("optim.optimizer"))
    with blame(config, "optim.attention_weight_decay", "optim.optimizer"):
        groups = parameter_groups(model, optim.weight_decay, own)
    supplied = {"params": groups, "lr": optim.base_lr, "weight_decay": optim.weight_decay, "momentum": optim.momentum}
    with blame(config, "optim.optimizer"):
        return registry.construct(kind, config.own("optim", optim.optimizer), supplied)


def schedule(config: Config, optimizer: Any) -> Any:
    """The learning-rate schedule over an optimiser."""
    optim = config.tree.optim
    kind = registry.lookup("train/schedules", optim.scheduler, config.where("optim.scheduler"))
    names = ("max_epoch", "num_warmup_epochs", "steps", "lr_decay", "reduce_factor", "schedule_patience", "min_lr")
    supplied = {"optimizer": optimizer, **{name: optim[name] for name in names}}
    with blame(config, "optim.scheduler"):
        return registry.construct(kind, config.own("optim", optim.scheduler), supplied)


def settings(config: Config, info: DataInfo) -> Settings:
    """What the training loop is told."""
    optim, train = config.tree.optim, config.tree.train
    with blame(config, "optim.clip_grad_norm_value", "optim.max_epoch"):
        return Settings(
            max_epoch=optim.max_epoch,
            metric=info.metric,
            maximize=info.maximize,
            eval_period=train.eval_period,
            ckpt_period=train.ckpt_period,
            enable_ckpt=train.enable_ckpt,
            ckpt_best=train.ckpt_best,
            batch_accumulation=optim.batch_accumulation,
            clip_grad_norm=optim.clip_grad_norm,
            clip_grad_norm_value=optim.clip_grad_norm_value,
            patience=train.early_stop_patience,
        )


def fabric(config: Config) -> Fabric:
    """Device, number format and processes, not launched yet."""
    tree = config.tree
    with blame(config, "accelerator", "devices", "strategy", "precision"):
        return make_fabric(tree.accelerator, tree.devices, tree.strategy, tree.precision)


def reporters(config: Config, title: str, info: DataInfo) -> list[Reporter]:
    """Progress bar and loggers of one run."""
    tree = config.tree
    chosen: list[Reporter] = [ProgressBar(title=title)]
    if tree.csv_each_run:
        chosen.append(CSVLogger())
    if tree.tensorboard_each_run:
        chosen.append(TensorBoardLogger())
    if tree.wandb.use:
        name = tree.wandb.name or f"{info.name}.{title}"
        chosen.append(WandbLogger(tree.wandb.project, tree.wandb.entity, name, config.plain()))
    return chosen


def layer_names(model: nn.Module) -> list[str]:
    """The layers of a model in order: ``<local>+<global>`` for a block, the registered name for a single layer."""
    found, inside = [], set()
    kinds = {room: {registry.lookup(room, name) for name in registry.names(room)} for room in GRAPH_LAYERS}
    for module in model.modules():
        if id(module) in inside:
            continue
        if isinstance(module, GPSBlock):
            parts = (module.local, module.attention)
            found.append("+".join("None" if part is None else part.registered_name for part in parts))
            inside |= {id(part) for part in module.modules()}
        elif any(type(module) in members for members in kinds.values()):
            found.append(module.registered_name)
    return found
