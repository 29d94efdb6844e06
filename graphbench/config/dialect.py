"""Fork of GraphGPS that a configuration was written for, read off the keys and names that only one of them has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphbench.errors import UserError

KEYS: Mapping[str, tuple[str, ...]] = {
    "exphormer": ("prep.", "posenc_ERN.", "posenc_ERE.", "gt.dim_edge", "gt.secondary_edges", "gt.activation"),
    "lrgb": (
        "train.eval_smoothing_metrics",
        "gnn.use_vn",
        "gnn.vn_pooling",
        "gnn.norm_type",
        "gnn.heads",
        "gnn.attn_dropout",
        "gt.vn_pooling",
        "posenc_RWSEEdge.",
    ),
}
"""Keys (or, ending in a dot, groups) that only this fork declares."""

VALUES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "exphormer": {"model.type": ("MultiModel", "SingleModel"), "gt.layer_type": ("Exphormer", "ETransformer")},
    "lrgb": {
        "gnn.head": ("mlp_graph", "mlp_graph_zinc", "mlp_graph_pcqm4m"),
        "dataset.node_encoder_name": ("COCONode",),
        "dataset.edge_encoder_name": ("COCOEdge", "RWSEEdge"),
    },
}
"""Names that only this fork gives a meaning, by the key they stand under."""


def infer(
    values: Mapping[str, Any], origin: Mapping[str, str], names_in: Callable[[str], list[str]]
) -> tuple[str, str] | None:
    """The fork that a configuration belongs to.

    Args:
        values: all values by dotted key.
        origin: place where each key was set, for those that were.
        names_in: splits ``a+b`` into its names.

    Returns:
        The fork and a sentence that says why; None where nothing points to one.

    Raises:
        UserError: two forks are pointed to.
    """
    signs: dict[str, str] = {}
    for fork, declared in KEYS.items():
        groups = tuple(name for name in declared if name.endswith("."))
        for key, where in origin.items():
            if key in declared or key.startswith(groups):
                signs.setdefault(fork, f"{where}: {key}")
    for fork, names in VALUES.items():
        for key, components in names.items():
            if key in origin and set(components) & set(names_in(values[key])):
                signs.setdefault(fork, f"{origin[key]}: {key} is '{values[key]}'")
    if values["model.type"] == "custom_gnn" and values["gnn.layer_type"] == "gcnconv" and "gnn.layer_type" in origin:
        signs.setdefault("lrgb", f"{origin['gnn.layer_type']}: gnn.layer_type is 'gcnconv' in a custom_gnn")
    if len(signs) > 1:
        (first, why), (second, why_not) = list(signs.items())[:2]
        raise UserError(
            f"{why}, which only {first} has; {why_not}, which only {second} has. The forks of GraphGPS give some keys "
            f"different meanings: say which is meant with 'compat: {first}' or 'compat: {second}'."
        )
    for fork, why in signs.items():
        return fork, f"{why}, which only {fork} has: read with compat {fork} (set compat to choose otherwise)."
    return None


def name_encoders(values: dict[str, Any]) -> None:
    """Writes an encoder that is only switched on into the key that names the encoders: GRIT's files do not name RRWP.

    Args:
        values: values by dotted key, see :func:`infer`; changed in place.
    """
    names = values["dataset.node_encoder_name"].split("+")
    if values["model.type"] == "GritTransformer" and values["posenc_RRWP.enable"] and "RRWP" not in names:
        values["dataset.node_encoder_name"] = "+".join([*names, "RRWP"])
