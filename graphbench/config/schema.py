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


GRAPH_LAYERS = ("layers/local", "layers/attention")
NODE_ENCODERS = ("encoders/node", "encoders/positional")

SUPPLIED = frozenset(
    "dim dim_in dim_out dim_edge dim_encoded dim_pe node_in edge_in out_dim num_types heads dropout act batchnorm "
    "layers layers_pre_mp layers_post_mp l2norm pooling encoder edge_encoder block local attention head task task_type "
    "transductive size_average thresh params lr weight_decay momentum optimizer max_epoch num_warmup_epochs steps "
    "lr_decay reduce_factor schedule_patience min_lr name".split()
)
"""Constructor arguments that the surroundings supply; a component's own section may still set the plain ones."""

_NO_EFFECT = "accepted for compatibility with GraphGPS files; it has no effect here"
_RESUMES = "unfinished runs always resume here"

TOP = {
    "out_dir": Key("results", "root of all outputs", neutral=True),
    "cfg_dest": Key("config.yaml", "name of the dumped configuration", neutral=True),
    "plugins": Key(
        [], item=str, help="Python files or modules with components of your own, loaded before names are resolved"
    ),
    "compat": Key("graphgps", "whose meaning a key has where the forks differ", allowed=("graphgps",)),
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
    "edge_encoder_name": Key("Bond", "name of the edge encoder", rooms=("encoders/edge",)),
    "edge_encoder_bn": Key(True, "BatchNorm after the edge encoder"),
    "edge_encoder_num_types": Key(0, "vocabulary of TypeDictEdge; 0: the data set card's", minimum=0),
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
    "mode": Key("custom", "training pipeline", allowed=("custom",)),
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
    "early_stop_patience": Key(0, "epochs without a better validation metric that end a run; 0: never", minimum=0),
}

VAL = {"sampler": Key("full_batch", "as train.sampler, for evaluation", allowed=("full_batch",))}

MODEL = {
    "type": Key("gnn", "model family", rooms=("models",)),
    "loss_fun": Key("cross_entropy", "loss", rooms=("tasks/losses",)),
    "size_average": Key("mean", "reduction of the loss", allowed=("mean", "sum")),
    "thresh": Key(0.5, "probability from which a binary prediction is positive", minimum=0.0),
    "graph_pooling": Key("add", "readout of graph heads", allowed=("add", "sum", "mean", "max")),
    "edge_decoding": Key("dot", "score of a pair of nodes", allowed=("dot", "cosine_similarity", "concat")),
    "match_upper": Key(True, "", inert=_NO_EFFECT),
}

GNN = {
    "head": Key("default", "prediction head; default: the one of dataset.task", rooms=("heads",), extra=("default",)),
    "layers_pre_mp": Key(0, "linear layers before message passing", minimum=0),
    "layers_mp": Key(2, "", inert="read by message-passing models without attention only", minimum=0),
    "layers_post_mp": Key(1, "linear layers of the head", minimum=0),
    "dim_inner": Key(16, "width of the model", minimum=1),
    "dim_edge": Key(None, "width of the edge state; none: as gnn.dim_inner", holds=int, optional=True, minimum=1),
    "layer_type": Key("generalconv", "layer of models without attention", rooms=("layers/local",)),
    "batchnorm": Key(True, "BatchNorm in the layers before and after message passing"),
    "act": Key("relu", "activation"),
    "dropout": Key(0.0, "dropout of the layers before message passing and of local branches", minimum=0.0),
    "residual": Key(False, "residual connections in models without attention"),
    "agg": Key("add", "", inert=_NO_EFFECT),
    "normalize_adj": Key(False, "", inert=_NO_EFFECT),
    "stage_type": Key("stack", "", inert=_NO_EFFECT),
    "skip_every": Key(1, "", inert=_NO_EFFECT),
    "msg_direction": Key("single", "", inert=_NO_EFFECT),
    "self_msg": Key("concat", "", inert=_NO_EFFECT),
    "att_heads": Key(1, "", inert=_NO_EFFECT),
    "att_final_linear": Key(False, "", inert=_NO_EFFECT),
    "att_final_linear_bn": Key(False, "", inert=_NO_EFFECT),
    "l2norm": Key(True, "divide the rows of pre-message-passing layers by their norm"),
    "keep_edge": Key(0.5, "", inert=_NO_EFFECT),
    "clear_feature": Key(True, "", inert=_NO_EFFECT),
}

GT = {
    "layer_type": Key("None+Transformer", "<local>+<global>; None leaves a part out", rooms=GRAPH_LAYERS),
    "layers": Key(3, "number of layers", minimum=0),
    "n_heads": Key(8, "attention heads", minimum=1),
    "dim_hidden": Key(64, "width of the layers; equals gnn.dim_inner", minimum=1),
    "dropout": Key(0.0, "dropout after each part of a layer and in its feed-forward part", minimum=0.0),
    "attn_dropout": Key(0.0, "dropout on attention weights", minimum=0.0),
    "layer_norm": Key(False, "one mean and variance per graph after each part"),
    "batch_norm": Key(True, "BatchNorm after each part; exclusive with layer_norm"),
    "residual": Key(True, "", inert="GPS layers are always residual"),
    "full_graph": Key(True, "", inert="read by SAN layers only"),
    "gamma": Key(1e-5, "", inert="read by SAN layers only"),
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
    "posenc_LapPE": {**ENCODING, **_EIGEN},
    "posenc_RWSE": {**ENCODING, **_KERNEL},
    "mem": {"inplace": Key(False, "", inert=_NO_EFFECT, neutral=True)},
    "bn": {"eps": Key(1e-5, "", inert=_NO_EFFECT), "mom": Key(0.1, "", inert=_NO_EFFECT)},
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
