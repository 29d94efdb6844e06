"""Every configuration key: default, type, allowed values, meaning. The vocabulary is GraphGPS's.

A key with ``namespaces`` names components (``a+b`` names several). The loader checks such names against the registry,
and each named component opens a section of its own below the same group, see :mod:`graphbench.config.components`.
"""

from __future__ import annotations

from graphbench.config.data_keys import DATASET, ENCODINGS, PREP
from graphbench.config.key import AT_RUN_TIME, NO_EFFECT, Key
from graphbench.config.model_keys import ATTN, BIGBIRD, GNN, GRAPHORMER, GT, MODEL
from graphbench.config.run_keys import MLFLOW, OPTIM, PRETRAINED, TOP, TRAIN, VAL, WANDB

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
    "gt.attn": ATTN,
    **ENCODINGS,
    "share": {name: Key(1, "", inert=AT_RUN_TIME, neutral=True) for name in ("dim_in", "dim_out", "num_splits")},
    "mlflow": MLFLOW,
    "example_group": {"example_arg": Key("example", "", inert=NO_EFFECT, neutral=True)},
    "mem": {"inplace": Key(False, "", inert=NO_EFFECT, neutral=True)},
    "bn": {
        "eps": Key(
            1e-5, "added to the variance by the BatchNorm of encoders, pre-MP layers and model gnn", minimum=0.0
        ),
        "mom": Key(0.1, "momentum of their running statistics", minimum=0.0, maximum=1.0),
    },
}

SCHEMA: dict[str, Key] = {
    (f"{group}.{name}" if group else name): key for group, keys in GROUPS.items() for name, key in keys.items()
}
"""All keys by their dotted name."""


def namespaces_of_group(group: str) -> tuple[str, ...]:
    """Namespaces whose components may have a section below ``group`` (``gt``: layers and models)."""
    named = {namespace for key in GROUPS.get(group, {}).values() for namespace in key.namespaces}
    if group == "gt":  # a model's own arguments stand next to those of its layers
        named.add("models")
    return tuple(sorted(named))
