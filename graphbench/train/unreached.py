"""Parameters that training cannot change, told once: a layer of a user may forget or detach what it computes with."""

from __future__ import annotations

from torch import nn

from graphbench.errors import SHOWN

KNOWN = {"graphbench", "torch", "torch_geometric"}
"""Packages whose layers have parameters for inputs that a configuration may lack, such as edge states."""


def unreached(model: nn.Module) -> str:
    """A sentence on the parameters of users' modules that the last backward pass gave no gradient; empty for none."""
    found: dict[str, None] = {}  # a module inside of another is met twice
    for prefix, module in model.named_modules():
        if type(module).__module__.partition(".")[0] not in KNOWN:
            own = module.named_parameters(prefix)
            found |= {name: None for name, each in own if each.requires_grad and each.grad is None}
    if not found:
        return ""
    names = ", ".join(list(found)[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
    return f"the loss does not depend on {names}, which no gradient reaches: are they used, and is nothing detached?"
