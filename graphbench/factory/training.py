"""From configuration to optimiser, schedule, loop settings, device and reporters."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer

from graphbench import registry
from graphbench.config import Config
from graphbench.factory.config_errors import config_errors
from graphbench.factory.wandb_name import wandb_name, wandb_tags
from graphbench.layers.compiled import compile_layers
from graphbench.structures import DataInfo
from graphbench.train.accelerator import make_fabric
from graphbench.train.contract import OptimizerContext, ScheduleContext
from graphbench.train.fabric import Fabric
from graphbench.train.loggers import CSVLogger, TensorBoardLogger, WandbLogger
from graphbench.train.mlflow_logger import MLflowLogger
from graphbench.train.parameter_groups import parameter_groups
from graphbench.train.profiler import Profiler
from graphbench.train.progress import ProgressBar
from graphbench.train.reporter import Reporter
from graphbench.train.schedule import Schedule
from graphbench.train.settings import TrainerSettings
from graphbench.train.signals import StopRequest

logger = logging.getLogger("graphbench")


def build_optimizer(config: Config, model: nn.Module) -> Optimizer:
    """The optimiser of a model; attention branches may have another weight decay, implicit filters another rate."""
    optim = config.tree.optim
    weight_decay_of = {}
    if optim.attention_weight_decay is not None:
        weight_decay_of["attention_branch"] = optim.attention_weight_decay
    filled = {"filter_lr": "optim.filter_lr", "weight_decay_of": "optim.attention_weight_decay"}
    with config_errors(config, "optim.optimizer", filled=filled):
        groups = parameter_groups(model, optim.weight_decay, weight_decay_of, filter_lr=optim.filter_lr)
    return optimizer_of(config, groups)


def optimizer_of(config: Config, groups: Sequence[dict[str, Any]]) -> Optimizer:
    """The optimiser of parameter groups."""
    optim = config.tree.optim
    optimizer_class = registry.lookup(registry.OPTIMIZERS, optim.optimizer, config.where("optim.optimizer"))
    context = OptimizerContext(
        params=groups,
        lr=optim.base_lr,
        weight_decay=optim.weight_decay,
        momentum=optim.momentum,
    )
    with config_errors(config, f"optim.{optim.optimizer}", "optim.optimizer"):
        return registry.construct(optimizer_class, config.component_args("optim", optim.optimizer), context)


def build_schedule(config: Config, optimizer: Optimizer) -> Schedule:
    """The learning-rate schedule over an optimiser."""
    optim = config.tree.optim
    schedule_class = registry.lookup(registry.SCHEDULES, optim.scheduler, config.where("optim.scheduler"))
    context = ScheduleContext(
        optimizer=optimizer,
        max_epoch=optim.max_epoch,
        num_warmup_epochs=optim.num_warmup_epochs,
        steps=optim.steps,
        lr_decay=optim.lr_decay,
        reduce_factor=optim.reduce_factor,
        schedule_patience=optim.schedule_patience,
        min_lr=optim.min_lr,
    )
    with config_errors(config, f"optim.{optim.scheduler}", "optim.scheduler"):
        if optim.scheduler_step == "iteration" and not schedule_class.follows_epoch:
            raise ValueError(f"{optim.scheduler} changes with the validation loss; set optim.scheduler_step to epoch")
        return registry.construct(schedule_class, config.component_args("optim", optim.scheduler), context)


def build_settings(config: Config, info: DataInfo) -> TrainerSettings:
    """Settings of the trainer."""
    optim, train, by_loss = config.tree.optim, config.tree.train, config.selects_by_loss
    filled = {field: f"optim.{field}" for field in ("max_epoch", "batch_accumulation", "clip_grad_norm_value")}
    with config_errors(config, "train.compile", "train.capture"):
        if train.compile and train.capture == "always":
            raise ValueError("compiled blocks cannot be captured: set train.capture to auto, or train.compile to false")
    with config_errors(config, "optim.max_epoch", filled=filled):
        return TrainerSettings(
            max_epoch=optim.max_epoch,
            metric="loss" if by_loss else info.metric,
            maximize=info.maximize and not by_loss,
            eval_period=train.eval_period,
            metrics_period=train.metrics_period,
            ckpt_period=train.ckpt_period,
            enable_ckpt=train.enable_ckpt,
            ckpt_best=train.ckpt_best,
            batch_accumulation=optim.batch_accumulation,
            clip_grad_norm=optim.clip_grad_norm,
            clip_grad_norm_value=optim.clip_grad_norm_value,
            schedule_every_step=optim.scheduler_step == "iteration",
            patience=train.early_stop_patience,
            capture="never" if train.compile else train.capture,
        )


def compile_model(config: Config, model: nn.Module) -> None:
    """Compiles the layers of a model in place, where ``train.compile`` asks for it."""
    if config.tree.train.compile:
        with config_errors(config, "train.compile"):
            compile_layers(model)
        logger.info("train.compile: layers are compiled in their first steps, which may take minutes.")


def build_fabric(config: Config) -> Fabric:
    """Device, number format and processes, not launched yet."""
    tree = config.tree
    keys = ("accelerator", "devices", "strategy", "precision", "timeout")
    with config_errors(config, *keys, filled={key: key for key in keys}):
        return make_fabric(tree.accelerator, tree.devices, tree.strategy, tree.precision, timeout=tree.timeout)


def build_reporters(
    config: Config,
    title: str,
    info: DataInfo,
    run_id: str,
    model: nn.Module,
    *,
    together: bool = False,
    stop: StopRequest | None = None,
) -> list[Reporter]:
    """Progress bar and loggers of one run.

    Args:
        config: a loaded configuration.
        title: text in front of what is shown.
        info: facts of the data.
        run_id: name of the run's folder.
        model: model whose layers a profile tells apart.
        together: others are trained at the same time: lines instead of a bar each.
        stop: asked for the end when nobody reads the progress any more.
    """
    tree = config.tree
    reporters: list[Reporter] = [ProgressBar(title=title, lines=together, stop=stop)]
    if tree.csv_each_run:
        reporters.append(CSVLogger())
    if tree.tensorboard_each_run:
        reporters.append(TensorBoardLogger())
    if tree.profile:
        reporters.append(Profiler(tree.profile, model))
    tags = wandb_tags(config, info.name)
    if tree.mlflow.use:
        name = tree.mlflow.name or wandb_name(config, run_id)
        labels = {"config": config.name, "hash": config.hash, "tags": ", ".join(tags)}
        reporters.append(MLflowLogger(tree.mlflow.project or "graphbench", name, config.values, labels))
    if tree.wandb.use:
        name = tree.wandb.name or wandb_name(config, run_id)
        place = (tree.wandb.project, tree.wandb.entity, name)
        reporters.append(WandbLogger(*place, config.plain(), group=config.name, tags=tags, among_others=together))
    return reporters
