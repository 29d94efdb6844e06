"""Different weight decay for different parts of a model (SGFormer decays its two branches differently)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn


def parameter_groups(
    model: nn.Module, weight_decay: float, weight_decay_of: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """The trainable parameters as optimizer groups.

    Args:
        model: whose parameters are grouped; frozen ones are left out.
        weight_decay: for every parameter not named otherwise.
        weight_decay_of: module name (a prefix of parameter names, as in ``named_modules``) -> its weight decay; the
            longest matching prefix counts.

    Returns:
        Groups with ``params`` and ``weight_decay``; without ``weight_decay_of`` a single one.

    Raises:
        ValueError: a name in ``weight_decay_of`` matches no trainable parameter.
    """
    rules = weight_decay_of or {}
    members: dict[str, list[nn.Parameter]] = {prefix: [] for prefix in ("", *rules)}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            fitting = [prefix for prefix in rules if name == prefix or name.startswith(prefix + ".")]
            members[max(fitting, key=len, default="")].append(parameter)
    for prefix in rules:
        if not members[prefix]:
            allowed = ", ".join(dict(model.named_children())) or "none"
            raise ValueError(f"weight_decay_of: no trainable parameter in '{prefix}'; parts of the model: {allowed}")
    decay = {"": weight_decay, **rules}
    return [{"params": each, "weight_decay": decay[prefix]} for prefix, each in members.items() if each]
