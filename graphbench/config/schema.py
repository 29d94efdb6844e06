"""Every configuration key: default, type, allowed values, meaning. The vocabulary is GraphGPS's.

A key with ``rooms`` names components (``a+b`` names several). The loader checks such names against the registry, and
each named component opens a section of its own below the same group: ``gt.layer_type: GCN+SGFormer`` makes
``gt.GCN.*`` and ``gt.SGFormer.*`` valid, with keys, types and defaults read from the constructors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphbench.structures.data_info import TASK_TYPES, TASKS


@dataclass(frozen=True)
class Key:
    """One configuration key.

    Attributes:
        default: value when no file sets the key; its type is the type of the key unless ``holds`` says otherwise.
        help: one line for the reference.
        holds: bool, int, float, str or list; needed only where the default is None.
        allowed: the valid values of a closed list.
        minimum: smallest valid number (included).
        optional: None is valid as well.
        item: type of the elements of a list; None: any.
        rooms: registry rooms the value is a name in; parts joined by ``+`` are looked up one by one.
        extra: further valid names, which no room holds.
        neutral: does not influence results, so it is left out of the configuration hash.
        inert: why setting it changes nothing here; the log says so once.
    """

    default: Any
    help: str
    holds: type | None = None
    allowed: Sequence[Any] | None = None
    minimum: float | None = None
    optional: bool = False
    item: type | None = None
    rooms: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    neutral: bool = False
    inert: str = ""

    @property
    def kind(self) -> type:
        """The type a value must have."""
        return self.holds or type(self.default)


GRAPH_LAYERS = ("layers/local", "layers/attention", "layers/blocks")
NODE_ENCODERS = ("encoders/node", "encoders/positional")
EDGE_ENCODERS = ("encoders/edge", "encoders/positional")

SUPPLIED = frozenset(
    "dim dim_in dim_out dim_edge dim_encoded dim_pe node_in edge_in out_dim num_types heads dropout act batchnorm "
    "layers layers_pre_mp layers_post_mp l2norm pooling encoder edge_encoder block local attention head task task_type "
    "transductive size_average thresh params lr weight_decay momentum optimizer max_epoch num_warmup_epochs steps "
    "lr_decay reduce_factor schedule_patience min_lr name ogb_atom_vocabulary attn_dropout degrees equivstable "
    "edge_types max_nodes prepare num_virtual_nodes decoding infer_link_label "
    "hidden_dropout use_edge_attr attention_type num_random_blocks block_size use_bias hidden_act layer_norm_eps "
    "slic_compactness train_percent add_reverse_edges add_self_loops "
    "stage_type agg normalize_adj self_msg msg_direction "
    "mlp edge_residual dropout_inside standardize".split()  # what compat chooses, see build/compat.py
)
"""Constructor arguments that the surroundings supply; a component's own section may still set the plain ones."""

SUPPLIED_TO_BLOCKS = SUPPLIED | frozenset("norm residual full_graph gamma mlp_dropout".split())
"""The same for complete layers, which the general keys of ``gt`` and ``gnn`` describe."""

_NO_EFFECT = "accepted for compatibility with GraphGPS files; it has no effect here"
_AT_RUN_TIME = "set at run time in GraphGPS; nothing reads it here"
_DEAD = "declared by the LRGB fork, where no code reads it"
_RESUMES = "unfinished runs always resume here"

