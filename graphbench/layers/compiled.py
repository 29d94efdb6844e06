"""Layers under ``torch.compile``: each block is one graph, which serves batches of all sizes.

As in torchtitan, blocks are compiled one by one and in place: parameter names stay, checkpoints fit both ways, and what
cannot be compiled runs beside what can.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import nn
from torch.torch_version import TorchVersion

from graphbench.contract import HasStatistics
from graphbench.layers.contract import GraphLayer
from graphbench.structures import GraphBatch
from graphbench.structures.memo import asking
from graphbench.structures.reads import Reads

OLDEST = "2.13"
"""Release of PyTorch whose compiler this is tested with."""

logger = logging.getLogger("graphbench")


def compile_layers(model: nn.Module, **options: Any) -> None:
    """Compiles the outermost layers of a model, in place.

    Args:
        model: model whose outermost :class:`.GraphLayer` s, at any depth, are compiled.
        options: arguments of :func:`torch.compile`, besides ``fullgraph`` and ``dynamic``.

    Raises:
        ValueError: PyTorch is older than :data:`OLDEST`.
    """
    if not supported():
        raise ValueError(f"compiled blocks need PyTorch {OLDEST} or newer, this is {torch.__version__}")
    for child in model.children():
        if isinstance(child, GraphLayer):
            if (obstacle := _obstacle(child)) is not None:
                _log(child, obstacle)
                continue
            child.compile(fullgraph=True, dynamic=True, **options)
            child._compiled_call_impl = CompiledCall(child)  # what nn.Module.compile has just set
        else:
            compile_layers(child, **options)


def supported() -> bool:
    """Whether PyTorch is new enough."""
    return TorchVersion(torch.__version__) >= TorchVersion(OLDEST)


def _obstacle(layer: nn.Module) -> str | None:
    """Why a layer stays as it is, the first reason; None where it can be compiled."""
    reasons = (part.compile_obstacle for part in layer.modules() if isinstance(part, GraphLayer))
    return next((reason for reason in reasons if reason is not None), None)


def _log(layer: nn.Module, reason: str) -> None:
    logger.info("%s stays without torch.compile: %s", type(layer).__name__, reason)


class CompiledCall:
    """Call of a compiled layer with ``(h, e, batch)``.

    The first call in training, and in evaluation, is not compiled: it finds out what has to be prepared of a batch
    (:mod:`graphbench.structures.reads`). A layer that cannot be compiled stays as it is, with one line in the log; so
    does one with statistics in evaluation, where they are asked for in the middle of it.

    Args:
        layer: compiled layer.
    """

    def __init__(self, layer: nn.Module) -> None:
        self._layer = layer
        self._compiled: Any = layer._compiled_call_impl
        self._reads: dict[bool, Reads] = {}
        self._has_statistics = any(isinstance(module, HasStatistics) for module in layer.modules())
        self._failed = False

    def __call__(self, h: Any, e: Any, batch: GraphBatch) -> Any:
        """Output of the layer, equal to that without compiler."""
        layer, training = self._layer, self._layer.training
        if self._failed or (self._has_statistics and not training):
            return layer._call_impl(h, e, batch)
        if training not in self._reads:
            with asking(set()) as asked:
                out = layer._call_impl(h, e, batch)
            self._reads[training] = Reads.of(batch, asked)
            return out
        from torch._dynamo.exc import TorchDynamoException  # imported when something is compiled only

        self._reads[training].prepare(batch)
        try:
            return self._compiled(h, e, batch)
        except TorchDynamoException as error:  # before anything has run
            self._failed = True
            reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            _log(layer, reason)
            return layer._call_impl(h, e, batch)
