"""From configuration to the loaders of the training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphbench import registry
from graphbench.blockwise.model import BlockwiseModel
from graphbench.config import Config
from graphbench.contract import HasNodeParameters
from graphbench.data.builder import LoadedDataset
from graphbench.data.large.pair_loader import PAIR_SAMPLERS
from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.errors import UserError
from graphbench.factory.config_errors import config_errors
from graphbench.factory.large_loaders import build_large_loader, check_blockwise, sampler_class
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.transforms import batch_transform, build_transforms
from graphbench.models.contract import Model
from graphbench.structures import DataInfo, DataLoaders

if TYPE_CHECKING:
    from graphbench.train.fabric import Fabric


_OF_WHOLE_GRAPHS = ("pair", "edge_set", "hops")
"""Levels of transforms whose outputs belong to all nodes of a graph together."""


def check_samplers(config: Config, info: DataInfo, model: Model) -> None:
    """Refuses ``train.sampler`` and ``val.sampler`` that do not fit each other or the model; needs no data.

    Args:
        config: a loaded configuration.
        info: facts of the data.
        model: model of the configuration; its parameters need no values.

    Raises:
        UserError: naming both.
    """
    train, evaluation = config.tree.train.sampler, config.tree.val.sampler
    sampler, of_evaluation = sampler_class(config), sampler_class(config, "val.sampler")
    if evaluation != "full_batch" and sampler is None:
        raise UserError(
            f"{config.where('val.sampler')}: val.sampler {evaluation} is for graphs that are cut in training as well; "
            "set train.sampler to one that cuts them, e.g. random_node or neighbor."
        )
    if sampler is not None and of_evaluation is not None and evaluation not in sampler.evaluations:
        if not of_evaluation.predicts:
            raise UserError(f"{config.where('val.sampler')}: {evaluation} is for training alone, not for val.sampler.")
        if evaluation != train:
            raise UserError(
                f"{config.where('val.sampler')}: val.sampler {evaluation} predicts on batches like those of "
                f"train.sampler {evaluation}; received train.sampler {train}."
            )
    if info.task == "link_pred" and not {train, evaluation} <= {"full_batch", *PAIR_SAMPLERS}:
        raise UserError(
            f"{config.where('train.sampler')}: in link tasks train.sampler and val.sampler are full_batch, "
            f"{' or '.join(PAIR_SAMPLERS)}; received {train} and {evaluation}."
        )
    cuts = sampler is not None and sampler.cuts_graph
    if cuts and any(isinstance(module, HasNodeParameters) for module in model.modules()):
        raise UserError(
            f"{config.where('train.sampler')}: train.sampler {train} cuts the graph, and model.type "
            f"{config.tree.model.type} has parameters of each of its nodes; set train.sampler to full_batch."
        )
    transforms = build_transforms(config) if cuts else {}
    whole = [name for name, transform in transforms.items() if transform.level in _OF_WHOLE_GRAPHS]
    if whole:
        raise UserError(
            f"{config.where('train.sampler')}: train.sampler {train} cuts the graph, and {', '.join(whole)} of pairs "
            "of nodes cannot be cut along; set train.sampler to full_batch."
        )
    if sampler is not None and batch_transform(config) is not None:
        raise UserError(
            f"{config.where('dataset.distances')}: dataset.distances batch measures whole graphs, and train.sampler "
            f"{train} cuts them; set train.sampler to full_batch."
        )
    if sampler is not None and sampler.weights_nodes and config.tree.train.sample_coverage:
        obstacle = build_task(config, info).weight_obstacle()
        if obstacle is not None:
            raise UserError(
                f"{config.where('train.sample_coverage')}: GraphSAINT's normalisation weights the loss of every node, "
                f"and {obstacle}; set train.sample_coverage to 0, or model.loss_fun to another loss."
            )
    if evaluation == "blocks":
        if not isinstance(model, BlockwiseModel):
            raise UserError(
                f"{config.where('val.sampler')}: model.type {config.tree.model.type} cannot be evaluated block by "
                f"block; set val.sampler to full_batch or random_node ({_names_of_blockwise()} can)."
            )
        with config_errors(config, "val.sampler"):
            check_blockwise(build_model(config, info))


def _names_of_blockwise() -> str:
    able = [component for component in registry.components(registry.MODELS) if issubclass(component, BlockwiseModel)]
    return ", ".join(component.registered_name for component in able)


def build_loaders(config: Config, loaded: LoadedDataset, splits: Splits, seed: int, fabric: Fabric) -> DataLoaders:
    """The loader that ``train.sampler`` names.

    Args:
        config: a loaded configuration.
        loaded: the data, with encodings, see :func:`~graphbench.factory.split_data.data_of_split`.
        splits: splits of this run.
        seed: seed of the shuffling, together with the epoch.
        fabric: device of the batches, number of processes and rank of this one.
    """
    train = config.tree.train
    process = LoaderProcess(seed, fabric.device, fabric.global_rank, fabric.world_size)
    if sampler_class(config) is None:
        keys = ("dataset.resample_negative", "train.node_budget", "train.batching", "train.resident")
        filled = {"node_budget": "train.node_budget", "eval_node_budget": "val.node_budget"}
        with config_errors(config, *keys, "train.batch_size", "dataset.split", filled=filled):
            return GraphLoaders(
                loaded.store,
                splits,
                process,
                batch_size=train.batch_size,
                batching=train.batching,
                node_budget=train.node_budget,
                eval_node_budget=config.tree.val.node_budget,
                resident=train.resident,
                transductive=loaded.card.transductive,
                resample_negatives=config.tree.dataset.resample_negative,
                batch_transform=batch_transform(config),
            )
    return build_large_loader(config, loaded, splits, process)
