"""Every configuration key: default, type, allowed values, meaning. The vocabulary is GraphGPS's.

A key with ``rooms`` names components (``a+b`` names several). The loader checks such names against the registry, and
each named component opens a section of its own below the same group: ``gt.layer_type: GCN+SGFormer`` makes
``gt.GCN.*`` and ``gt.SGFormer.*`` valid, with keys, types and defaults read from the constructors.
"""

from __future__ import annotations

from graphbench.config.data_keys import DATASET, ENCODINGS, PREP
from graphbench.config.key import AT_RUN_TIME, NO_EFFECT, Key
from graphbench.config.model_keys import BIGBIRD, GNN, GRAPHORMER, GT, MODEL
from graphbench.config.run_keys import OPTIM, PRETRAINED, TOP, TRAIN, VAL, WANDB

SUPPLIED = frozenset(
    "dim dim_in dim_out dim_edge dim_encoded dim_pe node_in edge_in out_dim num_types heads dropout act batchnorm "
    "layers layers_pre_mp layers_post_mp l2norm pooling encoder edge_encoder block local attention head task task_type "
    "transductive size_average thresh params lr weight_decay momentum fused optimizer max_epoch num_warmup_epochs "
    "steps lr_decay reduce_factor schedule_patience min_lr name ogb_atom_vocabulary attn_dropout degrees equivstable "
    "edge_types max_nodes prepare decoding infer_link_label "
    "hidden_dropout use_edge_attr attention_type num_random_blocks block_size use_bias hidden_act layer_norm_eps "
    "slic_compactness train_percent add_reverse_edges add_self_loops "
    "stage_type agg normalize_adj self_msg msg_direction "
    "mlp edge_residual dropout_inside standardize".split()  # what compat chooses, see build/compat.py
)
"""Constructor arguments that the surroundings supply; a component's own section may still set the plain ones."""

SUPPLIED_TO_BLOCKS = SUPPLIED | frozenset("norm residual full_graph gamma mlp_dropout".split())
"""The same for complete layers, which the general keys of ``gt`` and ``gnn`` describe."""

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
    **ENCODINGS,
    "share": {name: Key(1, "", inert=AT_RUN_TIME, neutral=True) for name in ("dim_in", "dim_out", "num_splits")},
    "mlflow": {
        "use": Key(False, "", inert="log to TensorBoard, CSV or Weights & Biases instead", neutral=True),
        "project": Key("", "", inert=NO_EFFECT, neutral=True),
        "name": Key("", "", inert=NO_EFFECT, neutral=True),
    },
    "example_group": {"example_arg": Key("example", "", inert=NO_EFFECT, neutral=True)},
    "mem": {"inplace": Key(False, "", inert=NO_EFFECT, neutral=True)},
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
