"""Optimisers of PyTorch without the wrappers for its compiler, whose import costs more than everything until then."""

from __future__ import annotations

import inspect
from typing import TypeVar

import torch
from torch.optim import Optimizer

T = TypeVar("T", bound=type[Optimizer])
_METHODS = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def eager(optimizer_class: T) -> T:
    """A class of optimisers whose methods run as they are written.

    PyTorch wraps the methods of its optimisers so that ``torch.compile`` stops at them, and the first call of each
    imports the compiler. Steps of this package are recorded by the device
    (:mod:`graphbench.train.captured_step`), never compiled. Where a version of PyTorch wraps nothing, the methods stay.

    Args:
        optimizer_class: a subclass of a class of ``torch.optim``, used as a decorator on it.
    """
    for name in _METHODS:
        setattr(optimizer_class, name, inspect.unwrap(getattr(optimizer_class, name)))
    # The wrapper of step also switches gradients off.
    setattr(optimizer_class, "step", torch.no_grad()(inspect.unwrap(optimizer_class.step)))  # noqa: B010 (mypy)
    return optimizer_class
