"""From configuration to the transforms that precompute what encoders and layers read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from graphbench import registry
from graphbench.config import Config
from graphbench.config.layer_type import component_names
from graphbench.factory.config_errors import config_errors
from graphbench.factory.encoders import encoding_arguments
from graphbench.factory.layers import layers_in_use, reads_expander
from graphbench.layers.contract import GraphLayer
from graphbench.models.contract import Model
from graphbench.registry import UNSET
from graphbench.structures import GraphBatch
from graphbench.transforms.algorithms.batch_hops import with_hops
from graphbench.transforms.algorithms.cache import describe
from graphbench.transforms.base import Transform
from graphbench.transforms.context import TransformContext


def build_transforms(config: Config) -> dict[str, Transform]:
    """The transforms of a configuration: by the name of the encoder that reads them, of layers by their own."""
    dataset = config.tree.dataset
    transforms = _of_encoders(config)
    prep = config.tree.prep
    if prep.exp and prep.use_exp_edges and reads_expander(config.layer_specs("gt.layer_type")):
        # Drawn with one fixed seed: the same expanders for every run of a data set, from one cache.
        expander = {
            "degree": prep.exp_deg,
            "algorithm": prep.exp_algorithm,
            "max_num_iters": prep.exp_max_num_iters,
        }
        with config_errors(config, "prep"):
            transforms["expander"] = registry.construct(registry.lookup(registry.TRANSFORMS, "Expander"), expander)
    transforms |= _of_layers(config)
    if dataset.distances == "batch":
        transforms.pop("ShortestPaths", None)
    return transforms


def batch_transform(config: Config) -> Callable[[GraphBatch], GraphBatch] | None:
    """The computation of hop distances for every batch (``dataset.distances batch``), or None."""
    if config.tree.dataset.distances != "batch":
        return None
    from graphbench.transforms.shortest_paths import ShortestPaths

    transform = _of_layers(config).get("ShortestPaths")
    return partial(with_hops, cutoff=transform.cutoff) if isinstance(transform, ShortestPaths) else None


def _of_encoders(config: Config) -> dict[str, Transform]:
    """Transforms whose output encoders read."""
    dataset = config.tree.dataset
    names = []
    if dataset.node_encoder:
        names += component_names(dataset.node_encoder_name)
    if dataset.edge_encoder:
        names += component_names(dataset.edge_encoder_name)
    context = TransformContext(edge_types=dataset.edge_encoder_num_types or None)
    transforms: dict[str, Transform] = {}
    for name in names:
        if name not in registry.names(registry.POSITIONAL_ENCODERS):
            continue
        transform = registry.lookup(registry.POSITIONAL_ENCODERS, name).transform
        if transform is not None:
            with config_errors(config, f"posenc_{name}"):
                transform_class = registry.lookup(registry.TRANSFORMS, transform)
                transforms[name] = registry.construct(transform_class, encoding_arguments(config, name), context)
    return transforms


def _of_layers(config: Config) -> dict[str, Transform]:
    """Transforms that layers and the model require (``required_transforms``), from their arguments."""
    transforms: dict[str, Transform] = {}
    model = config.tree.model.type
    components: list[tuple[str, str, type[GraphLayer | Model]]] = [*layers_in_use(config)]
    components.append(("gt", model, registry.lookup(registry.MODELS, model)))
    for group, name, component in components:
        parameters = registry.parameters(component).values()
        defaults = {parameter.name: parameter.default for parameter in parameters if parameter.default is not UNSET}
        with config_errors(config, f"{group}.{name}"):
            required = component.required_transforms(defaults | config.component_args(group, name))
            for transform_name, arguments in required.items():
                transform = registry.construct(registry.lookup(registry.TRANSFORMS, transform_name), arguments)
                present = transforms.setdefault(transform_name, transform)
                if describe(present) != describe(transform):
                    raise ValueError(
                        f"the layers of a model share one {transform_name}, received the arguments "
                        f"{describe(present)['arguments']} and {describe(transform)['arguments']}"
                    )
    return transforms
