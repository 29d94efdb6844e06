"""From configuration to model: encoders, layers, head."""

from __future__ import annotations

from torch import nn

from graphbench import registry
from graphbench.config import Config
from graphbench.config.layer_type import component_names
from graphbench.encoders.compose import NodeEncoder
from graphbench.errors import UserError
from graphbench.factory.compat import variant
from graphbench.factory.config_errors import config_errors
from graphbench.factory.encoders import edge_encoder, node_encoder
from graphbench.factory.layers import LayerFactory
from graphbench.heads.contract import Head, HeadContext
from graphbench.heads.edge import EdgeHead
from graphbench.layers.attention.biased_transformer import BiasedTransformer
from graphbench.layers.contract import GraphLayer
from graphbench.layers.gps import GPSBlock
from graphbench.layers.single import SingleBlock
from graphbench.models.contract import Model, ModelContext
from graphbench.models.pre_layers import LayerSettings, pre_layers
from graphbench.structures import DataInfo

HEAD_OF_TASK = {"graph": "graph", "node": "node", "edge": "edge", "link_pred": "link_pred"}
"""Head of ``gnn.head: default``, by task."""


def build_model(config: Config, info: DataInfo) -> Model:
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
    model_class: type[Model] = registry.lookup("models", tree.model.type, config.where("model.type"))
    parameters = registry.parameters(model_class)
    _check_widths(config, model_class.layers_from)
    dim = tree.gnn.dim_inner
    dim_edge = _dim_edge(config, model_class.layers_from)
    # Modules draw their first parameters in the order of their construction.
    edges = edge_encoder(config, info, dim_edge)
    nodes, dim_encoded = node_encoder(config, info, dim)
    _check_token(config, nodes)
    layers = LayerFactory(config, info, dim_edge, edges is not None, model_class)
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
        model: Model = registry.construct(model_class, config.component_args("gt", tree.model.type), context)
    _check_bias(config, nodes, model)
    return model


def _check_widths(config: Config, layers_from: str) -> None:
    """Refuses different values of the two keys for the width of a model."""
    widths = {"gt": "gt.dim_hidden", "graphormer": "graphormer.embed_dim"}
    key = widths.get(layers_from, "gnn.dim_inner")
    if config.value(key) != config.tree.gnn.dim_inner:
        raise UserError(
            f"{config.where(key)}: {key} and gnn.dim_inner are the same width and must be equal, "
            f"received {config.value(key)} and {config.tree.gnn.dim_inner} ({config.where('gnn.dim_inner')})."
        )


def _check_bias(config: Config, encoder: NodeEncoder, model: Model) -> None:
    """Refuses a bias of pairs with another number of columns than the attention that adds it has heads."""
    columns = max((each.bias_heads for each in encoder.batch_encoders.values()), default=0)
    attentions = (module for module in model.modules() if isinstance(module, BiasedTransformer))
    other = next((each.heads for each in attentions if columns not in (0, each.heads)), None)
    if other is not None:
        own = f"gt.{model.registered_name}.heads"
        key = own if "heads" in registry.parameters(type(model)) else "gt.n_heads"
        raise UserError(
            f"{config.where('graphormer.num_heads')}: graphormer.num_heads sizes the bias of pairs that attention adds "
            f"and must equal {key}, received {columns} and {other} ({config.where(key)})."
        )


def _check_token(config: Config, encoder: NodeEncoder) -> None:
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
    head = None if tree.gnn.head == "default" else registry.lookup("heads", tree.gnn.head, config.where("gnn.head"))
    if tokens and head is not None and not head.accepts_graph_token:
        cause = key
        advice = f"leave {tokens[0]} out of {key}"
        if "GraphormerBias" in tokens:
            cause = bias
            advice = f"set {bias} to false"
        raise UserError(
            f"{config.where(cause)}: the graph token is a further node of every graph, for which gnn.head "
            f"{tree.gnn.head} has no target; {advice}."
        )


def _dim_edge(config: Config, layers_from: str) -> int:
    """Width of the edge states; narrower for PNA, as in GraphGPS."""
    tree = config.tree
    width = tree.gnn.dim_inner
    if layers_from == "gt" and "PNA" in component_names(tree.gt.layer_type):
        width = 16 if tree.compat == "exphormer" else min(128, width)
    return tree.gt.dim_edge or tree.gnn.dim_edge or width


def _head(config: Config, info: DataInfo, dim_in: int) -> Head:
    """The head, for hidden states of width ``dim_in``."""
    tree = config.tree
    name = tree.gnn.head
    if name == "default":
        if info.task not in HEAD_OF_TASK:
            raise UserError(
                f"{config.where('dataset.task')}: no default head for dataset.task {info.task}; set gnn.head."
            )
        name = HEAD_OF_TASK[info.task]
    head_class = registry.lookup("heads", name, config.where("gnn.head"))
    if info.task == "graph" and not (head_class.accepts_graph_token or issubclass(head_class, EdgeHead)):
        raise UserError(
            f"{config.where('gnn.head')}: the head {name} predicts for every node, the task of {info.name} is "
            f"one prediction per graph. Use {HEAD_OF_TASK['graph']}, or a head whose name has graph."
        )
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
        head: Head = registry.construct(head_class, config.component_args("gnn", name), context)
    return head


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
