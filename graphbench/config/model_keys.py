"""Keys of models, their layers and their heads."""

from __future__ import annotations

from graphbench.config.key import DEAD, NO_EFFECT, Key

GRAPH_LAYERS = ("layers/local", "layers/attention", "layers/blocks")

POOLINGS = ("add", "sum", "mean", "max", "graph_token", "node_ensemble")

MODEL = {
    "type": Key("gnn", "model family", namespaces=("models",)),
    "loss_fun": Key("cross_entropy", "loss", namespaces=("tasks/losses",)),
    "size_average": Key("mean", "reduction of the loss", allowed=("mean", "sum")),
    "thresh": Key(0.5, "probability from which a binary prediction is positive", minimum=0.0),
    "graph_pooling": Key("add", "readout of graph heads", allowed=POOLINGS),
    "edge_decoding": Key("dot", "score of a pair of nodes", allowed=("dot", "cosine_similarity", "concat")),
    "match_upper": Key(True, "", inert=NO_EFFECT),
}

GNN = {
    "head": Key(
        "default", "prediction head; default: the one of dataset.task", namespaces=("heads",), extra=("default",)
    ),
    "layers_pre_mp": Key(0, "linear layers before message passing", minimum=0),
    "layers_mp": Key(2, "layers of models without attention", minimum=0),
    "layers_post_mp": Key(1, "linear layers of the head", minimum=0),
    "dim_inner": Key(16, "width of the model", minimum=1),
    "dim_edge": Key(None, "width of the edge state; none: as gnn.dim_inner", holds=int, optional=True, minimum=1),
    "layer_type": Key("generalconv", "layer of models without attention", namespaces=("layers/blocks", "layers/local")),
    "batchnorm": Key(True, "BatchNorm in the layers before and after message passing"),
    "act": Key("relu", "activation"),
    "dropout": Key(0.0, "dropout of the layers before message passing and of local branches", minimum=0.0),
    "residual": Key(False, "residual connections in models without attention"),
    "agg": Key("add", "aggregation of GraphGym's layers (model gnn)", allowed=("add", "sum", "mean", "max")),
    "normalize_adj": Key(False, "normalised adjacency in GraphGym's layers (model gnn)"),
    "stage_type": Key("stack", "how layers are stacked (model gnn)", allowed=("stack", "skipsum", "skipconcat")),
    "skip_every": Key(1, "", inert=NO_EFFECT, minimum=1),
    "msg_direction": Key("single", "message of GraphGym's layers (model gnn)", allowed=("single", "both")),
    "self_msg": Key("concat", "self message of GraphGym's layers (model gnn)", allowed=("none", "add", "concat")),
    "att_heads": Key(1, "", inert=NO_EFFECT, minimum=1),
    "att_final_linear": Key(False, "", inert=NO_EFFECT),
    "att_final_linear_bn": Key(False, "", inert=NO_EFFECT),
    "heads": Key(4, "", inert=DEAD),
    "attn_dropout": Key(0.1, "", inert=DEAD),
    "use_vn": Key(True, "", inert=DEAD),
    "vn_pooling": Key("add", "", inert=DEAD),
    "norm_type": Key("layer", "", inert=DEAD),
    "ffn": Key(True, "feed-forward network in the layers of GNN+ (gcn, gcne, gine, gatedgcn)"),
    "l2norm": Key(True, "divide the rows of pre-message-passing layers by their norm"),
    "keep_edge": Key(0.5, "", inert=NO_EFFECT),
    "clear_feature": Key(True, "", inert=NO_EFFECT),
}

