"""From configuration to loss and metrics."""

from __future__ import annotations

from graphbench import registry
from graphbench.config import Config
from graphbench.factory.config_errors import config_errors
from graphbench.factory.data import dataset_builder
from graphbench.structures import DataInfo
from graphbench.tasks.contract import LossContext
from graphbench.tasks.loss import Loss
from graphbench.tasks.task import Task, logged_metrics


def build_task(config: Config, info: DataInfo) -> Task:
    """Loss and metrics of the configuration."""
    card = None if config.tree.metric_best == "auto" else dataset_builder(config).card
    of_card = [] if card is None else [card.metric]  # reported whatever selects the epoch
    names = list(dict.fromkeys([*logged_metrics(info), *of_card, *config.tree.custom_metrics]))
    with config_errors(config, "custom_metrics"):
        return Task(build_loss(config, info), names, info.task_type, info.out_dim, thresh=config.tree.model.thresh)


def build_loss(config: Config, info: DataInfo) -> Loss:
    """The loss function of the configuration."""
    tree = config.tree
    loss_class = registry.lookup("tasks/losses", tree.model.loss_fun, config.where("model.loss_fun"))
    context = LossContext(task_type=info.task_type, out_dim=info.out_dim, size_average=tree.model.size_average)
    arguments = config.component_args("model", tree.model.loss_fun)
    with config_errors(config, f"model.{tree.model.loss_fun}", "model.loss_fun"):
        loss: Loss = registry.construct(loss_class, arguments, context)
    return loss
