"""Dropout as a module, on the operator of :mod:`graphbench.ops.dropout`."""

from __future__ import annotations

from torch import nn

from graphbench.errors import check_within
from graphbench.ops.dropout import dropout
from graphbench.structures import Features, SparseRows


class Dropout(nn.Module):
    """Sets entries to zero with probability ``p`` during training and scales the others by 1 / (1 - p).

    Args:
        p: probability in [0, 1].

    Raises:
        ValueError: ``p`` is outside [0, 1].
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        check_within(0, 1, dropout=p)
        self.p = p

    def forward(self, x: Features) -> Features:
        """``x`` with dropped entries, of its shape; ``x`` itself in evaluation or with ``p = 0``."""
        if not self.rate:
            return x
        return x.with_values(dropout(x.value, self.p)) if isinstance(x, SparseRows) else dropout(x, self.p)

    @property
    def rate(self) -> float:
        """The probability with which an entry is dropped now: 0 in evaluation."""
        return self.p if self.training else 0.0

    def extra_repr(self) -> str:
        """The probability, in ``print(model)``."""
        return f"p={self.p}"
