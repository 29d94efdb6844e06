"""Types of a configuration's tree, generated from the schema by ``python -m scripts.regenerate``.

What ``config.tree.optim.base_lr`` is, for type checkers and editors; at run time the tree is a frozen ``CfgNode``. Keys
without effect, sections of components and those of encodings are not in it: nothing reads the first, and
:meth:`Config.value <graphbench.config.Config.value>` gives the others by name.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol


class GtAttn(Protocol):
    """Keys below ``gt.attn``."""

    deg_scaler: bool
    use_bias: bool
    clamp: float
    act: str
    norm_e: bool
    O_e: bool
    edge_enhance: bool


class GtBigbird(Protocol):
    """Keys below ``gt.bigbird``."""

    attention_type: Literal["block_sparse", "original_full"]
    hidden_act: str
    use_bias: bool
    num_random_blocks: int
    block_size: int
    layer_norm_eps: float


class Bn(Protocol):
    """Keys below ``bn``."""

    eps: float
    mom: float


class Dataset(Protocol):
    """Keys below ``dataset``."""

    format: str
    name: str
    dir: str
    task: Literal["graph", "node", "edge", "link_pred"]
    task_type: Literal[
        "regression",
        "classification",
        "classification_binary",
        "classification_multi",
        "classification_multilabel",
        "subtoken_prediction",
    ]
    transductive: bool
    split: list[Any]
    train_fraction: float
    split_mode: str
    split_index: int
    split_file: str
    split_seed: int | None
    node_encoder: bool
    node_encoder_name: str
    node_encoder_join: Literal["concat", "add"]
    node_encoder_bn: bool
    node_encoder_num_types: int
    edge_encoder: bool
    edge_encoder_name: str
    edge_encoder_bn: bool
    edge_encoder_num_types: int
    slic_compactness: Literal[10, 30]
    infer_link_label: Literal["None", "none", "edge"]
    sparse_features: Literal["auto", "always", "never"]
    distances: Literal["stored", "batch"]
    resample_negative: bool


class Gnn(Protocol):
    """Keys below ``gnn``."""

    head: str
    layers_pre_mp: int
    layers_mp: int
    layers_post_mp: int
    dim_inner: int
    dim_edge: int | None
    layer_type: str
    batchnorm: bool
    act: str
    dropout: float
    residual: bool
    agg: Literal["add", "sum", "mean", "max"]
    normalize_adj: bool
    stage_type: Literal["stack", "skipsum", "skipconcat"]
    msg_direction: Literal["single", "both"]
    self_msg: Literal["none", "add", "concat"]
    ffn: bool
    l2norm: bool


class Graphormer(Protocol):
    """Keys below ``graphormer``."""

    num_layers: int
    embed_dim: int
    num_heads: int
    dropout: float
    attention_dropout: float
    mlp_dropout: float
    input_dropout: float
    use_graph_token: bool


class Gt(Protocol):
    """Keys below ``gt``."""

    layer_type: str
    layers: int
    n_heads: int
    dim_hidden: int
    dropout: float
    local_dropout: float | None
    attn_dropout: float
    layer_norm: bool
    layer_norm_scope: Literal["graph", "node"]
    batch_norm: bool
    residual: bool
    full_graph: bool
    gamma: float
    dim_edge: int | None
    pna_degrees: list[int]
    attn: GtAttn
    bigbird: GtBigbird


class Mlflow(Protocol):
    """Keys below ``mlflow``."""

    use: bool
    project: str
    name: str


class Model(Protocol):
    """Keys below ``model``."""

    type: str
    loss_fun: str
    size_average: Literal["mean", "sum"]
    thresh: float
    graph_pooling: Literal["add", "sum", "mean", "max", "graph_token", "node_ensemble"]
    edge_decoding: Literal["dot", "cosine_similarity", "concat"]


class Optim(Protocol):
    """Keys below ``optim``."""

    optimizer: str
    base_lr: float
    weight_decay: float
    attention_weight_decay: float | None
    filter_lr: float | None
    momentum: float
    scheduler: str
    scheduler_step: Literal["epoch", "iteration"]
    steps: list[int]
    lr_decay: float
    max_epoch: int
    batch_accumulation: int
    reduce_factor: float
    schedule_patience: int
    min_lr: float
    num_warmup_epochs: int
    clip_grad_norm: bool
    clip_grad_norm_value: float


class Prep(Protocol):
    """Keys below ``prep``."""

    exp: bool
    exp_algorithm: Literal["Random-d", "Random-d-2", "Random-d2", "Hamiltonian"]
    use_exp_edges: bool
    exp_deg: int
    exp_max_num_iters: int
    add_edge_index: bool
    num_virt_node: int
    add_self_loops: bool
    add_reverse_edges: bool
    train_percent: float


class Pretrained(Protocol):
    """Keys below ``pretrained``."""

    parameters: list[str]
    dir: str
    adopt_architecture: bool
    reset_prediction_head: bool
    freeze_main: bool


class Train(Protocol):
    """Keys below ``train``."""

    mode: Literal["custom", "standard", "inference-only", "PCQM4Mv2-inference", "log-attn-weights"]
    batch_size: int
    batching: Literal["shuffled", "bucketed"]
    node_budget: int
    resident: Literal["auto", "always", "never"]
    capture: Literal["auto", "always", "never"]
    compile: bool
    sampler: str
    eval_period: int
    metrics_period: int
    ckpt_period: int
    enable_ckpt: bool
    ckpt_best: bool
    iter_per_epoch: int
    walk_length: int
    sample_coverage: int
    neighbor_sizes: list[int]
    train_parts: int
    clustering: Literal["auto", "metis", "rcm"]
    early_stop_patience: int


class Val(Protocol):
    """Keys below ``val``."""

    sampler: str
    measure_error: bool
    node_budget: int


class Wandb(Protocol):
    """Keys below ``wandb``."""

    use: bool
    entity: str
    project: str
    name: str


class Tree(Protocol):
    """All keys, by group."""

    out_dir: str
    plugins: list[str]
    compat: Literal["graphgps", "exphormer", "lrgb"]
    ogb_atom_vocabulary: Literal[4, 5]
    metric_best: str
    metric_agg: Literal["auto", "argmax", "argmin"]
    seed: int
    print: Literal["stdout", "file", "both"]
    accelerator: str
    devices: int
    strategy: Literal["auto", "ddp"]
    timeout: float
    precision: Literal["32-true", "tf32", "bf16-mixed", "16-mixed", "bf16-true", "16-true", "64-true"]
    num_threads: int
    name_tag: str
    run_multiple_splits: list[int]
    tensorboard_each_run: bool
    csv_each_run: bool
    profile: int
    custom_metrics: list[Any]
    bn: Bn
    dataset: Dataset
    gnn: Gnn
    graphormer: Graphormer
    gt: Gt
    mlflow: Mlflow
    model: Model
    optim: Optim
    prep: Prep
    pretrained: Pretrained
    train: Train
    val: Val
    wandb: Wandb
