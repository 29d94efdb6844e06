"""Search for the first module whose output is not finite: the part to name when a training loss is NaN.

The loss of a batch is known long after its step, when the update has spread NaN over all parameters. So the batch is
computed again, step by step and watched module by module, with parameters from before. Only runs that fail pay for it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from graphbench import plug_ins
from graphbench.train.recording import Snapshot
from graphbench.train.unreached import KNOWN

logger = logging.getLogger(__name__)

Part = Literal["output", "parameters", "loss", "gradient", "updates"]


@dataclass(frozen=True)
class Origin:
    """Origin of a number that is not finite.

    Attributes:
        part: what is not finite, while all that it is computed from is: the ``output`` of a module; that output, for
            ``parameters`` or buffers of the module are not; the ``loss`` of finite predictions; the ``gradient`` that a
            module passes back, or its parameters get; nothing, so that ``updates`` of the parameters came in between.
        module: dotted name of the module; empty for the model itself, and where no module is to name.
        kind: class of the module, that of a user with its place.
        tensors: names of parameters and buffers that are not finite, each with the class of its module.
        weights: name of the parameters that it was found with; empty for those of the moment.
    """

    part: Part
    module: str = ""
    kind: str = ""
    tensors: tuple[str, ...] = ()
    weights: str = ""


def find_origin(
    model: nn.Module,
    losses: Iterable[Callable[[], Tensor]],
    earlier: Mapping[str, Tensor] | None = None,
    weights: str = "",
) -> Origin | None:
    """Origin of a loss that is not finite; None where computing it again does not show it, or fails.

    Args:
        model: parameters, buffers, mode and the random generators are put back, gradients not touched.
        losses: compute what is minimised for a batch, in the mode of training, one batch after the other.
        earlier: state_dict from before the failure, taken where parameters or buffers are not finite any more.
        weights: name of ``earlier``.
    """
    try:
        with _put_back(model), _uncompiled():
            spoiled = tuple(_spoiled(model.named_modules()))
            takes_earlier = bool(spoiled) and earlier is not None
            if takes_earlier:
                assert earlier is not None
                model.load_state_dict(earlier)
            for loss in losses:
                found = _origin(model, loss)
                if found is not None:
                    return replace(found, weights=weights if takes_earlier else "")
            return Origin("updates", tensors=spoiled, weights=weights) if takes_earlier else None
    except Exception as error:  # noqa: BLE001  the failure that is explained here came first
        logger.debug("the origin of a loss that is not finite was not found: %r", error)
        return None


@contextmanager
def _put_back(model: nn.Module) -> Iterator[None]:
    before, modes = Snapshot(model), [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        before.restore()
        for module, training in modes:
            module.training = training


def _uncompiled() -> AbstractContextManager[object]:
    """Within it, models that are compiled are not; the compiler takes seconds to import."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def _origin(model: nn.Module, loss: Callable[[], Tensor]) -> Origin | None:
    """Origin in the forward pass of one batch, else in its backward pass."""
    with _Watch(model) as watch, torch.enable_grad():
        total = loss()
    if not _finite(total):
        if watch.suspect is None:
            return Origin("loss")
        name, module = watch.suspect.name, watch.suspect.module
        spoiled = tuple(_spoiled([(name, module)]))
        return Origin("parameters" if spoiled else "output", name, _kind(module), spoiled)
    trained = [each for each in model.parameters() if each.requires_grad]
    gradients = zip(trained, torch.autograd.grad(total, trained, allow_unused=True), strict=True)
    wrong = {id(each) for each, gradient in gradients if gradient is not None and not _finite(gradient)}
    spoilt = {call.module for call in watch.calls if call.receives_finite is False}  # by one of several calls, perhaps
    for call in watch.calls:
        own = () if call.module in spoilt else call.module.parameters(recurse=False)
        if call.receives_finite and not (call.passes_finite and wrong.isdisjoint(map(id, own))):
            return Origin("gradient", call.name, _kind(call.module))
    return None


def _kind(module: nn.Module) -> str:
    kind = type(module)
    of_users = kind.__module__.partition(".")[0] not in KNOWN
    return f"{kind.__name__}, {plug_ins.place(kind)}" if of_users else kind.__name__


def _spoiled(modules: Iterable[tuple[str, nn.Module]]) -> Iterator[str]:
    """Parameters and buffers of modules' own that are not finite, with the class of the module."""
    for prefix, module in modules:
        own = (*module.named_parameters(prefix, recurse=False), *module.named_buffers(prefix, recurse=False))
        for name, tensor in own:
            if not _finite([tensor]):
                yield f"{name} ({type(module).__name__})"


def _finite(values: Any) -> bool:
    """Whether all numbers of all tensors in a nest of containers are; waits for the device."""
    return all(bool(each.isfinite().all()) for each in _tensors(values))


def _tensors(values: Any) -> list[Tensor]:
    leaves = [each for each in tree_leaves(values) if isinstance(each, Tensor)]
    return [each for each in leaves if each.is_floating_point() or each.is_complex()]


@dataclass(eq=False)
class _Call:
    """One call of a module.

    Attributes:
        name: dotted name of the module.
        module: the module.
        given_finite: whether its inputs are finite.
        receives_finite: whether the gradients of its outputs are; None: there were none.
        passes_finite: whether the gradients of its inputs are.
    """

    name: str
    module: nn.Module
    given_finite: bool
    receives_finite: bool | None = None
    passes_finite: bool = True

    def receive(self, gradient: Tensor) -> None:
        self.receives_finite = self.receives_finite is not False and _finite([gradient])

    def pass_on(self, gradient: Tensor) -> None:
        self.passes_finite = self.passes_finite and _finite([gradient])


class _Watch(ExitStack):
    """While active, looks at what the modules of a model are given and return, now and in the backward pass.

    Attributes:
        calls: ended calls, those inside of a module before its own.
        suspect: first call whose inputs are finite and whose outputs are not.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.calls: list[_Call] = []
        self.suspect: _Call | None = None
        self._going: list[_Call] = []
        for name, module in model.named_modules():
            self.enter_context(module.register_forward_pre_hook(partial(self._begin, name), with_kwargs=True))
            self.enter_context(module.register_forward_hook(self._end))

    def _begin(self, name: str, module: nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        call = _Call(name, module, _finite((args, kwargs)))
        self._going.append(call)

        def seen(value: Any) -> Any:
            if not isinstance(value, Tensor) or value.grad_fn is None:
                return value
            own = value.view_as(value)  # the gradient of other readers of this tensor is not this module's
            own.register_hook(call.pass_on)
            return own

        return tuple(map(seen, args)), {key: seen(value) for key, value in kwargs.items()}

    def _end(self, module: nn.Module, args: Any, output: Any) -> None:
        call = self._going.pop()
        self.calls.append(call)
        finite = _finite(output)
        if finite and not call.given_finite:
            self.suspect = None  # minus infinity of a mask, say, that a softmax reads
        elif not finite and call.given_finite and self.suspect is None:
            self.suspect = call
        for each in _tensors(output):
            if each.requires_grad:
                each.register_hook(call.receive)
