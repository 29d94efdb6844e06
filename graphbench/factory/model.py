"""From configuration to model: encoders, layers, head."""

from __future__ import annotations

from torch import nn

from graphbench import registry
from graphbench.config import Config
from graphbench.encoders.compose import NodeEncoder
from graphbench.encoders.contract import BatchEncoder
from graphbench.errors import UserError
from graphbench.factory.compat import variant
from graphbench.factory.config_errors import config_errors
from graphbench.factory.encoders import edge_encoder, node_encoder
from graphbench.factory.layer_groups import LayerGroup, edge_width, layer_group
from graphbench.factory.layers import LayerFactory, model_class
from graphbench.heads.contract import Head, HeadContext
from graphbench.layers.attention.biased_transformer import BiasedTransformer
from graphbench.layers.contract import GraphLayer
from graphbench.layers.gps import GPSBlock
from graphbench.layers.local.distance_gate import DistanceGate
from graphbench.layers.single import SingleBlock
from graphbench.models.contract import Model, ModelContext
from graphbench.models.pre_layers import LayerSettings, pre_layers
from graphbench.structures import DataInfo

HEAD_OF_TASK = {"graph": "graph", "node": "node", "edge": "edge", "link_pred": "link_pred"}
"""Head of ``gnn.head: default``, by task."""
ROWS_OF_TASK = {"graph": ("graph", "pair"), "node": ("node",), "edge": ("pair",), "link_pred": ("pair",)}
"""Rows that heads predict for, by task; pairs of nodes of many graphs are a task of graphs in GraphGPS."""
_ROWS = {"graph": "graph", "node": "node", "pair": "pair of nodes"}


def build_model(config: Config, info: DataInfo) -> Model:
    """The model that the configuration describes, for data with the sizes in ``info``.

    Args:
        config: a loaded configuration.
        info: facts from the data set's card, or measured.

    Returns:
        A module that maps a :class:`~graphbench.structures.GraphBatch` to predictions, (G, out_dim) for graph tasks
        and (N, out_dim) for node tasks.

    Raises:
        UserError: unknown component, or values that do not fit each other.
    """
    tree = config.tree
    named = model_class(config)
    parameters = registry.parameters(named)
    group = layer_group(named)
    _check_widths(config, group)
    dim = tree.gnn.dim_inner
    dim_edge = edge_width(config, group)
    # Modules draw their first parameters in the order of their construction.
    edges = edge_encoder(config, info, dim_edge)
    nodes, dim_encoded = node_encoder(config, info, dim)
    _check_token(config, info, nodes)
    _check_states(config, nodes)
    layers = LayerFactory(config, info, dim_edge, edges is not None, named)
    settings = LayerSettings(
        batchnorm=tree.gnn.batchnorm,
        dropout=tree.gnn.dropout,
        act=tree.gnn.act,
        l2norm=tree.gnn.l2norm,
        norm_eps=tree.bn.eps,
        norm_momentum=tree.bn.mom,
    )
    filled = {"act": "gnn.act", "dropout": "gnn.dropout", "layers": layers.number_key, "attention": layers.key}
    pre_mp = tree.gnn.layers_pre_mp if "pre_mp" in parameters else 0
    with config_errors(config, f"gt.{tree.model.type}", "model.type", filled=filled):
        context = ModelContext(
            encoder=nodes,
            dim_encoded=dim_encoded,
            edge_encoder=edges,
            dim=dim,
            dim_edge=dim_edge,
            layers=layers.number,
            block=layers.block,
            local=layers.local() if "local" in parameters else None,
            attention=layers.attention() if "attention" in parameters else None,
            head=lambda dim_in: _head(config, info, dim_in),
            prepare=layers.prepare(),
            pre_mp=pre_layers(dim_encoded, dim, pre_mp, settings),
            post=settings,
            stage_type=tree.gnn.stage_type,
            batchnorm=tree.gnn.batchnorm,
            dropout=tree.gnn.dropout,
            act=tree.gnn.act,
        )
        model = registry.construct(named, config.component_args("gt", tree.model.type), context)
    _check_read_states(config, nodes, model)
    name, head = _head_class(config, info)
    if model.of_graphs and head.predicts in ("node", "pair"):
        raise UserError(
            f"{config.where('model.type')}: {tree.model.type} predicts for graphs, the head {name} for every "
            f"{_ROWS[head.predicts]}. Use another model.type, or a data set whose task is one prediction per graph."
        )
    return model


def _check_widths(config: Config, group: LayerGroup) -> None:
    """Refuses different values of the two keys for the width of a model."""
    key = group.width
    if config.value(key) != config.tree.gnn.dim_inner:
        raise UserError(
            f"{config.where(key)}: {key} and gnn.dim_inner are the same width and must be equal, "
            f"received {config.value(key)} and {config.tree.gnn.dim_inner} ({config.where('gnn.dim_inner')})."
        )