TOP = {
    "out_dir": Key("results", "root of all outputs", neutral=True),
    "cfg_dest": Key("config.yaml", "name of the dumped configuration", neutral=True),
    "plugins": Key(
        [], item=str, help="Python files or modules with components of your own, loaded before names are resolved"
    ),
    "compat": Key(
        "graphgps",
        "whose meaning a key has where the forks of GraphGPS differ; inferred from keys that only one of them has",
        allowed=("graphgps", "exphormer", "lrgb"),
    ),
    "ogb_atom_vocabulary": Key(5, "chirality classes of Atom: 5 since ogb 1.3.6, 4 before", allowed=(4, 5)),
    "metric_best": Key("auto", "metric that selects the best epoch; auto: the data set card's (any other must agree)"),
    "metric_agg": Key("auto", "direction of metric_best", allowed=("auto", "argmax", "argmin")),
    "seed": Key(0, "seed of the first run; run i of --repeat uses seed + i", minimum=0, neutral=True),
    "round": Key(5, "decimals in stats.json", minimum=1, neutral=True),
    "print": Key("both", "where the log goes", allowed=("stdout", "file", "both"), neutral=True),
    "accelerator": Key("auto", "auto, cpu, cuda, mps or cuda:N", neutral=True),
    "devices": Key(1, "number of devices (processes) of a data-parallel run", minimum=1),
    "strategy": Key("auto", "Fabric strategy", allowed=("auto", "ddp")),
    "precision": Key(
        "32-true",
        "arithmetic of the model",
        allowed=("32-true", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true"),
    ),
    "num_workers": Key(
        0, "", inert="batches are gathered by index arithmetic here, without worker processes", neutral=True
    ),
    "num_threads": Key(0, "CPU threads of torch; 0: torch's own choice", minimum=0, neutral=True),
    "name_tag": Key("", "suffix of the run directory and of the run's name", neutral=True),
    "run_multiple_splits": Key([], "run once per listed split index, seed kept; not together with --repeat", item=int),
    "tensorboard_each_run": Key(False, "write TensorBoard event files", neutral=True),
    "csv_each_run": Key(False, "write metrics.csv beside stats.json", neutral=True),
    "tensorboard_agg": Key(True, "", inert=_NO_EFFECT, neutral=True),
    "gpu_mem": Key(False, "", inert="peak memory is always recorded here", neutral=True),
    "view_emb": Key(False, "", inert=_NO_EFFECT, neutral=True),
    "benchmark": Key(False, "", inert=_NO_EFFECT, neutral=True),
    "best_by_loss": Key(False, "", inert=_NO_EFFECT),
    "example_arg": Key("example", "", inert=_NO_EFFECT, neutral=True),
    "model_dir": Key("", "", inert=_AT_RUN_TIME, neutral=True),
    "run_dir": Key("", "", inert=_AT_RUN_TIME, neutral=True),
    "run_id": Key(0, "", inert=_AT_RUN_TIME, neutral=True),
    "params": Key(0, "", inert=_AT_RUN_TIME, neutral=True),
    "custom_metrics": Key([], "further metrics to report", rooms=("tasks/metrics",)),
}

DATASET = {
    "format": Key("PyG", "family of data sets", rooms=("data/datasets",)),
    "name": Key("none", "data set within the family"),
    "dir": Key("./datasets", "data root; searched before the roots in $GRAPHBENCH_DATA", neutral=True),
    "task": Key("node", "what is predicted", allowed=TASKS),
    "task_type": Key("classification", "kind of target", allowed=TASK_TYPES),
    "transductive": Key(True, "splits are sets of nodes of one graph"),
    "split": Key([0.8, 0.1, 0.1], "sizes of a random split: shares (sum 1) or counts"),
    "split_mode": Key("standard", "standard (the public split), random, random-class, cv-kfold-K, ..."),
    "split_index": Key(0, "which of several standard splits, or which fold", minimum=0),
    "split_file": Key("", "JSON file with train, val and test indices, for split_mode fixed"),
    "split_dir": Key("./splits", "", inert="folds are computed here, not cached"),
    "split_seed": Key(None, "seed of random splits; none: the seed of the run", holds=int, optional=True, minimum=0),
    "node_encoder": Key(False, "encode node features"),
    "node_encoder_name": Key("Atom", "<features>, <encoding>, or any + composition of them", rooms=NODE_ENCODERS),
    "node_encoder_bn": Key(True, "BatchNorm after the node encoder"),
    "node_encoder_num_types": Key(0, "vocabulary of TypeDictNode; 0: the data set card's", minimum=0),
    "edge_encoder": Key(False, "encode edge features"),
    "edge_encoder_name": Key("Bond", "<features>, or a + composition with edge-wise encodings", rooms=EDGE_ENCODERS),
    "edge_encoder_bn": Key(True, "BatchNorm after the edge encoder"),
    "edge_encoder_num_types": Key(0, "vocabulary of TypeDictEdge; 0: the data set card's", minimum=0),
    "slic_compactness": Key(10, "version of the superpixel data sets", allowed=(10, 30)),
    "infer_link_label": Key(
        "None", "edge: predict edges from node states, with head infer_links", allowed=("None", "none", "edge")
    ),
    "resample_negative": Key(False, "draw the negative pairs of PCQM-Contact anew in every epoch"),
    "resample_disjoint": Key(False, "", inert=_NO_EFFECT),
    "edge_train_mode": Key("all", "", inert=_NO_EFFECT),
    "edge_message_ratio": Key(0.8, "", inert=_NO_EFFECT),
    "edge_negative_sampling_ratio": Key(1.0, "", inert=_NO_EFFECT),
    "transform": Key("none", "", inert=_NO_EFFECT),
    "remove_feature": Key(False, "", inert=_NO_EFFECT),
    "to_undirected": Key(False, "", inert=_NO_EFFECT),
    "label_table": Key("none", "", inert=_NO_EFFECT),
    "label_column": Key("none", "", inert=_NO_EFFECT),
    "pe_transform_on_the_fly": Key(False, "", inert="encodings come from a cache here", neutral=True),
    "shuffle_split": Key(True, "", inert=_NO_EFFECT),
    "encoder": Key(True, "", inert=_NO_EFFECT),
    "encoder_name": Key("db", "", inert=_NO_EFFECT),
    "encoder_bn": Key(True, "", inert=_NO_EFFECT),
    "encoder_dim": Key(128, "", inert=_NO_EFFECT),
    "edge_dim": Key(128, "", inert=_NO_EFFECT),
    "cache_save": Key(False, "", inert=_NO_EFFECT),
    "cache_load": Key(False, "", inert=_NO_EFFECT),
    "tu_simple": Key(True, "", inert=_NO_EFFECT),
    "location": Key("local", "", inert=_NO_EFFECT),
}

TRAIN = {
    "mode": Key(
        "custom",
        "custom (train), inference-only, PCQM4Mv2-inference, or log-attn-weights; standard is the same as custom",
        allowed=("custom", "standard", "inference-only", "PCQM4Mv2-inference", "log-attn-weights"),
    ),
    "batch_size": Key(16, "graphs per batch", minimum=1),
    "sampler": Key("full_batch", "how one large graph is cut into batches", allowed=("full_batch",)),
    "eval_period": Key(10, "epochs between evaluations; the first and the last epoch are always evaluated", minimum=1),
    "metrics_period": Key(
        0,
        "epochs between computations of all metrics (loss and selecting metric: always); 0: 1, or 25 for tiny epochs",
        minimum=0,
        neutral=True,
    ),
    "ckpt_period": Key(100, "epochs between checkpoints (one is written every minute anyway)", minimum=1, neutral=True),
    "enable_ckpt": Key(True, "write checkpoints", neutral=True),
    "ckpt_best": Key(False, "write a checkpoint at every better epoch, too (while that costs under 2 %)", neutral=True),
    "ckpt_clean": Key(True, "", inert="the best and the last checkpoint are kept here", neutral=True),
    "auto_resume": Key(True, "", inert=_RESUMES, neutral=True),
    "epoch_resume": Key(-1, "", inert=_RESUMES, neutral=True),
    "skip_train_eval": Key(False, "", inert="training metrics come from the training pass here", neutral=True),
    "iter_per_epoch": Key(32, "batches per epoch of graph samplers", minimum=1),
    "walk_length": Key(4, "steps of a random-walk sampler", minimum=1),
    "neighbor_sizes": Key([20, 15, 10, 5], "neighbours per layer of the neighbour sampler", item=int),
    "train_parts": Key(10, "parts of a partition sampler", minimum=1),
    "sample_node": Key(False, "", inert=_NO_EFFECT),
    "node_per_graph": Key(32, "", inert=_NO_EFFECT),
    "radius": Key("extend", "", inert=_NO_EFFECT),
    "eval_smoothing_metrics": Key(False, "", inert="smoothing metrics of the LRGB fork are not computed", neutral=True),
    "finetune": Key("", "", inert="see pretrained.dir", neutral=True),
    "freeze_pretrained": Key(False, "", inert="see pretrained.freeze_main", neutral=True),
    "early_stop_patience": Key(0, "epochs without a better validation metric that end a run; 0: never", minimum=0),
}

VAL = {
    "sampler": Key("full_batch", "as train.sampler, for evaluation", allowed=("full_batch",)),
    "sample_node": Key(False, "", inert=_NO_EFFECT),
    "node_per_graph": Key(32, "", inert=_NO_EFFECT),
    "radius": Key("extend", "", inert=_NO_EFFECT),
}

POOLINGS = ("add", "sum", "mean", "max", "graph_token", "node_ensemble")

MODEL = {
    "type": Key("gnn", "model family", rooms=("models",)),
    "loss_fun": Key("cross_entropy", "loss", rooms=("tasks/losses",)),
    "size_average": Key("mean", "reduction of the loss", allowed=("mean", "sum")),
    "thresh": Key(0.5, "probability from which a binary prediction is positive", minimum=0.0),
    "graph_pooling": Key("add", "readout of graph heads", allowed=POOLINGS),
    "edge_decoding": Key("dot", "score of a pair of nodes", allowed=("dot", "cosine_similarity", "concat")),
    "match_upper": Key(True, "", inert=_NO_EFFECT),
}

GNN = {
    "head": Key("default", "prediction head; default: the one of dataset.task", rooms=("heads",), extra=("default",)),
    "layers_pre_mp": Key(0, "linear layers before message passing", minimum=0),
    "layers_mp": Key(2, "layers of models without attention", minimum=0),
    "layers_post_mp": Key(1, "linear layers of the head", minimum=0),
    "dim_inner": Key(16, "width of the model", minimum=1),
    "dim_edge": Key(None, "width of the edge state; none: as gnn.dim_inner", holds=int, optional=True, minimum=1),
    "layer_type": Key("generalconv", "layer of models without attention", rooms=("layers/blocks", "layers/local")),
    "batchnorm": Key(True, "BatchNorm in the layers before and after message passing"),
    "act": Key("relu", "activation"),
    "dropout": Key(0.0, "dropout of the layers before message passing and of local branches", minimum=0.0),
    "residual": Key(False, "residual connections in models without attention"),
    "agg": Key("add", "aggregation of GraphGym's layers (model gnn)", allowed=("add", "sum", "mean", "max")),
    "normalize_adj": Key(False, "normalised adjacency in GraphGym's layers (model gnn)"),
    "stage_type": Key("stack", "how layers are stacked (model gnn)", allowed=("stack", "skipsum", "skipconcat")),
    "skip_every": Key(1, "layers per skip connection (model gnn)", minimum=1),
    "msg_direction": Key("single", "message of GraphGym's layers (model gnn)", allowed=("single", "both")),
    "self_msg": Key("concat", "self message of GraphGym's layers (model gnn)", allowed=("none", "add", "concat")),
    "att_heads": Key(1, "heads of GraphGym's attention layers (model gnn)", minimum=1),
    "att_final_linear": Key(False, "linear map after them"),
    "att_final_linear_bn": Key(False, "BatchNorm after that map"),
    "heads": Key(4, "", inert=_DEAD),
    "attn_dropout": Key(0.1, "", inert=_DEAD),
    "use_vn": Key(True, "", inert=_DEAD),
    "vn_pooling": Key("add", "", inert=_DEAD),
    "norm_type": Key("layer", "", inert=_DEAD),
    "ffn": Key(True, "", inert=_NO_EFFECT),
    "l2norm": Key(True, "divide the rows of pre-message-passing layers by their norm"),
    "keep_edge": Key(0.5, "", inert=_NO_EFFECT),
    "clear_feature": Key(True, "", inert=_NO_EFFECT),
}

GT = {
    "layer_type": Key(
        "SANLayer",
        "parts joined by +, e.g. <local>+<global>; None leaves a part out; name__edges works on an edge set",
        rooms=GRAPH_LAYERS,
    ),
    "layers": Key(3, "number of layers", minimum=0),
    "n_heads": Key(8, "attention heads", minimum=1),
    "dim_hidden": Key(64, "width of the layers; equals gnn.dim_inner", minimum=1),
    "dropout": Key(0.0, "dropout after each part of a layer and in its feed-forward part", minimum=0.0),
    "attn_dropout": Key(0.0, "dropout on attention weights", minimum=0.0),
    "layer_norm": Key(False, "one mean and variance per graph after each part"),
    "batch_norm": Key(True, "BatchNorm after each part; exclusive with layer_norm"),
    "residual": Key(True, "residual connections of SAN layers (GPS layers always have them)"),
    "full_graph": Key(True, "SAN layers attend to all pairs, not to edges only"),
    "gamma": Key(1e-5, "weight of pairs that are no edges in SAN layers", minimum=0.0),
    "dim_edge": Key(None, "width of the edge state; none: as gt.dim_hidden", holds=int, optional=True, minimum=1),
    "secondary_edges": Key("full_graph", "", inert="read by no published file; name the edges in gt.layer_type"),
    "activation": Key("relu", "", inert="read by ExphormerFullLayer only, which no configuration can reach"),
    "vn_pooling": Key("mean", "", inert=_DEAD),
    "pna_degrees": Key([], "in-degree histogram of PNA; measured on the training graphs when empty", item=int),
}

OPTIM = {
    "optimizer": Key("adam", "optimiser", rooms=("train/optimizers",)),
    "base_lr": Key(0.01, "learning rate", minimum=0.0),
    "weight_decay": Key(5e-4, "L2 penalty (adam) or decoupled decay (adamW)", minimum=0.0),
    "attention_weight_decay": Key(
        None, "decay of the attention branch of two-branch models; none: as weight_decay", holds=float, optional=True
    ),
    "momentum": Key(0.9, "momentum of sgd", minimum=0.0),
    "scheduler": Key("cos", "learning-rate schedule, stepped once per epoch", rooms=("train/schedules",)),
    "steps": Key([30, 60, 90], "epochs at which the step schedule decays", item=int),
    "lr_decay": Key(0.1, "factor of the step schedule", minimum=0.0),
    "max_epoch": Key(200, "epochs", minimum=1),
    "batch_accumulation": Key(1, "batches per step; gradients are summed, as in GraphGPS", minimum=1),
    "reduce_factor": Key(0.1, "factor of reduce_on_plateau", minimum=0.0),
    "schedule_patience": Key(10, "evaluations without a lower validation loss before the rate drops", minimum=0),
    "min_lr": Key(0.0, "smallest rate of reduce_on_plateau", minimum=0.0),
    "num_warmup_epochs": Key(50, "epochs of linear warm-up", minimum=0),
    "clip_grad_norm": Key(False, "clip the norm of all gradients"),
    "clip_grad_norm_value": Key(1.0, "largest norm when clipping", minimum=0.0),
}

PRETRAINED = {
    "dir": Key("", "run directory whose best checkpoint the model starts from"),
    "reset_prediction_head": Key(True, "start with a new prediction head"),
    "freeze_main": Key(False, "train the prediction head only"),
}

PREP = {
    "exp": Key(False, "compute expander edges"),
    "exp_algorithm": Key(
        "Random-d", "how they are drawn", allowed=("Random-d", "Random-d-2", "Random-d2", "Hamiltonian")
    ),
    "use_exp_edges": Key(True, "attend along expander edges"),
    "exp_deg": Key(5, "permutations or cycles of the expander; its degree is twice that", minimum=1),
    "exp_max_num_iters": Key(100, "tries until the spectral gap is large enough", minimum=1),
    "add_edge_index": Key(True, "attend along the edges of the graph, too"),
    "num_virt_node": Key(0, "virtual nodes per graph", minimum=0),
    "exp_count": Key(1, "", inert="Exphormer stores further expanders and reads none of them", minimum=1),
    "add_self_loops": Key(False, "add self loops to node data sets"),
    "add_reverse_edges": Key(True, "make node data sets undirected"),
    "train_percent": Key(0.6, "share of training nodes in random splits", minimum=0.0),
    "layer_edge_indices_dir": Key(None, "", holds=str, optional=True, inert=_NO_EFFECT),
    "dist_enable": Key(False, "", inert="distances are computed for the layers that read them"),
    "dist_cutoff": Key(510, "", inert="distances are computed for the layers that read them"),
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
    "is_decoder": Key(False, "", inert=_NO_EFFECT),
    "add_cross_attention": Key(False, "", inert=_NO_EFFECT),
    "hidden_act": Key("relu", "activation of the feed-forward part"),
    "max_position_embeddings": Key(128, "", inert="graphs have no positions"),
    "use_bias": Key(False, "bias of the projections"),
    "num_random_blocks": Key(3, "random blocks per query block", minimum=0),
    "block_size": Key(3, "nodes per block", minimum=1),
    "layer_norm_eps": Key(1e-6, "added to the variance of layer norms", minimum=0.0),
}

WANDB = {
    "use": Key(False, "log to Weights & Biases (offline unless logged in)", neutral=True),
    "entity": Key("", "team or user; empty: your default", neutral=True),
    "project": Key("graphbench", "project", neutral=True),
    "name": Key("", "run name; empty: made from data set, model and seed", neutral=True),
}

_EIGEN = {
    "eigen.laplacian_norm": Key("sym", "normalisation of the Laplacian", allowed=("none", "sym", "rw")),
    "eigen.eigvec_norm": Key(
        "L2",
        "scale of the eigenvectors",
        allowed=("L1", "L2", "abs-max", "wavelength", "wavelength-asin", "wavelength-soft"),
    ),
    "eigen.max_freqs": Key(10, "smallest eigenpairs kept, the trivial ones included", minimum=1),
}
_KERNEL = {
    "kernel.times": Key([], "steps", item=int),
    "kernel.times_func": Key("", "steps as range(a, b[, c]); parsed, never evaluated"),
}


ENCODING = {
    "enable": Key(False, "compute this encoding"),
    "model": Key("none", "network that embeds the encoding"),
    "dim_pe": Key(16, "width of the embedding", minimum=1),
    "layers": Key(3, "layers of that network", minimum=0),
    "n_heads": Key(4, "heads, where the network is a Transformer", minimum=1),
    "post_layers": Key(0, "layers after summing over frequencies", minimum=0),
    "raw_norm_type": Key("none", "normalisation of the raw encoding"),
    "pass_as_var": Key(False, "", inert="every encoding travels on its own in the batch here"),
}


_RESISTANCE = {
    **ENCODING,
    "accuracy": Key(0.1, "relative error allowed in effective resistances", minimum=0.0),
    "er_dim": Key(
        None, "columns of the raw encoding; none: half the nodes of the largest graph", holds=int, optional=True
    ),
}

GROUPS: dict[str, dict[str, Key]] = {
    "": TOP,
    "dataset": DATASET,
    "train": TRAIN,
    "val": VAL,
    "model": MODEL,
    "gnn": GNN,
    "gt": GT,
    "optim": OPTIM,
    "wandb": WANDB,
    "pretrained": PRETRAINED,
    "prep": PREP,
    "graphormer": GRAPHORMER,
    "gt.bigbird": BIGBIRD,
    "posenc_LapPE": {**ENCODING, **_EIGEN},
    "posenc_RWSE": {**ENCODING, **_KERNEL},
    "posenc_HKdiagSE": {**ENCODING, **_KERNEL},
    "posenc_ElstaticSE": {
        **ENCODING,
        **_KERNEL,
        "kernel.times_func": Key("range(10)", "columns of the encoding as range(a, b[, c])"),
    },
    "posenc_RWSEEdge": {
        **ENCODING,
        **_KERNEL,
        "num_global": Key(2, "", inert=_NO_EFFECT),
        "global_edge_dropout": Key(0.2, "", inert=_NO_EFFECT),
    },
    "posenc_SignNet": {
        **ENCODING,
        **_EIGEN,
        "phi_out_dim": Key(4, "width of the sign-invariant features", minimum=1),
        "phi_hidden_dim": Key(64, "width inside the network that makes them", minimum=1),
    },
    "posenc_EquivStableLapPE": {**ENCODING, **_EIGEN},
    "posenc_GraphormerBias": {
        **ENCODING,
        "dim_pe": Key(0, "always 0: this encoding takes no columns", minimum=0),
        "node_degrees_only": Key(False, "encode degrees, without a bias of attention"),
        "num_spatial_types": Key(None, "distances that are told apart", holds=int, optional=True, minimum=1),
        "num_in_degrees": Key(None, "in-degrees that are told apart", holds=int, optional=True, minimum=1),
        "num_out_degrees": Key(None, "out-degrees that are told apart", holds=int, optional=True, minimum=1),
    },
    "posenc_ERN": _RESISTANCE,
    "posenc_ERE": _RESISTANCE,
    "share": {name: Key(1, "", inert=_AT_RUN_TIME, neutral=True) for name in ("dim_in", "dim_out", "num_splits")},
    "mlflow": {
        "use": Key(False, "", inert="log to TensorBoard, CSV or Weights & Biases instead", neutral=True),
        "project": Key("", "", inert=_NO_EFFECT, neutral=True),
        "name": Key("", "", inert=_NO_EFFECT, neutral=True),
    },
    "example_group": {"example_arg": Key("example", "", inert=_NO_EFFECT, neutral=True)},
    "mem": {"inplace": Key(False, "", inert=_NO_EFFECT, neutral=True)},
    "bn": {
        "eps": Key(
            1e-5, "added to the variance by the BatchNorm of encoders, pre-MP layers and model gnn", minimum=0.0
        ),
        "mom": Key(0.1, "momentum of their running statistics", minimum=0.0),
    },
}

SCHEMA: dict[str, Key] = {
    (f"{group}.{name}" if group else name): key for group, keys in GROUPS.items() for name, key in keys.items()
}
"""All keys by their dotted name."""


def rooms_of_group(group: str) -> tuple[str, ...]:
    """Rooms whose components may have a section below ``group`` (``gt``: layers and models)."""
    found = {room for name, key in GROUPS.get(group, {}).items() for room in key.rooms}
    if group == "gt":  # a model's own arguments stand beside those of its layers
        found.add("models")
    return tuple(sorted(found))
