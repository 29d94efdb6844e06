"""Linear map of raw features, dense or sparse, and the conversion for modules that read dense ones only.

A module whose first step is such a map has ``reads_sparse = True``; a model passes sparse features to no other
(:func:`readable`). Propagation before the map is exchanged with it: A^K X W^T = A^K (X W^T).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.ops.linear import linear
from graphbench.ops.propagate import propagate
from graphbench.ops.sparse_linear import sparse_linear
from graphbench.structures import Features, SparseRows, as_dense
from graphbench.structures.adjacency import Adjacency


@dataclass(frozen=True, eq=False)
class Propagated:
    """A^K X of sparse rows X, not multiplied out: it would hold the features of all nodes within K steps.

    Attributes:
        adjacency: A.
        rows: X (N, F).
        hops: K.
    """

    adjacency: Adjacency
    rows: SparseRows
    hops: int


@dataclass(frozen=True, eq=False)
class Mapped:
    """X W^T of the :class:`InputLinear` that reads it, computed before; its bias is left.

    Attributes:
        rows: (N, out_features).
    """

    rows: Tensor


class BeginsWithLinear(ABC):
    """A module whose first step is an :class:`InputLinear`, which may be exchanged with a propagation."""

    @property
    @abstractmethod
    def entry(self) -> InputLinear:
        """First linear map of the module."""


Readable: TypeAlias = Features | Propagated | Mapped
"""Input of an :class:`InputLinear`."""


class InputLinear(nn.Linear):
    """y = x W^T + b for tensors, sparse rows and :class:`Propagated` ones; parameters as those of ``nn.Linear``.

    Shape:
        (N, in_features) -> (N, out_features)
    """

    def forward(self, x: Readable) -> Tensor:
        """(N, out_features) from rows."""
        if isinstance(x, Tensor):
            return linear(x, self.weight, self.bias) if x.dim() == 2 else F.linear(x, self.weight, self.bias)
        if isinstance(x, SparseRows):
            return sparse_linear(x, self.weight, self.bias)
        y = x.rows if isinstance(x, Mapped) else _power(x.adjacency, sparse_linear(x.rows, self.weight), x.hops)
        return y if self.bias is None else y + self.bias  # added last, because A changes constant columns


def propagated(adjacency: Adjacency, h: Features, hops: int = 1) -> Readable:
    """A^K h; sparse rows as :class:`Propagated`, for an :class:`InputLinear`.

    Args:
        adjacency: A.
        h: (N, d).
        hops: K.
    """
    return Propagated(adjacency, h, hops) if isinstance(h, SparseRows) else _power(adjacency, h, hops)


def _power(adjacency: Adjacency, h: Tensor, hops: int) -> Tensor:
    for _ in range(hops):
        h = propagate(adjacency, h)
    return h


class MayReadSparse(Protocol):
    """A layer, head or model that declares whether it reads sparse rows."""

    reads_sparse: ClassVar[bool]


def readable(h: Features, module: MayReadSparse) -> Features:
    """``h``, dense unless the module has ``reads_sparse``."""
    return h if module.reads_sparse else as_dense(h)
