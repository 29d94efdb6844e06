"""Layer normalisation over all nodes and channels of a graph together."""

from __future__ import annotations

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.graph_layer_norm import cpu, reference
from graphbench.ops.library import library_op
from graphbench.structures import Ragged

__all__ = ["graph_layer_norm"]


_IMPLEMENTATIONS = Backends(reference.graph_layer_norm, cpu.graph_layer_norm, gpu=True)


@library_op(lambda h, *_, **__: h.new_empty(h.shape))
def graph_layer_norm(
    h: Tensor, weight: Tensor, bias: Tensor, ragged: Ragged, *, eps: float = 1e-5, backend: str = "auto"
) -> Tensor:
    """``out = (h - mean_g) / sqrt(var_g + eps) * weight + bias``, as PyG's ``LayerNorm(mode="graph")``.

    Mean and (biased) variance are those of the n_g d entries of graph g.

    Args:
        h: (N, d), rows grouped by graph.
        weight: (d,).
        bias: (d,).
        ragged: the partition of the rows.
        eps: number added to the variance.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (N, d) of the type of ``h``.

    Raises:
        ValueError: shapes do not fit each other.
    """
    if h.dim() != 2 or h.shape[0] != ragged.num_rows:
        raise ValueError(f"h must be ({ragged.num_rows}, d), received {tuple(h.shape)}")
    if weight.shape != h.shape[1:] or bias.shape != h.shape[1:]:
        raise ValueError(
            f"weight and bias must be ({h.shape[1]},), received {tuple(weight.shape)} and {tuple(bias.shape)}"
        )
    return _IMPLEMENTATIONS.choose(backend, h)(h, weight, bias, ragged, eps)
