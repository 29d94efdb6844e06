"""Namespaces of components: their paths, base classes and contexts."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from graphbench.data.builder import DatasetBuilder
    from graphbench.data.large.loader import LargeLoader
    from graphbench.encoders.contract import FeatureEncoder, PositionalEncoder
    from graphbench.heads.contract import Head
    from graphbench.layers.contract import Attention, Block, LocalLayer
    from graphbench.models.contract import Model
    from graphbench.tasks.loss import Loss
    from graphbench.tasks.metric import Metric
    from graphbench.train.schedule import Schedule
    from graphbench.transforms.base import Transform

T = TypeVar("T")


class Namespace(str, Generic[T]):
    """Path of a namespace (``"layers/attention"``), typed by the base class ``T`` of its components.

    Attributes:
        base: ``module:Class`` of ``T``, imported when it is needed.
        context: ``module:Class`` of the frozen dataclass that ``FromContext`` parameters are fields of.
    """

    base: str
    context: str

    def __new__(cls, path: str, base: str, context: str) -> Self:  # noqa: D102
        namespace = super().__new__(cls, path)
        namespace.base, namespace.context = base, context
        return namespace


DATASETS: Namespace[DatasetBuilder] = Namespace(
    "data/datasets", "graphbench.data.builder:DatasetBuilder", "graphbench.data.context:DatasetContext"
)
SAMPLERS: Namespace[LargeLoader] = Namespace(
    "data/large", "graphbench.data.large.loader:LargeLoader", "graphbench.data.large.context:SamplerContext"
)
TRANSFORMS: Namespace[Transform] = Namespace(
    "transforms", "graphbench.transforms.base:Transform", "graphbench.transforms.context:TransformContext"
)
NODE_ENCODERS: Namespace[FeatureEncoder] = Namespace(
    "encoders/node", "graphbench.encoders.contract:FeatureEncoder", "graphbench.encoders.contract:FeatureContext"
)
EDGE_ENCODERS: Namespace[FeatureEncoder] = Namespace(
    "encoders/edge", "graphbench.encoders.contract:FeatureEncoder", "graphbench.encoders.contract:FeatureContext"
)
POSITIONAL_ENCODERS: Namespace[PositionalEncoder] = Namespace(
    "encoders/positional",
    "graphbench.encoders.contract:PositionalEncoder",
    "graphbench.encoders.contract:PositionalContext",
)
LOCAL_LAYERS: Namespace[LocalLayer] = Namespace(
    "layers/local", "graphbench.layers.contract:LocalLayer", "graphbench.layers.contract:LayerContext"
)
ATTENTIONS: Namespace[Attention] = Namespace(
    "layers/attention", "graphbench.layers.contract:Attention", "graphbench.layers.contract:LayerContext"
)
BLOCKS: Namespace[Block] = Namespace(
    "layers/blocks", "graphbench.layers.contract:Block", "graphbench.layers.contract:LayerContext"
)
MODELS: Namespace[Model] = Namespace(
    "models", "graphbench.models.contract:Model", "graphbench.models.contract:ModelContext"
)
HEADS: Namespace[Head] = Namespace("heads", "graphbench.heads.contract:Head", "graphbench.heads.contract:HeadContext")
LOSSES: Namespace[Loss] = Namespace(
    "tasks/losses", "graphbench.tasks.loss:Loss", "graphbench.tasks.contract:LossContext"
)
METRICS: Namespace[Metric] = Namespace(
    "tasks/metrics", "graphbench.tasks.metric:Metric", "graphbench.tasks.contract:MetricContext"
)
OPTIMIZERS: Namespace[Optimizer] = Namespace(
    "train/optimizers", "torch.optim.optimizer:Optimizer", "graphbench.train.contract:OptimizerContext"
)
SCHEDULES: Namespace[Schedule] = Namespace(
    "train/schedules", "graphbench.train.schedule:Schedule", "graphbench.train.contract:ScheduleContext"
)

NAMESPACES: Mapping[str, Namespace[Any]] = {
    str(namespace): namespace
    for namespace in (
        *(
            DATASETS,
            SAMPLERS,
            TRANSFORMS,
            NODE_ENCODERS,
            EDGE_ENCODERS,
            POSITIONAL_ENCODERS,
            LOCAL_LAYERS,
            ATTENTIONS,
            BLOCKS,
        ),
        *(MODELS, HEADS, LOSSES, METRICS, OPTIMIZERS, SCHEDULES),
    )
}
"""Namespaces by path, for names of namespaces that are data."""

FAMILIES: Mapping[str, Mapping[str, str]] = {
    "data/datasets": {"PyG-": "graphbench.data.datasets.pyg_classes:register_class"},
}
"""Namespace -> prefix of names -> ``module:function`` that registers such a name, if there is such a thing."""


def base_class(namespace: str) -> type:
    """Base class of every component of a namespace."""
    base: type = imported(NAMESPACES[namespace].base)
    return base


def context_class(namespace: str) -> type:
    """The dataclass whose fields ``FromContext`` parameters are filled from."""
    context: type = imported(NAMESPACES[namespace].context)
    return context


def imported(path: str) -> Any:
    """Object that a path ``module:name`` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
