"""Answers of modules inside a model during a forward pass: statistics per graph, attention weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.contract import HasAttentionWeights, HasStatistics, checked_attention_weights
from graphbench.errors import UserError


class ForwardObserver:
    """Asks every module that has an ability, after its forward pass and with the arguments of it.

    A model needs no second way through it, and pays nothing while nobody observes.

    Args:
        model: searched once, here.
        ability: class that the modules inherit from, e.g. :class:`~graphbench.contract.HasStatistics`.
        ask: ``(module, *arguments of its forward pass) -> answer``.
        among: says by name which modules are asked; default: all.
    """

    def __init__(
        self,
        model: nn.Module,
        ability: type[Any],
        ask: Callable[..., Any],
        among: Callable[[str], bool] = lambda name: True,
    ) -> None:
        self.modules = {
            name: module for name, module in model.named_modules() if isinstance(module, ability) and among(name)
        }
        self._ask = ask

    @contextmanager
    def __call__(self) -> Iterator[dict[str, Any]]:
        """Observes inside the block; the answers by name of the module, in the order of the calls."""
        answers: dict[str, Any] = {}
        with ExitStack() as handles:
            for name, module in self.modules.items():
                hook = partial(self._keep, answers, name)
                handles.enter_context(module.register_forward_hook(hook, with_kwargs=True))
            yield answers

    def _keep(
        self,
        answers: dict[str, Any],
        name: str,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Any,
    ) -> None:
        answers[name] = self._ask(module, *args, **kwargs)


def ask_statistics(module: HasStatistics, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
    """Statistics that a layer or head reports about the graphs it has just seen."""
    return module.statistics(*args, **kwargs)


@torch.no_grad()
def attention_weights(model: nn.Module, forward: Callable[[], Any]) -> dict[str, list[Tensor]]:
    """(heads, n, n) weights of every graph that a model sees, by name of the attention, in the order of their calls.

    Args:
        model: searched for :class:`~graphbench.contract.HasAttentionWeights`.
        forward: runs the model once, in evaluation.

    Raises:
        UserError: no attention of it has weights.
    """
    observer = ForwardObserver(model, HasAttentionWeights, checked_attention_weights)
    with observer() as answers:
        forward()
    shown = {name: weights for name, weights in answers.items() if all(map(len, weights))}
    if not shown:
        raise _no_weights()
    return shown


def _no_weights() -> UserError:
    layers = [*registry.components(registry.ATTENTIONS), *registry.components(registry.BLOCKS)]
    with_weights = [each.registered_name for each in layers if issubclass(each, HasAttentionWeights)]
    return UserError(
        f"no layer of this model gives its attention weights. {', '.join(with_weights)} do, where their arguments "
        "leave a matrix of all pairs, and one of yours that inherits graphbench.contract.HasAttentionWeights. Linear "
        "attention, convolutions and attention along chosen pairs never form it."
    )


def averaged(answers: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Statistics by name, (G,) each; one that several modules give becomes its mean over those that have a number."""
    collected: dict[str, list[Tensor]] = {}
    for answer in answers:
        for name, values in answer.items():
            collected.setdefault(name, []).append(values)
    return {
        name: values[0] if len(values) == 1 else torch.stack(values).nanmean(0) for name, values in collected.items()
    }