GT = {
    "layer_type": Key(
        "SANLayer",
        "parts joined by +, e.g. <local>+<global>; None leaves a part out; name__edges works on an edge set",
        namespaces=GRAPH_LAYERS,
    ),
    "layers": Key(3, "number of layers", minimum=0),
    "n_heads": Key(8, "attention heads", minimum=1),
    "dim_hidden": Key(64, "width of the layers; equals gnn.dim_inner", minimum=1),
    "dropout": Key(0.0, "dropout after each part of a layer and in its feed-forward part", minimum=0.0),
    "local_dropout": Key(
        None, "dropout after local layers of GPS blocks; none: as gt.dropout", holds=float, optional=True, minimum=0.0
    ),
    "attn_dropout": Key(0.0, "dropout on attention weights", minimum=0.0),
    "layer_norm": Key(False, "layer norm after each part"),
    "layer_norm_scope": Key(
        "graph", "what has a mean and variance of its own under layer_norm", allowed=("graph", "node")
    ),
    "batch_norm": Key(True, "BatchNorm after each part; exclusive with layer_norm"),
    "residual": Key(True, "residual connections of SAN layers (GPS layers always have them)"),
    "update_e": Key(True, "", inert="GRIT updates the states of pairs"),
    "full_graph": Key(True, "SAN layers attend to all pairs, not to edges only"),
    "gamma": Key(1e-5, "weight of pairs that are no edges in SAN layers", minimum=0.0),
    "dim_edge": Key(None, "width of the edge state; none: as gt.dim_hidden", holds=int, optional=True, minimum=1),
    "secondary_edges": Key("full_graph", "", inert="read by no published file; name the edges in gt.layer_type"),
    "activation": Key("relu", "", inert="read by ExphormerFullLayer only, which no configuration can reach"),
    "vn_pooling": Key("mean", "", inert=DEAD),
    "pna_degrees": Key(
        [],
        "in-degree histogram for layers that scale by degree (PNA here does not); empty: measured",
        item=int,
        minimum=0,
    ),
}

ATTN = {
    "use": Key(True, "", inert=NO_EFFECT),
    "sparse": Key(False, "", inert="GRIT attends to all pairs"),
    "full_attn": Key(True, "", inert="GRIT attends to all pairs"),
    "deg_scaler": Key(True, "scale what attention returns by the degree"),
    "use_bias": Key(False, "biases of keys and values"),
    "clamp": Key(5.0, "bound of the scores", minimum=0.0, no_limit=True),
    "act": Key("relu", "activation of the scores"),
    "norm_e": Key(True, "normalise the states of pairs"),
    "O_e": Key(True, "linear map of what the scores add to the states of pairs"),
    "edge_enhance": Key(True, "add a map of the scores to the values"),
    "signed_sqrt": Key(True, "", inert="the signed root of the scores is always taken, as in GRIT's code"),
    "fwl": Key(False, "", inert=NO_EFFECT),
}

GRAPHORMER = {
    "num_layers": Key(6, "layers", minimum=0),
    "embed_dim": Key(80, "width; equals gnn.dim_inner", minimum=1),
    "num_heads": Key(4, "attention heads, also of the bias that BiasedTransformer reads", minimum=1),
    "dropout": Key(0.0, "dropout after attention", minimum=0.0),
    "attention_dropout": Key(0.0, "dropout on attention weights", minimum=0.0),
    "mlp_dropout": Key(0.0, "dropout of the feed-forward part", minimum=0.0),
    "input_dropout": Key(0.0, "dropout of the encoded nodes", minimum=0.0),
    "use_graph_token": Key(True, "give every graph one more node that stands for the whole"),
}

BIGBIRD = {
    "attention_type": Key(
        "block_sparse", "original_full attends to all pairs", allowed=("block_sparse", "original_full")
    ),
    "chunk_size_feed_forward": Key(0, "", inert="changes memory only"),
    "is_decoder": Key(False, "", inert=NO_EFFECT),
    "add_cross_attention": Key(False, "", inert=NO_EFFECT),
    "hidden_act": Key("relu", "activation of the feed-forward part"),
    "max_position_embeddings": Key(128, "", inert="graphs have no positions"),
    "use_bias": Key(False, "bias of the projections"),
    "num_random_blocks": Key(3, "random blocks per query block", minimum=0),
    "block_size": Key(3, "nodes per block", minimum=1),
    "layer_norm_eps": Key(1e-6, "added to the variance of layer norms", minimum=0.0),
}
