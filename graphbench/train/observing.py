"""What modules inside a model have to say during a forward pass: statistics per graph, weights of an attention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn


class Observer:
    """Asks every module that has a certain method for its answer, whenever it is called.

    The method gets the arguments of the module's forward pass, after it, so that a model needs no second way through
    it, and pays nothing when nobody observes.

    Args:
        model: searched once, here.
        method: name of the method, e.g. ``statistics``.
        among: says by name which modules are asked; default: all.
    """

    def __init__(self, model: nn.Module, method: str, among: Callable[[str], bool] = lambda name: True) -> None:
        self.modules = {
            name: each for name, each in model.named_modules() if callable(getattr(each, method, None)) and among(name)
        }
        self._method = method

    @contextmanager
    def __call__(self) -> Iterator[dict[str, Any]]:
        """Observes inside the block; the answers by name of the module, in the order of the calls."""
        answers: dict[str, Any] = {}
        hooks = [
            each.register_forward_hook(partial(self._ask, answers, name), with_kwargs=True)
            for name, each in self.modules.items()
        ]
        try:
            yield answers
        finally:
            for hook in hooks:
                hook.remove()

    def _ask(
        self, answers: dict[str, Any], name: str, module: nn.Module, args: tuple, kwargs: dict, output: Any
    ) -> None:
        answers[name] = getattr(module, self._method)(*args, **kwargs)


def averaged(answers: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Statistics by name, (G,) each; one that several modules give becomes its mean over those that have a number."""
    found: dict[str, list[Tensor]] = {}
    for answer in answers:
        for name, values in answer.items():
            found.setdefault(name, []).append(values)
    return {name: each[0] if len(each) == 1 else torch.stack(each).nanmean(0) for name, each in found.items()}
