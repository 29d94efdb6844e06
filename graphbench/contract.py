"""Mixins for abilities that modules of any package may have.

Code that needs an ability tests ``isinstance(module, HasStatistics)``; nothing is guessed from names. The base class of
every kind of component is in :data:`graphbench.registry.NAMESPACES`.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from graphbench.errors import ContractError
from graphbench.plug_ins import place


class HasStatistics:
    """A layer or head that reports numbers about every graph it sees in evaluation."""

    @abstractmethod
    def statistics(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """(G,) numbers by name, from the arguments of the forward pass; NaN where a graph has none.

        Asked in every evaluation, never in training. Means over graphs land in ``stats.json`` and in the record.
        """


class HasAttentionWeights:
    """An attention whose weights can be looked at.

    Asked by ``TrainedModel.attention_weights``, ``train.mode log-attn-weights`` and ``graphbench plots attention``.
    """

    @abstractmethod
    def attention_weights(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        """One (heads, n, n) tensor per graph, without dropout; row i is what node i receives.

        What the layer's operator returns is these weights times its values. No heads, (0, n, n), where the arguments of
        an instance leave it without a matrix.

        Args:
            args: arguments of the module's forward pass, of an attention ``h, e, batch``.
            kwargs: those that are passed by name.
        """


def checked_attention_weights(module: HasAttentionWeights, *args: Any, **kwargs: Any) -> list[Tensor]:
    """Attention weights of a module, as :class:`HasAttentionWeights` says.

    Args:
        module: module to ask.
        args: arguments of its forward pass.
        kwargs: those that are passed by name.

    Raises:
        ContractError: it takes other arguments, or returns something else.
    """
    method = type(module).attention_weights
    try:
        inspect.signature(method).bind(module, *args, **kwargs)
    except TypeError as error:
        raise ContractError(
            f"{place(method)}: {method.__qualname__} must take the arguments of forward ({error})."
        ) from None
    weights = module.attention_weights(*args, **kwargs)
    graphs = [each.num_graphs for each in (*args, *kwargs.values()) if hasattr(each, "num_graphs")]
    expected = "a list of one (heads, n, n) tensor per graph"
    if not isinstance(weights, list) or graphs[:1] != [len(weights)]:
        raise broken(method, expected, weights)
    for each in weights:
        if not isinstance(each, Tensor) or each.dim() != 3 or each.shape[1] != each.shape[2]:
            raise broken(method, expected, each)
    return weights


class PredictionHead:
    """The part of a model that maps its last hidden states to predictions.

    Fine-tuning replaces it, and trains nothing else where ``pretrained.freeze_main`` is set. Its statistics judge all
    predictions of a graph together, so that splits which share a graph have none.
    """


def head_prefixes(model: nn.Module) -> tuple[str, ...]:
    """Beginnings of the names of the parameters in a model's prediction heads, e.g. ``("head.",)``."""
    return tuple(f"{name}." for name, module in model.named_modules() if isinstance(module, PredictionHead))


class HasPooling:
    """A prediction head that reads one row per graph, made of the states of its nodes."""

    @abstractmethod
    def pooled(self, *args: Any, **kwargs: Any) -> Tensor:
        """(G, d) that row of every graph, from the arguments of the forward pass."""


class TiesParameters:
    """A layer that shares parameters with the first layer of its class in a model."""

    @abstractmethod
    def tie(self, first: Self) -> None:
        """Replaces parameters by those of ``first``, so that they are learned and counted once."""


class HasNodeParameters:
    """A module with a row of parameters per node of one graph, in the order of its nodes.

    A sample of the graph has others at their places, and may have as many: samplers that cut the graph are refused.
    """


class HasOptimizerGroup:
    """A module whose parameters form a parameter group of the optimiser.

    Attributes:
        optimizer_group: ``filter``: implicit filters, with ``optim.filter_lr`` and without weight decay.
    """

    optimizer_group: ClassVar[str]


