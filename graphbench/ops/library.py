"""Operators as opaque nodes of a compiled graph (``torch.library``), made from the public functions.

Outside of ``torch.compile`` a public function is what it is. While the compiler traces, :func:`library_op` puts a node
``graphbench::<name>`` in its place, which calls the function when the graph runs: the same code, numbers and messages.
Partitions, adjacencies and other :class:`.Memo` cross by their handles, so that one graph serves batches of all sizes
and the tables that operators derive from a batch stay with the batch.

The node is differentiated as the function is: forward it keeps the function's autograd graph (a *tape*), backward it
runs through it. A tape lives as long as the tensor that stands for it.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from graphbench.ops.backend import compiles
from graphbench.structures.memo import Memo, asking, by_handle, is_recorded

F = TypeVar("F", bound=Callable[..., Any])

_ARGUMENTS = "Tensor[] inputs, SymInt[] integers, float[] numbers"
_TAPE = ("torch.int64", "cpu", 1)
_LIBRARY = torch.library.Library("graphbench", "FRAGMENT")
_count = itertools.count()
_tapes: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
_parsed = functools.cache(ast.literal_eval)


def library_op(results: Callable[..., Tensor | tuple[Tensor | int, ...]]) -> Callable[[F], F]:
    """Decorator of the public function of an operator, whose arguments are tensors, :class:`.Memo` and plain values.

    Args:
        results: function of the same arguments: tensors of the shapes and types of the function's results, or the
            number of an argument that it hands through. Traced: it may read shapes and types alone.
    """

    def decorate(function: F) -> F:
        node = _register(function)

        @functools.wraps(function)
        def operator(*args: Any, **kwargs: Any) -> Any:
            if compiles():
                return _traced(node, results(*args, **kwargs), args, kwargs)
            if not is_recorded():
                return function(*args, **kwargs)
            with asking(None):
                return function(*args, **kwargs)

        return cast("F", operator)

    return decorate


@dataclass
class _Written:
    """Arguments of a call as a node takes them: lists of values, and a literal that says where each belongs."""

    inputs: list[Tensor] = field(default_factory=list)
    integers: list[int] = field(default_factory=list)
    numbers: list[float] = field(default_factory=list)

    def write(self, value: Any) -> tuple[Any, ...]:
        """The literal of a value."""
        if isinstance(value, (Tensor, Memo)):
            self.inputs.append(value if isinstance(value, Tensor) else value.handle)
            return ("tensor" if isinstance(value, Tensor) else "handle", len(self.inputs) - 1)
        if value is None or isinstance(value, (bool, str)):
            return ("literal", value)
        if isinstance(value, int):
            self.integers.append(value)
            return ("integer", len(self.integers) - 1)
        if isinstance(value, float):
            self.numbers.append(value)
            return ("number", len(self.numbers) - 1)
        if isinstance(value, (tuple, list)):
            return ("sequence", tuple([self.write(each) for each in value]))
        if dataclasses.is_dataclass(value):
            kind, fields = type(value), dataclasses.fields(value)
            parts = tuple([self.write(getattr(value, each.name)) for each in fields])
            return ("dataclass", kind.__module__, kind.__qualname__, parts)
        raise TypeError(f"an operator of a compiled graph cannot be handed a {type(value).__name__}")

    def read(self, spec: tuple[Any, ...]) -> Any:
        """Inverse of :meth:`write`."""
        kind, value = spec[:2]
        if kind == "literal":
            return value
        if kind == "sequence":
            return tuple(self.read(each) for each in value)
        if kind == "dataclass":
            return getattr(importlib.import_module(value), spec[2])(*(self.read(each) for each in spec[3]))
        if kind == "handle":
            return by_handle(self.inputs[value])
        lists: dict[str, Sequence[Any]] = {"tensor": self.inputs, "integer": self.integers, "number": self.numbers}
        return lists[kind][value]


def _traced(node: Any, results: Tensor | tuple[Tensor | int, ...], args: Any, kwargs: Any) -> Any:
    """The node in place of the call; runs in the compiler."""
    written = _Written()
    spec = tuple([written.write(value) for value in args])
    named = tuple([(name, written.write(value)) for name, value in kwargs.items()])
    wanted = (results,) if isinstance(results, Tensor) else results
    like, sizes = _described([each for each in wanted if isinstance(each, Tensor)])
    needed = [i for i, each in enumerate(written.inputs) if each.requires_grad] if torch.is_grad_enabled() else []
    if needed:
        like, sizes = (*like, _TAPE), [*sizes, 1]
    device = written.inputs[0].device.type
    cast_to = str(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else None
    call = repr((spec, named, like, tuple(needed), device, cast_to))
    made = iter(node(call, written.inputs, written.integers, written.numbers, sizes))
    out = [args[each] if isinstance(each, int) else next(made) for each in wanted]
    return out[0] if isinstance(results, Tensor) else tuple(out)


def _register(function: Callable[..., Any]) -> Any:
    """The node of a function, with shapes and gradient."""
    name = function.__name__
    backward = f"{name}_backward"
    _LIBRARY.define(f"{name}(str call, {_ARGUMENTS}, SymInt[] sizes) -> Tensor[]")
    _LIBRARY.define(f"{backward}(str call, Tensor tape, Tensor[] grads, SymInt[] sizes) -> Tensor[]")
    _LIBRARY.impl(name, functools.partial(_forward, function), "CompositeExplicitAutograd")
    _LIBRARY.impl(backward, _backward, "CompositeExplicitAutograd")
    for each, place in ((name, 2), (backward, 1)):
        torch.library.register_fake(f"graphbench::{each}", functools.partial(_empty, place), lib=_LIBRARY)
    of_gradient = getattr(torch.ops.graphbench, backward).default
    torch.library.register_autograd(
        f"graphbench::{name}", functools.partial(_gradient, of_gradient), setup_context=_keep, lib=_LIBRARY
    )
    return getattr(torch.ops.graphbench, name).default


def _described(tensors: Sequence[Tensor]) -> tuple[tuple[tuple[str, str, int], ...], list[int]]:
    """Type, device and dimensions of tensors, as a literal, and their sizes one after the other."""
    like = tuple([(str(each.dtype), str(each.device), each.dim()) for each in tensors])
    return like, [size for each in tensors for size in each.shape]


def _empty(place: int, call: str, *arguments: Any) -> list[Tensor]:
    """Tensors as described in a call and by the last argument: all that the compiler is told about a node."""
    out, rest = [], list(arguments[-1])
    for dtype, device, dimensions in _parsed(call)[place]:
        shape, rest = rest[:dimensions], rest[dimensions:]
        out.append(torch.empty(shape, dtype=_dtype(dtype), device=device))
    return out


def _dtype(name: str) -> torch.dtype:
    return cast("torch.dtype", getattr(torch, name.removeprefix("torch.")))


@contextmanager
def _recorded() -> Iterator[None]:
    """Autograd records within, although nodes run below it."""
    keys = torch._C.DispatchKey
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in (keys.AutogradFunctionality, keys.AutogradOther, keys.AutogradNestedTensor, keys.ADInplaceOrView):
        excluded = excluded.remove(key)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded), torch.enable_grad():
        yield


def _forward(function: Callable[..., Any], call: str, inputs: list[Tensor], *others: Any) -> list[Tensor]:
    """Calls the function; where inputs require a gradient, its tape comes last."""
    spec, named, like, needed, device, cast_to = _parsed(call)
    with ExitStack() as around:
        if cast_to is not None:
            around.enter_context(torch.autocast(device, _dtype(cast_to)))
        if needed:
            around.enter_context(_recorded())
            inputs = [each.detach().requires_grad_(i in needed) for i, each in enumerate(inputs)]
        written = _Written(inputs, *others[:2])
        result = function(
            *(written.read(value) for value in spec), **{name: written.read(value) for name, value in named}
        )
    handed_in = {id(each) for each in inputs}
    outputs = [each for each in ((result,) if isinstance(result, Tensor) else result) if id(each) not in handed_in]
    plain = [_plain(each, dtype, inputs) for each, (dtype, *_) in zip(outputs, like, strict=False)]
    return [*plain, _tape(outputs, [inputs[i] for i in needed])] if needed else plain


def _plain(made: Tensor, dtype: str, given: Sequence[Tensor]) -> Tensor:
    """Tensor as the graph expects it: of a type, rows one after the other, in memory of its own."""
    made = made.detach().to(_dtype(dtype)).contiguous()
    return made.clone() if any(made.data_ptr() == each.data_ptr() for each in given) else made


def _tape(outputs: list[Tensor], leaves: list[Tensor]) -> Tensor:
    number = next(_count)
    memory = np.array([number])
    _tapes[number] = (outputs, leaves)
    weakref.finalize(memory, _tapes.pop, number, None)
    return torch.from_numpy(memory)  # keeps the memory alive, and with it the tape


def _keep(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    needed = _parsed(inputs[0])[3]
    ctx.number, ctx.needed = len(inputs[1]), needed
    ctx.of_others = [None if each else [] for each in inputs[2:]]  # empty lists have empty gradients
    ctx.like, ctx.sizes = _described([inputs[1][i] for i in needed])
    ctx.save_for_backward(*output[-1:] if needed else ())


def _gradient(node: Any, ctx: Any, grads: list[Tensor | None]) -> tuple[Any, ...]:
    of_inputs: list[Tensor | None] = [None] * ctx.number
    present = tuple(i for i, grad in enumerate(grads[:-1]) if grad is not None)
    made = node(repr((present, ctx.like)), *ctx.saved_tensors, [grads[i] for i in present], ctx.sizes)
    for i, grad in zip(ctx.needed, made, strict=True):
        of_inputs[i] = grad
    return None, of_inputs, *ctx.of_others


def _backward(call: str, tape: Tensor, grads: list[Tensor], sizes: Sequence[int]) -> list[Tensor]:
    """Runs through a tape; it may be asked twice (``retain_graph``)."""
    present, like = _parsed(call)
    outputs, leaves = _tapes[int(tape)]
    reached = {i: grad for i, grad in zip(present, grads, strict=True) if outputs[i].requires_grad}
    made = torch.autograd.grad(
        [outputs[i] for i in reached], leaves, list(reached.values()), retain_graph=True, allow_unused=True
    )
    return [
        torch.zeros_like(leaf) if grad is None else _plain(grad, dtype, grads)
        for grad, leaf, (dtype, *_) in zip(made, leaves, like, strict=True)
    ]
