"""Normalisations with what stands around them in a block, several at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor, nn

from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import BatchNorm, LayerNorm
from graphbench.ops.residual_norm import Activation, Fusion, NormInput, residual_norm_sum, residual_norms
from graphbench.structures import GraphBatch
from graphbench.structures.capacity import Level


@dataclass(frozen=True, eq=False)
class Normed:
    """``residual + dropout(act(norm(h + added_dropout(added))))``, what is None left out: to be computed.

    Attributes:
        norm: called as ``norm(h, batch)``; one that is not for nodes is a :class:`BatchNorm`.
        h: (R, dim).
        level: kind of the rows.
        added: (R, dim).
        added_dropout: dropout of ``added``.
        act: activation.
        dropout: dropout of what is normalised and activated.
        residual: (R, dim).
    """

    norm: nn.Module
    h: Tensor
    level: Level = "node"
    added: Tensor | None = None
    added_dropout: Dropout | None = None
    act: nn.Module | None = None
    dropout: Dropout | None = None
    residual: Tensor | None = None

    @property
    def is_one_operator(self) -> bool:
        """Whether all of it is :func:`graphbench.ops.residual_norm.residual_norm`."""
        return isinstance(self.norm, BatchNorm) and isinstance(self.act, (nn.ReLU, nn.Identity, type(None)))

    def operator_input(self, batch: GraphBatch) -> NormInput:
        """Arguments of that operator."""
        assert isinstance(self.norm, BatchNorm)
        act: Activation = "relu" if isinstance(self.act, nn.ReLU) else "identity"
        p, q = (0.0 if each is None else each.rate for each in (self.added_dropout, self.dropout))
        return self.norm.operator_input(self.h, batch, self.level, Fusion(self.added, p, act, q, self.residual))

    def one_by_one(self, batch: GraphBatch) -> Tensor:
        """(R, dim) by one module after the other."""
        out = self._normed_sum(batch)
        out = out if self.act is None else self.act(out)
        out = out if self.dropout is None else self.dropout(out)
        return out if self.residual is None else self.residual + out

    def _normed_sum(self, batch: GraphBatch) -> Tensor:
        """``norm(h + added_dropout(added))``."""
        if isinstance(self.norm, LayerNorm):
            return self.norm.of_sum(self.h, self.added, 0.0 if self.added_dropout is None else self.added_dropout.rate)
        h = self.h
        if self.added is not None:
            h = h + (self.added if self.added_dropout is None else self.added_dropout(self.added))
        out: Tensor = self.norm(h, batch, self.level) if isinstance(self.norm, BatchNorm) else self.norm(h, batch)
        return out


def normed(outputs: Sequence[Normed], batch: GraphBatch) -> list[Tensor]:
    """Each of the outputs; with :class:`BatchNorm` a GPU computes all of them in one or two kernels.

    Args:
        outputs: independent of one another, with rows (R, dim) of any level.
        batch: batch whose rows these are.
    """
    if all(each.is_one_operator for each in outputs):
        return residual_norms([each.operator_input(batch) for each in outputs])
    return [each.one_by_one(batch) for each in outputs]


def add_norm(
    norm: nn.Module,
    h: Tensor,
    added: Tensor | None,
    batch: GraphBatch,
    *,
    dropout: Dropout | None = None,
    level: Level = "node",
) -> Tensor:
    """(R, dim) ``norm(h + dropout(added))``, see :class:`Normed`; on a GPU one kernel with layer and batch norms."""
    return normed([Normed(norm, h, level, added, dropout)], batch)[0]


def feed_forward_norm(
    norm: nn.Module, feed_forward: FeedForward, h: Tensor, batch: GraphBatch, *, level: Level = "node"
) -> Tensor:
    """(R, dim) ``norm(h + feed_forward(h))``, computed as by :func:`add_norm`."""
    mapped, h = feed_forward.mapped(h)
    return add_norm(norm, h, mapped, batch, dropout=feed_forward.dropout_out, level=level)


def normed_sum(outputs: Sequence[Normed], batch: GraphBatch) -> Tensor:
    """The sum of the outputs (R, dim), computed as by :func:`normed`.

    Args:
        outputs: outputs, at least one, of the same rows.
        batch: batch whose rows these are.
    """
    if all(each.is_one_operator for each in outputs):
        return residual_norm_sum([each.operator_input(batch) for each in outputs])
    return reduce(torch.add, [each.one_by_one(batch) for each in outputs])
