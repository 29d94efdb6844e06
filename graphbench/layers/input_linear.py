"""The linear map that may be the first to meet raw features, and how other modules receive them.

A module whose first step is such a map says so by ``reads_sparse = True``; a model hands sparse features to no other
(:func:`readable`). Where propagation comes before the map, it is exchanged with it: A^K X W^T = A^K (X W^T).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeAlias

from torch import Tensor, nn
from torch.nn import functional as F

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


Readable: TypeAlias = Features | Propagated
"""What an :class:`InputLinear` maps."""


class InputLinear(nn.Linear):
    """y = x W^T + b for tensors, sparse rows and :class:`Propagated` ones; parameters as those of ``nn.Linear``.

    Shape:
        (N, in_features) -> (N, out_features)
    """

    def forward(self, x: Readable) -> Tensor:
        """Maps every row."""
        if isinstance(x, Tensor):
            return F.linear(x, self.weight, self.bias)
        if isinstance(x, SparseRows):
            return sparse_linear(x, self.weight, self.bias)
        y = propagated(x.adjacency, sparse_linear(x.rows, self.weight), x.hops)
        return y if self.bias is None else y + self.bias  # after it: A does not keep a constant


def propagated(adjacency: Adjacency, h: Features, hops: int = 1) -> Readable:
    """A^K h; sparse rows as :class:`Propagated`, for an :class:`InputLinear`.

    Args:
        adjacency: A.
        h: (N, d).
        hops: K.
    """
    if isinstance(h, SparseRows):
        return Propagated(adjacency, h, hops)
    for _ in range(hops):
        h = propagate(adjacency, h)
    return h


class MayReadSparse(Protocol):
    """A layer, head or model that says whether it reads sparse rows."""

    reads_sparse: ClassVar[bool]


def readable(h: Features, module: MayReadSparse) -> Features:
    """``h`` as ``module`` can read it: dense, unless it has ``reads_sparse``."""
    return h if module.reads_sparse else as_dense(h)
