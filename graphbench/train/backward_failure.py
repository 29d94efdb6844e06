"""Lines of a user's code that a backward pass fails for.

PyTorch notices while it computes gradients, long after the line at fault has run, so that no traceback names it. The
forward pass is done once more, watched function by function, and the calls out of the user's code are looked through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from graphbench import plug_ins
from graphbench.errors import UserError

_IN_PLACE = "modified by an inplace operation"
_TWICE = "backward through the graph a second time"
_DETACHED = (
    "no gradient leads through this call, and the loss has none left: no parameter would be trained. Leave out detach, "
    ".data, .item and torch.no_grad on the way from the parameters to the loss, and what has no gradient (argmax, "
    "comparisons)"
)
_SPOILED = (
    "changes a tensor in place that the backward pass needs as it was. Make a new one: h = h + a for h += a, "
    "torch.where for h[mask] = a, relu for relu_, inplace=False"
)
_KEPT = (
    "uses a tensor that was computed in an earlier step, whose backward pass is over. Keep tensor.detach() of it, or "
    "compute it anew in every forward pass"
)
_AS_NUMBERS = ("item", "tolist", "numpy", "__float__", "__array__")
_MOST_PLACES = 3


class Detached(RuntimeError):
    """A loss that no parameter has a gradient of."""

    def __init__(self) -> None:
        super().__init__("the loss is not computed from parameters that are trained")


def failure(error: RuntimeError, forward: Callable[[], Any]) -> UserError | None:
    """Error of a user's code in a backward pass; None where none of it is to blame.

    Args:
        error: error of the backward pass.
        forward: does the forward pass and the loss again, with the same batch.
    """
    places_of: Callable[[_Watch], Iterable[str]]
    if isinstance(error, Detached):
        said, places_of = _DETACHED, lambda watch: watch.cuts
    elif _IN_PLACE in str(error):
        said, places_of = _SPOILED, _Watch.spoiled
    elif _TWICE in str(error):
        said, places_of = _KEPT, lambda watch: watch.kept
    else:  # out of memory, say: the forward pass is not for doing again
        return None
    watch = _Watch()
    try:
        with torch.compiler.set_stance("force_eager"), watch, saved_tensors_hooks(watch.save, lambda kept: kept):
            forward()
    except Exception:  # noqa: BLE001  the exception that is explained here came first
        return None
    places = list(dict.fromkeys(places_of(watch)))[-_MOST_PLACES:]
    if not places and said is _KEPT:  # returned as it was: no call is to blame, but one of these files
        places = plug_ins.loaded()
    return UserError(f"{'; '.join(places)}: {said}.") if places else None


@dataclass
class _Change:
    place: str
    storage: int
    version: int


@dataclass
class _Watch(TorchFunctionMode):
    """Calls of functions of tensors that come directly out of a user's code.

    Attributes:
        cuts: places where something with a gradient went in and nothing with a gradient came out.
        kept: places where a tensor went in whose history is older than this watch.
    """

    cuts: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    _changes: list[_Change] = field(default_factory=list)
    _saved: list[tuple[Tensor, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        mark = torch.zeros((), requires_grad=True) * 1
        assert mark.grad_fn is not None
        self._start = mark.grad_fn._sequence_nr()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        before = [tensor._version for tensor in given]
        differentiable = any(tensor.requires_grad for tensor in given)
        old = any(map(self._is_old, given))
        returned = func(*args, **(kwargs or {}))
        place = plug_ins.calling_place()
        if place is not None:
            told, made = f"{place}: {func.__name__}", [r for r in tree_leaves(returned) if isinstance(r, Tensor)]
            cut = not any(tensor.requires_grad for tensor in made) if made else func.__name__ in _AS_NUMBERS
            if differentiable and cut:
                self.cuts.append(told)
            if old:
                self.kept.append(told)
            for tensor, version in zip(given, before, strict=True):
                if tensor._version != version:
                    self._changes.append(_Change(told, _storage(tensor), tensor._version))
        return returned

    def save(self, tensor: Tensor) -> Tensor:
        """Notes what a backward pass will need, and in which version."""
        self._saved.append((tensor, tensor._version))
        return tensor

    def _is_old(self, tensor: Tensor) -> bool:
        return tensor.grad_fn is not None and tensor.grad_fn._sequence_nr() < self._start

    def spoiled(self) -> Iterator[str]:
        """Places where something was changed after it had been saved."""
        for tensor, version in self._saved:
            for change in self._changes:
                if change.storage == _storage(tensor) and version < change.version <= tensor._version:
                    yield change.place


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
