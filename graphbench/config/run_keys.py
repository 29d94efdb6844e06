"""Keys of a run: outputs, devices, training, optimisation, pretrained runs, loggers."""

from __future__ import annotations

from graphbench.config.key import AT_RUN_TIME, NO_EFFECT, Key

INFERENCE_MODES = ("inference-only", "PCQM4Mv2-inference", "log-attn-weights")
"""Values of ``train.mode`` that apply a trained model."""

_SAINT = ("saint_node", "saint_edge", "saint_rw")
_PARTS = ("random_node", "cluster")

_RESUMES = "unfinished runs always resume here"

TOP = {
    "out_dir": Key("results", "root of all outputs", neutral=True),
    "cfg_dest": Key("config.yaml", "", inert="the configuration is always dumped as config.yaml here", neutral=True),
    "plugins": Key(
        [], item=str, help="Python files or modules with components of your own, loaded before names are resolved"
    ),
    "compat": Key(
        "graphgps",
        "whose meaning a key has where the forks of GraphGPS differ; inferred from keys that only one of them has",
        allowed=("graphgps", "exphormer", "lrgb"),
    ),
    "ogb_atom_vocabulary": Key(5, "chirality classes of Atom: 5 since ogb 1.3.6, 4 before", allowed=(4, 5)),
    "metric_best": Key(
        "auto",
        "metric, of those computed for the data set, or loss, that selects the best epoch on validation; auto: the "
        "metric of its card, which tables have with loss, too (with class weights or missing targets the loss is "
        "the mean of batches, as in GraphGPS)",
    ),
    "metric_agg": Key("auto", "direction of metric_best", allowed=("auto", "argmax", "argmin")),
    "seed": Key(0, "seed of the first run; run i of --repeat uses seed + i", minimum=0, neutral=True),
    "round": Key(5, "", inert="numbers are written with all their digits here", minimum=1, neutral=True),
    "print": Key("both", "where the log goes", allowed=("stdout", "file", "both"), neutral=True),
    "accelerator": Key(
        "auto",
        "device: the N-th GPU is cuda:N",
        allowed=("auto", "cpu", "cuda", "gpu", "mps", "cuda:N"),
        pattern=r"cuda:\d+",
        neutral=True,
    ),
    "devices": Key(1, "number of devices (processes) of a data-parallel run", minimum=1),
    "strategy": Key("auto", "Fabric strategy", allowed=("auto", "ddp")),
    "timeout": Key(
        600.0,
        "seconds that a process of several waits for the others in one exchange before it ends (exit code 3)",
        neutral=True,
    ),
    "precision": Key(
        "32-true",
        "arithmetic of the model; tf32: 32-true with products of maps and attentions from ten bits, on a GPU",
        allowed=("32-true", "tf32", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true"),
    ),
    "num_workers": Key(
        0, "", inert="batches are gathered by index arithmetic here, without worker processes", neutral=True
    ),
    "num_threads": Key(
        0,
        "CPU threads of torch; 0: torch's own choice",
        minimum=0,
        maximum=1024,  # PyTorch ends the process for 100,000
        neutral=True,
    ),
    "name_tag": Key("", "suffix of the run directory and of the run's name", neutral=True),
    "run_multiple_splits": Key(
        [], "run once per listed split index, seed kept; not together with --repeat", item=int, minimum=0
    ),
    "tensorboard_each_run": Key(False, "write TensorBoard event files", neutral=True),
    "csv_each_run": Key(False, "write metrics.csv beside stats.json", neutral=True),
    "profile": Key(
        0,
        "training steps for PyTorch's profiler, from the third on (true: 10); <run>/profile has them and all parts",
        minimum=0,
        switched_on=10,
        neutral=True,
    ),
    "tensorboard_agg": Key(True, "", inert=NO_EFFECT, neutral=True),
    "gpu_mem": Key(False, "", inert="peak memory is always recorded here", neutral=True),
    "view_emb": Key(False, "", inert=NO_EFFECT, neutral=True),
    "benchmark": Key(False, "", inert=NO_EFFECT, neutral=True),
    "best_by_loss": Key(False, "", inert="metric_best loss selects the epoch by validation loss"),
    "example_arg": Key("example", "", inert=NO_EFFECT, neutral=True),
    "model_dir": Key("", "", inert=AT_RUN_TIME, neutral=True),
    "run_dir": Key("", "", inert=AT_RUN_TIME, neutral=True),
    "run_id": Key(0, "", inert=AT_RUN_TIME, neutral=True),
    "params": Key(0, "", inert=AT_RUN_TIME, neutral=True),
    "custom_metrics": Key([], "further metrics to report", namespaces=("tasks/metrics",)),
}

TRAIN = {
    "mode": Key(
        "custom",
        "custom (train), inference-only, PCQM4Mv2-inference, or log-attn-weights; standard is the same as custom",
        allowed=("custom", "standard", *INFERENCE_MODES),
    ),
    "batch_size": Key(16, "graphs per batch; of a sampler: nodes, pairs, edges, walks or clusters", minimum=1),
    "batching": Key(
        "shuffled",
        "which graphs share a batch: any, or those of similar size (bucketed); orders depend on seed and epoch only",
        allowed=("shuffled", "bucketed"),
        only_with={"train.sampler": ["full_batch"]},
    ),
    "node_budget": Key(
        0,
        "largest number of nodes in a batch, in place of batch_size; 0: none",
        minimum=0,
        only_with={"train.sampler": ["full_batch"]},
    ),
    "resident": Key(
        "auto",
        "keep all graphs on the GPU: always, never, or where they take at most a quarter of its free memory",
        allowed=("auto", "always", "never"),
        neutral=True,
    ),
    "capture": Key(
        "auto",
        "record the training step of each class of batch sizes, and its evaluation, as CUDA graphs and replay them: "
        "auto (on a GPU, where every part of the model allows it), always (or refuse to train), never",
        allowed=("auto", "always", "never"),
        neutral=True,
    ),
    "compile": Key(
        False,
        "compile the model's blocks with torch.compile, each into one graph for batches of all sizes; the first batch "
        "runs without. Excludes captured steps",
        neutral=True,
    ),
    "sampler": Key(
        "full_batch",
        "how one large graph is cut into batches: not at all, random_node (a random partition of the nodes into "
        "train_parts induced subgraphs, anew in every epoch), neighbor (sampled neighbourhoods of batch_size nodes, or "
        "of the ends of batch_size pairs), shadow (ShaDow: an ego graph for each of these nodes or pairs, with all "
        "edges among what was sampled), cluster (Cluster-GCN: batch_size of train_parts clusters), saint_node, "
        "saint_edge and saint_rw (GraphSAINT: the subgraph of batch_size random nodes, edges or walks of walk_length "
        "steps, iter_per_epoch times), seeds (not at all, with the loss of batch_size nodes per step, for models that "
        "read nodes one by one: ANSGT)",
        namespaces=("data/large",),
        extra=("full_batch",),
    ),
    "eval_period": Key(10, "epochs between evaluations; the first and the last epoch are always evaluated", minimum=1),
    "metrics_period": Key(
        0,
        "epochs between computations of all metrics (loss and selecting metric: always); 0: 1, or 25 for tiny epochs",
        minimum=0,
        neutral=True,
    ),
    "ckpt_period": Key(100, "epochs between checkpoints (one is written every minute anyway)", minimum=1, neutral=True),
    "enable_ckpt": Key(True, "write checkpoints", neutral=True),
    "ckpt_best": Key(
        False,
        "write a checkpoint at every better epoch, too (while that costs under 2 %)",
        only_with={"train.enable_ckpt": [True]},
        neutral=True,
    ),
    "ckpt_clean": Key(True, "", inert="the best and the last checkpoint are kept here", neutral=True),
    "auto_resume": Key(True, "", inert=_RESUMES, neutral=True),
    "epoch_resume": Key(-1, "", inert=_RESUMES, neutral=True),
    "skip_train_eval": Key(False, "", inert="training metrics come from the training pass here", neutral=True),
    "iter_per_epoch": Key(
        32, "batches of an epoch of GraphSAINT's samplers", minimum=1, only_with={"train.sampler": _SAINT}
    ),
    "walk_length": Key(4, "steps of a walk of saint_rw", minimum=1, only_with={"train.sampler": ["saint_rw"]}),
    "sample_coverage": Key(
        0,
        "how often, on average, a node is sampled before training in order to estimate GraphSAINT's normalisation of "
        "loss and aggregation; 0, GraphGym's value: neither is normalised (the paper has 50)",
        minimum=0,
        only_with={"train.sampler": _SAINT},
    ),
    "neighbor_sizes": Key(
        [20, 15, 10, 5],
        "neighbours per hop of neighbor and shadow, -1 for all; []: the nodes alone",
        item=int,
        minimum=-1,
        only_with={"train.sampler": ["neighbor", "shadow"]},
    ),
    "train_parts": Key(
        10,
        "parts of random_node, or all clusters of cluster",
        minimum=1,
        only_with={"train.sampler": _PARTS, "val.sampler": _PARTS},
    ),
    "clustering": Key(
        "auto",
        "how cluster finds its clusters: metis (needs pymetis), rcm (pieces of the reverse Cuthill-McKee order, "
        "which cut more edges), or auto: metis where it is installed, else rcm with a warning",
        allowed=("auto", "metis", "rcm"),
        only_with={"train.sampler": ["cluster"], "val.sampler": ["cluster"]},
    ),
    "sample_node": Key(False, "", inert=NO_EFFECT),
    "node_per_graph": Key(32, "", inert=NO_EFFECT),
    "radius": Key("extend", "", inert=NO_EFFECT),
    "eval_smoothing_metrics": Key(False, "", inert="smoothing metrics of the LRGB fork are not computed", neutral=True),
    "finetune": Key("", "", inert="see pretrained.dir", neutral=True),
    "freeze_pretrained": Key(False, "", inert="see pretrained.freeze_main", neutral=True),
    "early_stop_patience": Key(0, "evaluations without a better validation metric that end a run; 0: never", minimum=0),
}

VAL = {
    "sampler": Key(
        "full_batch",
        "the same for evaluation; blocks gives the numbers of full_batch with bounded memory "
        "(models gnn, GPSModel, TwoBranch, GECO, SGC, SIGN, APPNP and GPRGNN); random_node and cluster predict part by "
        "part, without the edges between parts, neighbor and shadow on batches like those of the training: "
        "approximations, named in record and table",
        namespaces=("data/large",),
        extra=("full_batch", "blocks"),
    ),
    "measure_error": Key(
        True,
        "of an approximate evaluation: predict validation and test once more at the end, exactly (in blocks, or on the "
        "whole of a graph of up to 4 million nodes and edges), and put the difference into the record",
        neutral=True,
    ),
    "node_budget": Key(
        0,
        "largest number of nodes in an evaluation batch (GPUs like few large ones); 0: batches as in training",
        minimum=0,
        only_with={"val.sampler": ["full_batch"]},
    ),
    "sample_node": Key(False, "", inert=NO_EFFECT),
    "node_per_graph": Key(32, "", inert=NO_EFFECT),
    "radius": Key("extend", "", inert=NO_EFFECT),
}

OPTIM = {
    "optimizer": Key("adam", "optimiser", namespaces=("train/optimizers",)),
    "base_lr": Key(0.01, "learning rate", minimum=0.0),
    "weight_decay": Key(5e-4, "L2 penalty (adam) or decoupled decay (adamW)", minimum=0.0),
    "attention_weight_decay": Key(
        None,
        "decay of the attention branch of two-branch models; none: as weight_decay",
        holds=float,
        optional=True,
        minimum=0.0,
    ),
    "filter_lr": Key(
        None, "learning rate of implicit filters (GECO, Hyena); none: base_lr", holds=float, optional=True, minimum=0.0
    ),
    "momentum": Key(0.9, "momentum of sgd", minimum=0.0),
    "scheduler": Key("cos", "learning-rate schedule", namespaces=("train/schedules",)),
    "scheduler_step": Key(
        "epoch", "the rate changes after every epoch, or before every step", allowed=("epoch", "iteration")
    ),
    "steps": Key([30, 60, 90], "epochs at which the step schedule decays", item=int, minimum=1),
    "lr_decay": Key(0.1, "factor of the step schedule", minimum=0.0),
    "max_epoch": Key(200, "epochs", minimum=1),
    "batch_accumulation": Key(1, "batches per step; gradients are summed, as in GraphGPS", minimum=1),
    "reduce_factor": Key(0.1, "factor of reduce_on_plateau", minimum=0.0),
    "schedule_patience": Key(
        10,
        "epochs without a lower validation loss before the rate drops; between evaluations the latest one counts again",
        minimum=0,
    ),
    "min_lr": Key(0.0, "smallest rate of reduce_on_plateau", minimum=0.0),
    "num_warmup_epochs": Key(50, "epochs of linear warm-up", minimum=0),
    "clip_grad_norm": Key(False, "clip the norm of all gradients"),
    "clip_grad_norm_value": Key(
        1.0, "largest norm when clipping", minimum=0.0, no_limit=True, only_with={"optim.clip_grad_norm": [True]}
    ),
}

_PRETRAINED: dict[str, list[str]] = {"pretrained.dir": []}

PRETRAINED = {
    "parameters": Key(
        [],
        "names of parameters to copy, with * and ?; empty: all that both models have",
        holds=list,
        item=str,
        only_with=_PRETRAINED,
    ),
    "dir": Key("", "run directory whose best checkpoint the model starts from"),
    "adopt_architecture": Key(
        True, "take encoders and layers from it where this file sets no key", only_with=_PRETRAINED
    ),
    "reset_prediction_head": Key(
        True, "start with a new prediction head; one that is only applied is kept", only_with=_PRETRAINED
    ),
    "freeze_main": Key(False, "train the prediction head only", only_with=_PRETRAINED),
}

MLFLOW = {
    "use": Key(False, "log to MLflow ($MLFLOW_TRACKING_URI, else <out_dir>/mlflow.db)", neutral=True),
    "project": Key("graphbench", "experiment", neutral=True),
    "name": Key("", "run name; empty: as for Weights & Biases", neutral=True),
}

WANDB = {
    "use": Key(False, "log to Weights & Biases (offline unless logged in)", neutral=True),
    "entity": Key("", "team or user; empty: your default", neutral=True),
    "project": Key("graphbench", "project", neutral=True),
    "name": Key("", "run name; empty: made from data set, model and seed", neutral=True),
}
