"""From configuration to loss and metrics."""

from __future__ import annotations

import torch
from torch import nn

from graphbench import registry
from graphbench.config import Config
from graphbench.contract import HasStatistics
from graphbench.data.builder import LoadedDataset
from graphbench.data.splits import Splits, without_target
from graphbench.errors import ContractError, UserError
from graphbench.factory.config_errors import config_errors
from graphbench.factory.data import dataset_builder
from graphbench.heads.contract import Head
from graphbench.heads.edge import EdgeHead
from graphbench.plug_ins import place
from graphbench.structures import DataInfo
from graphbench.tasks.contract import LossContext
from graphbench.tasks.loss import Loss
from graphbench.tasks.metric import StatisticMetric
from graphbench.tasks.task import Task, logged_metrics

_OF_RECORDS = (
    "epoch",
    "eta",
    "eta_hours",
    "gpu_memory",
    "loss",
    "lr",
    "n",
    "params",
    "runs",
    "time_epoch",
    "time_iter",
)
"""Names that stand beside those of metrics in records and curves, where ``_std`` and ``_n`` are added to these."""


def build_task(config: Config, info: DataInfo) -> Task:
    """Loss and metrics of the configuration.

    Raises:
        UserError: a metric is for other tasks, or its name is one that records have for something else.
    """
    for name in config.tree.custom_metrics:
        if name in _OF_RECORDS or name.endswith(("_std", "_n")):
            raise UserError(
                f"{config.where('custom_metrics')}: a metric cannot be called '{name}': records have this name for "
                f"something else ({', '.join(_OF_RECORDS)}, and what ends in _std or _n)."
            )
    card = None if config.tree.metric_best == "auto" else dataset_builder(config).card
    of_card = [] if card is None else [card.metric]  # reported whatever selects the epoch
    names = list(dict.fromkeys([*logged_metrics(info), *of_card, *config.tree.custom_metrics]))
    with config_errors(config, "custom_metrics", filled={"thresh": "model.thresh"}):
        return Task(build_loss(config, info), names, info.task_type, info.out_dim, thresh=config.tree.model.thresh)


def build_loss(config: Config, info: DataInfo) -> Loss:
    """The loss function of the configuration."""
    tree = config.tree
    loss_class = registry.lookup(registry.LOSSES, tree.model.loss_fun, config.where("model.loss_fun"))
    if info.task == "graph" and tree.train.batch_size < loss_class.least_rows:
        raise UserError(
            f"{config.where('train.batch_size')}: train.batch_size must be at least {loss_class.least_rows} for "
            f"model.loss_fun {tree.model.loss_fun}, which is 0 for fewer graphs; received {tree.train.batch_size}."
        )
    context = LossContext(task_type=info.task_type, out_dim=info.out_dim, size_average=tree.model.size_average)
    arguments = config.component_args("model", tree.model.loss_fun)
    with config_errors(config, "model.loss_fun", f"model.{tree.model.loss_fun}"):
        loss = registry.construct(loss_class, arguments, context)
    for name, value in vars(loss).items():
        held = value.parameters() if isinstance(value, nn.Module) else [value]
        if any(isinstance(each, nn.Parameter) and each.requires_grad for each in held):
            raise ContractError(
                f"{place(loss_class)}: '{name}' of {loss_class.__qualname__} would be trained by nobody: a loss has no "
                "parameters. Put what is learned into the model or its head."
            )
    return loss


def check_ranking(config: Config, info: DataInfo, model: nn.Module, task: Task) -> None:
    """Refuses to choose the epoch by a metric that the head should compute and does not.

    Raises:
        UserError: naming both.
    """
    head = next((part for part in model.modules() if isinstance(part, Head)), None)
    scored = isinstance(head, EdgeHead) and head.decoding == "concat"  # by pair, ranks would need one pass per node
    computed = not scored and isinstance(head, HasStatistics)
    ranks = isinstance(task.metrics.get(info.metric), StatisticMetric)
    if ranks and not computed and not config.selects_by_loss:
        raise UserError(
            f"{config.where('metric_best')}: the epoch is chosen by {info.metric}, which the head computes: use "
            "gnn.head inductive_edge with model.edge_decoding dot or cosine_similarity, or another metric_best."
        )


def check_targets(config: Config, loaded: LoadedDataset, splits: Splits) -> None:
    """Refuses targets that the loss cannot take, and a selecting metric without a value for the validation examples.

    Args:
        config: a loaded configuration.
        loaded: the data.
        splits: splits of the run.

    Raises:
        UserError: with the metric's own reason, e.g. that all labels are of one class.
    """
    y, card, info = loaded.store.y, loaded.card, loaded.card.info(loaded.store, splits.train)
    if y is None:
        return
    task = build_task(config, info)
    if card.transductive and info.task_type != "classification_multilabel":
        for name, rows in splits.parts().items():
            unknown = rows[without_target(y[rows])]
            if len(unknown):
                raise UserError(
                    f"{config.where('dataset.split_mode')}: the part '{name}' of the split names {info.task} "
                    f"{int(unknown[0])}, which has no target (y is {y[unknown[0]].tolist()})."
                )
    with config_errors(config, "dataset.task_type"):
        # Of one graph's nodes those in a split: the others may have no targets.
        task.check_targets(y[torch.cat(list(splits.parts().values()))] if card.transductive else y)
    by_rows = info.task == "graph" or (info.task == "node" and card.transductive)
    selects = by_rows and info.metric in task.metrics and not config.selects_by_loss
    if not selects or info.task_type == "subtoken_prediction":
        return
    scores = torch.rand(len(splits.val), info.out_dim, generator=torch.Generator().manual_seed(0))
    task.evaluate(scores, y[splits.val], only=[info.metric], loss=False)
    reason = task.undefined.get(info.metric)
    if reason is not None and not isinstance(task.metrics[info.metric], StatisticMetric):
        raise UserError(
            f"{config.where('metric_best')}: the epoch is chosen by {info.metric} of the validation examples, which "
            f"has no value for them: {reason}. Choose another split, or another metric_best."
        )
