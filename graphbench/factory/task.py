"""From configuration to loss and metrics."""

from __future__ import annotations

from torch import nn

from graphbench import registry
from graphbench.config import Config
from graphbench.contract import HasStatistics
from graphbench.errors import UserError
from graphbench.factory.config_errors import config_errors
from graphbench.factory.data import dataset_builder
from graphbench.heads.contract import Head
from graphbench.heads.edge import EdgeHead
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
        return registry.construct(loss_class, arguments, context)


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
