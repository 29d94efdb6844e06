"""Training and evaluation mode of models, which change twice in every epoch."""

from __future__ import annotations

from typing import Any

from torch import nn


def set_mode(model: nn.Module, training: bool) -> None:
    """``model.train(training)``, in less than half of its time where no module does more than that.

    A module that writes ``train`` or ``eval`` anew, or has another ``training`` than a plain attribute, is asked.
    """
    states = _plain_states(model)
    if states is not None:
        for state in states:
            state["training"] = training
    elif training:
        model.train()
    else:
        model.eval()


def _plain_states(model: nn.Module) -> list[dict[str, Any]] | None:
    """Attributes of every module, as ``train`` goes from one to its children; None where one is not plain.

    They are gathered anew every time: a list from before would miss a module that was exchanged since.
    """
    modules, kinds = [model], set()
    states = []
    for module in modules:  # grows meanwhile
        kinds.add(type(module))
        state = module.__dict__
        if "training" not in state or "train" in state or "eval" in state:
            return None
        states.append(state)
        children = state["_modules"]
        if children:
            modules += [child for child in children.values() if child is not None]
    plain = all(kind.train is nn.Module.train and kind.eval is nn.Module.eval for kind in kinds)
    return states if plain else None