class CountsOnHost:
    """A module with whole numbers on the host (counters, seeds) from which a resumed run goes on.

    Named before ``nn.Module`` among the base classes, whose methods it overrides.

    Attributes:
        counters: the attributes that hold them, which are in the module's state in this order.
    """

    counters: ClassVar[tuple[str, ...]]

    def get_extra_state(self) -> Tensor:
        """(C,) int64: the numbers."""
        return torch.tensor([getattr(self, name) for name in self.counters], device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Inverse of :meth:`get_extra_state`; one number may be a scalar, as it was in earlier checkpoints."""
        for name, number in zip(self.counters, state.view(-1).tolist(), strict=True):
            setattr(self, name, number)


class ReadsTargets:
    """A model that reads targets of training nodes (label propagation), in training and in evaluation.

    Its batches say which (:func:`~graphbench.structures.known_targets.known_targets`): every training node of the run.
    Without that, on new graphs, it predicts from features alone.
    """


class Capturable:
    """A component that says whether its training step can be recorded once and replayed on other batches.

    ``capturable = True`` promises two things (:mod:`graphbench.train.captured_step`), to which
    ``tests/train/test_padding.py`` and ``tests/train/test_traces.py`` hold every component:

    * *neutral padding*: what belongs to padding graphs (:mod:`graphbench.structures.capacity`) changes nothing that
      belongs to real ones, no gradient and no running statistic;
    * *fixed trace*: for all batches of one capacity the same operations run on tensors of the same shapes with the same
      numbers from the host. No value of a tensor comes to the host; what depends on a batch is computed on its device.

    What reads the host about a batch, once for every batch, keeps the second promise only where all steps have one and
    the same batch, that of all nodes of a graph: ``capturable = "one batch"``.

    A model with a layer, encoder or head that does not promise it is trained step by step.

    Attributes:
        capturable: the promise. It covers the ``forward`` of this class, not one that a subclass writes anew.
    """

    capturable: ClassVar[bool | Literal["one batch"]] = False

    def capture_obstacle(self, one_batch: bool = False) -> str | None:
        """Why this one cannot be captured; None where it can. Overridden where that depends on arguments.

        Args:
            one_batch: all steps have the same batch.
        """
        covered = covers_forward(type(self), "capturable")
        if covered and (self.capturable is True or (one_batch and self.capturable)):
            return None
        if covered and self.capturable:
            return f"{type(self).__name__} is capturable on one batch that never changes only"
        return f"{type(self).__name__} is not declared capturable"


def covers_forward(component: type, attribute: str) -> bool:
    """Whether a class attribute that says something of ``forward`` was set with the one that a component has.

    A subclass that writes ``forward`` anew inherits no promise.
    """
    classes = component.__mro__
    promised = next(i for i, base in enumerate(classes) if attribute in vars(base))
    written = next((i for i, base in enumerate(classes) if "forward" in vars(base)), promised)
    return promised <= written


def capture_obstacle(model: nn.Module, one_batch: bool = False) -> str | None:
    """Why a model cannot be captured, the first reason; None where it can.

    Args:
        model: model with all its parts.
        one_batch: all steps have the same batch.
    """
    if not isinstance(model, Capturable):
        return f"{type(model).__name__} is not declared capturable"
    reasons = (module.capture_obstacle(one_batch) for module in model.modules() if isinstance(module, Capturable))
    return next((reason for reason in reasons if reason is not None), None)


def broken(method: Any, expected: str, received: Any) -> ContractError:
    """The message for a component whose method returned something else than its base class says.

    Args:
        method: method of the component's class.
        expected: description of what it must return.
        received: value that it returned.
    """
    missing = ": is there a return?" if received is None else ""
    return ContractError(
        f"{place(method)}: {method.__qualname__} must return {expected}; received {_described(received)}{missing}"
    )


def versions(*tensors: Any) -> list[int]:
    """Number of times that each tensor among the arguments was written to: for :func:`written_to`.

    Empty inside ``torch.compile`` and for tensors of ``torch.inference_mode``, which do not count.
    """
    if torch.compiler.is_compiling():
        return []
    return [tensor._version for tensor in tensors if isinstance(tensor, Tensor) and not tensor.is_inference()]


def written_to(method: Any, what: str) -> ContractError:
    """The message for a component whose method changed in place what it was given, and what others read after it.

    Args:
        method: method of the component's class.
        what: the tensors concerned.
    """
    return ContractError(
        f"{place(method)}: {method.__qualname__} changes {what} in place, which others read after it; write "
        "h = h + 1 instead of h += 1, and give a copy (h.clone()) to what ends in an underscore"
    )


def has_abstract_methods(cls: type) -> bool:
    """Whether something is still to be implemented; Python collects the names after ``__init_subclass__`` only."""
    members = (inspect.getattr_static(cls, name) for name in dir(cls))
    return any(getattr(member, "__isabstractmethod__", False) for member in members)


def _described(received: Any) -> str:
    if isinstance(received, Tensor):
        return f"{received.dtype} of shape {tuple(received.shape)}".removeprefix("torch.")
    if isinstance(received, tuple):
        return f"({', '.join(map(_described, received))})"
    if isinstance(received, dict):
        entries = [f"{key!r}: {_described(value)}" for key, value in received.items()]
        return f"{{{', '.join(entries[:8])}{', ...' if entries[8:] else ''}}}"
    return "None" if received is None else type(received).__name__


class HasAuxiliaryLoss:
    """A module that adds a term to the loss that training minimises; the loss that is reported stays the task's.

    Attributes:
        auxiliary_loss: () what the forward pass in training leaves here, differentiable; None in evaluation. Whoever
            trains takes it with :func:`take_auxiliary_loss` and adds it before ``backward``.
    """

    auxiliary_loss: Tensor | None = None


def take_auxiliary_loss(modules: Iterable[nn.Module]) -> Tensor | None:
    """() sum of the auxiliary losses of the last forward pass, which the modules then forget; None without any.

    Args:
        modules: modules of a model; those that are no :class:`HasAuxiliaryLoss` do not count.
    """
    losses = []
    for module in modules:
        if isinstance(module, HasAuxiliaryLoss) and module.auxiliary_loss is not None:
            losses.append(module.auxiliary_loss)
            module.auxiliary_loss = None
    return torch.stack(losses).sum() if losses else None
