"""Optimizer groups: parts of a model with another weight decay or learning rate.

SGFormer decays its two branches differently; the implicit filters of GECO and Hyena have a learning rate of their own
and no weight decay, as in Hyena's released code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from graphbench.contract import HasOptimizerGroup
from graphbench.errors import ArgumentError

FILTER = "filter"
"""``optimizer_group`` of modules whose parameters are never decayed and may have their own learning rate."""


def parameter_groups(
    model: nn.Module,
    weight_decay: float,
    weight_decay_of: Mapping[str, float] | None = None,
    *,
    filter_lr: float | None = None,
) -> list[dict[str, Any]]:
    """The trainable parameters as optimizer groups.

    Args:
        model: model whose parameters are grouped; frozen ones are left out.
        weight_decay: weight decay of every parameter not named otherwise.
        weight_decay_of: module name (a prefix of parameter names, as in ``named_modules``) -> its weight decay; the
            longest matching prefix counts.
        filter_lr: learning rate of modules with ``optimizer_group = "filter"``; None: that of all others. They have no
            weight decay in either case.

    Returns:
        Groups with ``params``, ``weight_decay`` and, where it is not the optimizer's, ``lr``: as many as there are
        different settings.

    Raises:
        ValueError: a name in ``weight_decay_of`` matches no trainable parameter, or there is no filter for
            ``filter_lr``.
    """
    named = {prefix: {"weight_decay": decay} for prefix, decay in (weight_decay_of or {}).items()}
    filters = [
        name
        for name, module in model.named_modules()
        if isinstance(module, HasOptimizerGroup) and module.optimizer_group == FILTER
    ]
    if filter_lr is not None and not filters:
        raise ArgumentError("filter_lr", "filter_lr: this model has no implicit filters; GECO and Hyena have")
    of_filters = {"weight_decay": 0.0}
    if filter_lr is not None:
        of_filters["lr"] = filter_lr
    settings = {"": {"weight_decay": weight_decay}, **named, **dict.fromkeys(filters, of_filters)}
    members = _members(model, list(settings))
    for prefix in named:
        if not members[prefix]:
            allowed = ", ".join(dict(model.named_children())) or "none"
            raise ArgumentError(
                "weight_decay_of",
                f"weight_decay_of: no trainable parameter in '{prefix}'; parts of the model: {allowed}",
            )
    # One group per setting: a fused step takes all parameters of a group at once.
    groups: dict[tuple[tuple[str, float], ...], list[nn.Parameter]] = {}
    for prefix, of_prefix in settings.items():
        if members[prefix]:
            groups.setdefault(tuple(sorted(of_prefix.items())), []).extend(members[prefix])
    return [{"params": parameters, **dict(setting)} for setting, parameters in groups.items()]


def _members(model: nn.Module, prefixes: Sequence[str]) -> dict[str, list[nn.Parameter]]:
    """Trainable parameters by the longest prefix of their name; ``""`` is a prefix of every name."""
    members: dict[str, list[nn.Parameter]] = {prefix: [] for prefix in prefixes}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            fitting = [prefix for prefix in prefixes if name == prefix or name.startswith(prefix + ".")]
            members[max(fitting, key=len, default="")].append(parameter)
    return members


def count_parameters(model: nn.Module) -> int:
    """Number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
