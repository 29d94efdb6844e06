"""Training and evaluation mode of models, which change twice in every epoch."""

from __future__ import annotations

from torch import nn


def set_mode(model: nn.Module, training: bool) -> None:
    """``model.train(training)``, in less than half of its time where no module does more than that.

    A module that writes ``train`` or ``eval`` anew, or has another ``training`` than a plain attribute, is asked.
    """
    modules = list(model.modules())
    if all(_is_plain(module) for module in modules):
        for module in modules:
            vars(module)["training"] = training
    elif training:
        model.train()
    else:
        model.eval()


def _is_plain(module: nn.Module) -> bool:
    kind, own = type(module), vars(module)
    written = "train" in own or "eval" in own
    return kind.train is nn.Module.train and kind.eval is nn.Module.eval and "training" in own and not written