def _check_read_states(config: Config, encoder: NodeEncoder, model: Model) -> None:
    """Refuses layers that read what no encoder supplies, or a bias of pairs with other columns than they have heads."""
    names, modules = "dataset.node_encoder_name", list(model.modules())
    gated = any(isinstance(module, DistanceGate) for module in modules)
    if gated and all(each.supplies != "stable_encoding" for each in encoder.batch_encoders.values()):
        kinds = [each for each in registry.components(registry.POSITIONAL_ENCODERS) if issubclass(each, BatchEncoder)]
        able = [each.registered_name for each in kinds if each.supplies == "stable_encoding"]
        raise UserError(
            f"{config.where(names)}: layers gate edges by the distance between encodings (equivstable, "
            f"distance_gates), and none is there; name one of {', '.join(able)} in {names}."
        )
    key, number = "graphormer.num_heads", config.tree.graphormer.num_heads
    own = f"gt.{config.tree.model.type}.heads" if "heads" in registry.parameters(type(model)) else "gt.n_heads"
    given = [name for name, each in encoder.batch_encoders.items() if each.supplies == "pair_bias"]
    if given and not model.own_pair_bias:
        heads = {module.heads for module in modules if isinstance(module, BiasedTransformer)}
        if heads - {number}:
            raise UserError(
                f"{config.where(key)}: {key} sizes the bias of {' and '.join(given)}, which attention adds, and must "
                f"equal {own}, received {number} and {max(heads - {number})}."
            )


def _check_states(config: Config, encoder: NodeEncoder) -> None:
    """Refuses encoders that take each other's states for layers away."""
    key, encoders = "dataset.node_encoder_name", encoder.batch_encoders
    stable = [name for name, each in encoders.items() if each.supplies == "stable_encoding"]
    if len(stable) > 1:
        raise UserError(f"{config.where(key)}: layers read one of {' and '.join(stable)}; name one of them in {key}.")
    before = ""
    for name, each in encoders.items():
        if each.adds_token and before:
            raise UserError(
                f"{config.where(key)}: {name} adds a node to every graph, which {before} would not know; name {name} "
                f"before {before} in {key}."
            )
        before = name if each.supplies else before


def _check_token(config: Config, info: DataInfo, encoder: NodeEncoder) -> None:
    """Refuses a graph token for a head that cannot read it, and a head that reads a token that is not there."""
    tree = config.tree
    key = "dataset.node_encoder_name"
    tokens = [name for name, batch_encoder in encoder.batch_encoders.items() if batch_encoder.adds_token]
    bias = "graphormer.use_graph_token"
    if tree.model.graph_pooling == "graph_token" and not tokens:
        raise UserError(
            f"{config.where('model.graph_pooling')}: model.graph_pooling graph_token reads the token that GraphToken, "
            f"or GraphormerBias with {bias} true, adds; name one of them in {key}."
        )
    if len(tokens) > 1:
        raise UserError(
            f"{config.where(key)}: {' and '.join(tokens)} each add a graph token, and graphs have one; leave "
            f"GraphToken out of {key}, or set {bias} to false."
        )
    name, head = _head_class(config, info)
    if tokens and not head.accepts_graph_token:
        cause = key
        advice = f"leave {tokens[0]} out of {key}"
        if "GraphormerBias" in tokens:
            cause = bias
            advice = f"set {bias} to false"
        raise UserError(
            f"{config.where(cause)}: the graph token is a further node of every graph, for which gnn.head {name} "
            f"has no target; {advice}."
        )


def _head_class(config: Config, info: DataInfo) -> tuple[str, type[Head]]:
    """Name and class of the head."""
    name = config.tree.gnn.head
    if name == "default":
        name = HEAD_OF_TASK[info.task]
    head = registry.lookup(registry.HEADS, name, config.where("gnn.head"))
    asked = ROWS_OF_TASK[info.task]
    if head.predicts is not None and head.predicts not in asked:
        raise UserError(
            f"{config.where('gnn.head')}: the head {name} predicts for every {_ROWS[head.predicts]}, the task of "
            f"{info.name} is one prediction per {_ROWS[asked[0]]}. Use {HEAD_OF_TASK[info.task]}, or another of these."
        )
    return name, head


def _head(config: Config, info: DataInfo, dim_in: int) -> Head:
    """The head, for hidden states of width ``dim_in``."""
    tree = config.tree
    name, head_class = _head_class(config, info)
    context = HeadContext(
        dim_in=dim_in,
        out_dim=info.out_dim,
        layers_post_mp=max(tree.gnn.layers_post_mp, 1),  # 0 means 1, as in GraphGym
        pooling=tree.model.graph_pooling,
        act=tree.gnn.act,
        dropout=tree.gnn.dropout,
        batchnorm=tree.gnn.batchnorm,
        decoding=tree.model.edge_decoding,
        infer_link_label=tree.dataset.infer_link_label,
        **variant(config, "heads", name),
    )
    filled = {"pooling": "model.graph_pooling", "decoding": "model.edge_decoding", "act": "gnn.act"}
    with config_errors(config, f"gnn.{name}", "model.graph_pooling", "gnn.head", filled=filled):
        return registry.construct(head_class, config.component_args("gnn", name), context)


def layer_names(model: nn.Module) -> list[str]:
    """The layers of a model in order: ``<local>+<global>`` for a block, the registered name for a single layer."""
    names: list[str] = []
    inside: set[nn.Module] = set()
    for module in model.modules():
        if module in inside:
            continue
        if isinstance(module, GPSBlock | SingleBlock):
            names.append("+".join("None" if layer is None else layer.registered_name for layer in module.sublayers))
            inside.update(module.modules())
        elif isinstance(module, GraphLayer) and module.registered_name:
            names.append(module.registered_name)
            inside.update(module.modules())
    return names
