"""From configuration to the outline of a model: shapes without values, without data where the data set is declared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from graphbench.config import Config
from graphbench.data.builder import LoadedDataset
from graphbench.errors import NeedsData, UserError
from graphbench.factory.data import declared_info, read_data
from graphbench.factory.loaders import check_samplers
from graphbench.factory.model import build_model, layer_names
from graphbench.factory.task import build_task, check_ranking
from graphbench.factory.training import build_optimizer, build_schedule
from graphbench.factory.transforms import build_transforms
from graphbench.models.contract import Model
from graphbench.structures import DataInfo
from graphbench.tasks.task import Task
from graphbench.train.parameter_groups import count_parameters

MOST_MODULES = 100_000
"""Most modules of a model: the deepest published ones have a thousand."""


@dataclass(frozen=True)
class ModelSummary:
    """Facts of a configuration's model that ``--dry_run`` prints.

    Attributes:
        dataset: name of the data set.
        metric: metric that is compared, and selects the best epoch unless ``metric_best`` is the loss.
        params: trainable parameters.
        layers: names of the layers in order, see :func:`~graphbench.factory.model.layer_names`.
    """

    dataset: str
    metric: str
    params: int
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Outline:
    """Model of a configuration on the meta device, with its task and the facts of its data.

    Attributes:
        data: the data set, where only the data say what the model looks like.
    """

    config: Config
    summary: ModelSummary
    info: DataInfo
    model: Model
    task: Task
    data: LoadedDataset | None


def build_outline(config: Config) -> Outline:
    """The model without values, the task and the facts of a configuration, as far as possible without its data.

    Args:
        config: a loaded configuration, with the architecture it adopts.

    Raises:
        UserError: components or keys that do not fit each other.
    """
    info, loaded = declared_info(config), None
    try:
        model = None if info is None else _model(config, info)
    except NeedsData:
        model = None
    if info is None or model is None:
        loaded = read_data(config)
        info = loaded.card.info(loaded.store)
        model = _model(config, info)
    build_transforms(config)  # refuses arguments that only they know
    check_samplers(config, info, model)
    task = build_task(config, info)
    check_ranking(config, info, model, task)
    with suppress(RuntimeError, NotImplementedError):  # a plug-in looks at values, which are not there yet
        build_schedule(config, build_optimizer(config, model))
    summary = ModelSummary(info.name, info.metric, count_parameters(model), tuple(layer_names(model)))
    return Outline(config, summary, info, model, task, loaded)


class _WithoutInitialisation(TorchFunctionMode):
    """Leaves out the functions of ``torch.nn.init``, which on the meta device import PyTorch's compiler (a second)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def _model(config: Config, info: DataInfo) -> Model:
    """The model with parameters that have shapes but no values: nothing is allocated or initialised."""
    try:
        with torch.device("meta"), _WithoutInitialisation(), _most_modules(config):
            return build_model(config, info)
    except (RuntimeError, NotImplementedError) as error:  # a plug-in looks at values while it is built
        if "overflow" in str(error):
            raise UserError(f"the model cannot be built: {str(error).splitlines()[0]}. Is a width meant?") from None
        return build_model(config, info)


@contextmanager
def _most_modules(config: Config) -> Iterator[None]:
    """Refuses a model of more than :data:`MOST_MODULES` modules while it is being built, instead of building on.

    Raises:
        UserError: naming the largest number in the configuration.
    """
    count = 0

    def registered(module: nn.Module, name: str, submodule: nn.Module | None) -> None:
        nonlocal count
        count += 1
        if count > MOST_MODULES:
            numbers = {key: value for key, value in config.values.items() if type(value) is int}
            key = max((key for key in numbers if config.is_set(key)), key=lambda key: numbers[key], default="gt.layers")
            raise UserError(
                f"{config.where(key)}: over {MOST_MODULES:,} modules in the model; is {key} {numbers[key]:,} meant?"
            )

    handle = nn.modules.module.register_module_module_registration_hook(registered)
    try:
        yield
    finally:
        handle.remove()
