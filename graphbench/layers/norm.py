"""Normalisations of node states, all called as ``norm(h, batch)``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.errors import check_one_of
from graphbench.ops.graph_layer_norm import graph_layer_norm
from graphbench.ops.layer_norm import layer_norm
from graphbench.ops.residual_norm import NO_FUSION, Fusion, Normalization, NormInput, batch_norm, residual_norms
from graphbench.ops.segment import segment_mean, segment_repeat
from graphbench.structures import GraphBatch
from graphbench.structures.capacity import Level, RealRows

NORMS = ("batch", "layer", "node", "graph", "none")


def make_norm(name: str, dim: int) -> nn.Module:
    """A normalisation module.

    Args:
        name: ``"batch"``, ``"layer"`` (one mean and variance per graph, see :class:`GraphLayerNorm`), ``"node"`` (one
            per node), ``"graph"`` (one per graph and channel, see :class:`GraphNorm`) or ``"none"``.
        dim: channels.

    Raises:
        ValueError: no such normalisation.
    """
    check_one_of(NORMS, norm=name)
    if name == "batch":
        return BatchNorm(dim)
    if name == "layer":
        return GraphLayerNorm(dim)
    if name == "node":
        return NodeLayerNorm(dim)
    if name == "graph":
        return GraphNorm(dim)
    return NoNorm()


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation over the rows of all graphs (https://arxiv.org/abs/1502.03167).

    Shape:
        h (R, dim) with R nodes or edges -> (R, dim).

    Differences from torch: a training batch with fewer than two rows has no variance; it is normalised by the
    running statistics and leaves them as they are (torch raises, or divides by the square root of epsilon). Batches are
    not counted: with a momentum nobody reads the number, and on a GPU it costs a kernel per layer and step. Rows of
    padding are normalised by the statistics of the others.
    """

    def forward(self, h: Tensor, batch: GraphBatch | None = None, level: Level = "node") -> Tensor:
        """Normalises every channel.

        Args:
            h: (R, dim), (R, dim, k), or (k R, dim) where k rows in sequence belong to each of R nodes, edges, ...
            batch: says which rows are padding; None: none.
            level: kind of the R rows.
        """
        if h.dim() == 2:
            return residual_norms([self.operator_input(h, batch, level)])[0]
        if self._real_rows(batch, level) is None:
            return batch_norm(h, self._normalization())
        rows = h.transpose(1, 2).reshape(-1, h.shape[1])
        out = residual_norms([self.operator_input(rows, batch, level)])[0]
        return out.view(h.shape[0], h.shape[2], h.shape[1]).transpose(1, 2)

    def operator_input(self, h: Tensor, batch: GraphBatch | None, level: Level, fused: Fusion = NO_FUSION) -> NormInput:
        """Arguments of the operator :func:`graphbench.ops.residual_norm.residual_norms` for these rows.

        Args:
            h: (k R, dim).
            batch: batch that says which rows are padding; None: none.
            level: kind of the R rows, see :meth:`forward`.
            fused: sum, activation, dropout and residual that are computed besides.
        """
        real = self._real_rows(batch, level)
        if real is not None:
            real = real.repeated(h.shape[0] // max(real.mask.numel(), 1))
        return NormInput(h, self._normalization(), fused, real)

    def _real_rows(self, batch: GraphBatch | None, level: Level) -> RealRows | None:
        return None if batch is None or not self.training else batch.real(level)

    def _normalization(self) -> Normalization:
        assert self.running_mean is not None
        assert self.running_var is not None
        return Normalization(
            self.weight, self.bias, self.running_mean, self.running_var, self.training, self.momentum or 0.0, self.eps
        )


class NormedSequential(nn.Sequential):
    """Modules one after the other, of which :class:`BatchNorm` is told what the rows are."""

    def forward(self, h: Tensor, batch: GraphBatch | None = None, level: Level = "node") -> Tensor:
        """The output of the last one."""
        for module in self:
            h = module(h, batch, level) if isinstance(module, BatchNorm) else module(h)
        return h


class GraphLayerNorm(nn.Module):
    """Layer normalisation over all nodes and channels of a graph together, PyG's ``LayerNorm(mode="graph")``.

    Equation::

        out = (h - mean_g) / sqrt(var_g + eps) * weight + bias

    with mean and (biased) variance over the n_g * dim entries of graph g.

    Args:
        dim: channels.
        eps: number added to the variance.

    Shape:
        h (N, dim) -> (N, dim).
    """

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Normalises every graph by the statistics of its nodes."""
        return graph_layer_norm(h, self.weight, self.bias, batch.ragged, eps=self.eps)

    def extra_repr(self) -> str:
        """The width, in ``print(model)``."""
        return f"{self.dim}, eps={self.eps}"


class LayerNorm(nn.LayerNorm):
    """``nn.LayerNorm`` in one kernel forward and one backward on a GPU; parameters and results are the same.

    Shape:
        (..., dim) -> (..., dim).
    """

    def forward(self, input: Tensor) -> Tensor:
        """Normalises every row by itself."""
        return self.of_sum(input, None, 0.0) if input.dim() == 2 else super().forward(input)

    def of_sum(self, h: Tensor, added: Tensor | None, p: float) -> Tensor:
        """(R, dim) norm of ``h + drop(added)``, see :func:`graphbench.ops.layer_norm.layer_norm`."""
        return layer_norm(h, self.weight, self.bias, added=added, added_dropout=p, eps=self.eps)


class NodeLayerNorm(LayerNorm):
    """Layer normalisation of every node by itself (https://arxiv.org/abs/1607.06450); ``batch`` is not read."""

    def forward(self, h: Tensor, batch: GraphBatch | None = None) -> Tensor:
        """(N, dim) -> (N, dim)."""
        return super().forward(h)


class GraphNorm(nn.Module):
    """Normalisation of every channel over the nodes of a graph (https://arxiv.org/abs/2009.03294).

    Equation::

        out = c / sqrt(mean_g(c^2) + eps) * weight + bias,   c = h - mean_scale * mean_g(h)

    with means over the n_g nodes of graph g, channel by channel.

    Args:
        dim: channels.
        eps: number added to the variance.

    Shape:
        h (N, dim) -> (N, dim).

    Differences from the paper: none known; PyG's ``GraphNorm`` computes the same.
    """

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.mean_scale = nn.Parameter(torch.ones(dim))

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Normalises every graph by the statistics of its nodes."""
        ragged = batch.ragged
        centred = h - segment_repeat(segment_mean(h, ragged) * self.mean_scale, ragged)
        scale = (segment_mean(centred.square(), ragged) + self.eps).rsqrt() * self.weight
        return torch.addcmul(self.bias, centred, segment_repeat(scale, ragged))

    def extra_repr(self) -> str:
        """The width, in ``print(model)``."""
        return f"{self.dim}, eps={self.eps}"


class NoNorm(nn.Module):
    """The identity, without parameters."""

    def forward(self, h: Tensor, batch: GraphBatch | None = None, level: Level = "node") -> Tensor:
        """``h``; what it belongs to is not read."""
        return h
