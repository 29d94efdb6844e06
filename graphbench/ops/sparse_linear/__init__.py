"""A linear map of sparse rows: node features of which almost all entries are zeros."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.sparse_linear import cpu, reference
from graphbench.structures import SparseRows

__all__ = ["sparse_linear"]

_IMPLEMENTATIONS = Backends(reference.sparse_linear, cpu.sparse_linear)


def sparse_linear(x: SparseRows, weight: Tensor, bias: Tensor | None = None, *, backend: str = "auto") -> Tensor:
    """``y = x W^T + b``: :func:`torch.nn.functional.linear` for sparse rows.

    Gradients reach the weight, the bias and, where they require it, the values of x. Time and memory grow with the
    stored entries, ``nnz (O + 1)``, and with the weight; no (N, F) tensor is made. The gradient of the weight is
    summed column by column in a fixed order, so that it is the same in every run. Autocast changes nothing: sums run
    in the type of the weight (half precision: in float32).

    Args:
        x: (N, F).
        weight: (O, F), of the type of x.
        bias: (O,), or None.
        backend: ``"auto"``, ``"reference"`` or ``"cpu"`` (which is for every device).

    Returns:
        (N, O).

    Raises:
        ValueError: widths or types of x and weight differ.
    """
    if weight.dim() != 2 or weight.shape[1] != x.width or weight.dtype != x.dtype:
        raise ValueError(
            f"weight must be {x.dtype} of shape (O, {x.width}) for sparse rows of shape {tuple(x.shape)}, received "
            f"{weight.dtype} of shape {tuple(weight.shape)}"
        )
    y = _IMPLEMENTATIONS.choose(backend, weight)(x, weight)
    return y if bias is None else y.add_(bias)
