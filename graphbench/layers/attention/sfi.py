"""Sparse-flow-induced attention (SFi-Former, https://arxiv.org/abs/2504.20666) and its dense counterpart."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights, HasStatistics
from graphbench.errors import ArgumentError, check_at_least, check_one_of, check_within
from graphbench.layers.contract import GlobalAttention
from graphbench.layers.linear import Linear, joint_linear
from graphbench.layers.norm import LayerNorm
from graphbench.ops.blend import blend
from graphbench.ops.propagate import propagate
from graphbench.ops.sparse_flow import FlowProblem, counted_flow, flow_pattern, sparse_flow, zero_fraction
from graphbench.registry import FromContext, OrInfinity, register
from graphbench.structures import GraphBatch

# Maps of the nodes that the flow depends on.
_PROBLEM = ("q", "k", "q_friction", "k_friction")


@register("SFi")
class SFi(GlobalAttention, HasStatistics, HasAttentionWeights):
    """Attention whose weights are the flow of least energy through a resistor network, added to the adjacency.

    Equation (11 in the paper; the residual X is added by the block around it)::

        out = (1 + gamma)^-1 sum_h [A_norm + gamma Z^h] X W_V^h W_O^h,   A_norm = D^-1/2 (A + I) D^-1/2
        z_i = argmin_z  1/2 sum_j r_ij z_j^2 + lam sum_j f_ij |z_j| + alpha/2 (sum_j z_j - 1)^2      (row i of Z^h)
        R = softmax(-Q K^T / sqrt(d)),   F = softmax(Q' K'^T / sqrt(d)),   over the nodes of one graph

    gamma is learned, and so is a factor of the friction: ``lam = exp(log_lam) lam* / N*``. Heads are not slices: each
    has the full width d = ``dim``. Parameters: 6 H d^2 + (5 H + 3) d + 2.

    Args:
        dim: channels of input and output, and of every head.
        heads: H.
        max_nodes: nodes of the largest training graph, the N* of ``lam_norm="dataset"``. Kept with the parameters, so
            that a trained layer keeps its N* on other data.
        dropout: probability of dropping an entry of Z.
        mode: ``"sparse"`` as above; ``"dense"`` is the limit lam = 0, alpha = inf, where Z = softmax(Q K^T / sqrt(d));
            ``"none"`` leaves Z out: ``A_norm X W_V W_O``, without gamma. What a mode does not use has no parameters.
        adjacency: the term A_norm; without it the factor (1 + gamma)^-1 gamma of Z stays.
        lam: lam*, at least 0.
        alpha: weight of the condition that a row sums to 1, above 0; ``inf`` makes it hold exactly.
        lam_norm: N* is the largest training graph (``"dataset"``), the graph itself (``"graph"``), or the largest graph
            of the batch (``"batch"``, the paper's choice: outputs then depend on batch-mates).
        solver: ``"exact"``, or the paper's iteration ``"proximal"``, see :mod:`graphbench.ops.sparse_flow`.
        iters: iterations of the proximal solver.
        step: step size of the proximal solver, ``"safe"`` or ``"bb"`` (Barzilai-Borwein).

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Raises:
        ValueError: an argument is out of range, no term is left, or N* is unknown when it is needed.

    Differences from the paper: rows are solved exactly by default, and N* does not depend on the batch by default. The
    published counts hold 2 d + 1 parameters per layer that the equations do not show. Here they are a LayerNorm of the
    input (its place is our choice) and ``log_lam``, which starts at 0. Initialisation is ``nn.Linear``'s, gamma starts
    at 1; the paper gives neither.
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False

    max_nodes: Tensor | None

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        max_nodes: FromContext[int | None] = None,
        dropout: FromContext[float] = 0.0,
        mode: Literal["sparse", "dense", "none"] = "sparse",
        adjacency: bool = True,
        lam: float = 1.0,
        alpha: OrInfinity[float] = 0.1,
        lam_norm: Literal["dataset", "graph", "batch"] = "dataset",
        solver: Literal["exact", "proximal"] = "exact",
        iters: int = 20,
        step: Literal["safe", "bb"] = "safe",
    ) -> None:
        super().__init__()
        check_one_of(("sparse", "dense", "none"), mode=mode)
        check_one_of(("dataset", "graph", "batch"), lam_norm=lam_norm)
        check_one_of(("exact", "proximal"), solver=solver)
        check_one_of(("safe", "bb"), step=step)
        check_at_least(1, heads=heads, iters=iters, max_nodes=1 if max_nodes is None else max_nodes)
        check_within(0, 1, dropout=dropout)
        if not 0.0 <= lam < math.inf:
            raise ArgumentError("lam", f"lam must be a finite number of at least 0, received {lam}")
        if not alpha > 0.0:
            raise ArgumentError("alpha", f"alpha must be above 0 (inf is allowed), received {alpha}")
        if solver == "proximal" and alpha == math.inf:
            raise ArgumentError(
                ("solver", "alpha"), "the proximal solver needs a finite alpha, received inf; solver exact takes it"
            )
        if mode == "none" and not adjacency:
            raise ArgumentError(
                ("mode", "adjacency"), "mode none leaves the adjacency alone; with adjacency false nothing is left"
            )
        self.heads = heads
        self.dropout = dropout
        self.mode = mode
        self.adjacency = adjacency
        self.lam = lam
        self.lam_norm = lam_norm
        self.alpha = alpha
        self.solver = solver
        self.iters = iters
        self.step_size = step
        self.norm = LayerNorm(dim)
        self.v = Linear(dim, heads * dim)
        self.out = Linear(heads * dim, dim)
        if mode != "none":
            self.q = Linear(dim, heads * dim)
            self.k = Linear(dim, heads * dim)
            self.gamma = nn.Parameter(torch.ones(()))
        if mode == "sparse":
            self.q_friction = Linear(dim, heads * dim)
            self.k_friction = Linear(dim, heads * dim)
            self.log_lam = nn.Parameter(torch.zeros(()))
        known = mode == "sparse" and lam_norm == "dataset" and max_nodes is not None
        # (h, zero_flow) of the last forward pass in evaluation, until it is asked for.
        self._zero_flow: tuple[Tensor, Tensor] | None = None
        self.register_buffer("max_nodes", torch.tensor(max_nodes) if known else None)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual."""
        projected = self._projections(self.norm(h), ("v", *_PROBLEM))
        v = projected.pop("v")
        mixed = propagate(batch.adjacency(norm="sym", self_loops=True), v) if self.adjacency else None
        if self.mode != "none":
            flow = self._flow(h, projected, v, batch)
            if mixed is None:
                mixed = (self.gamma / (1 + self.gamma)).to(flow.dtype) * flow
            else:
                mixed = blend(mixed, flow, self.gamma)
        assert mixed is not None  # refused by the constructor
        return self.out(mixed.flatten(1))

    def _flow(self, h: Tensor, projected: dict[str, Tensor], v: Tensor, batch: GraphBatch) -> Tensor:
        """Z times the values, (N, heads, dim). Evaluation counts the zeros of Z on the way, for the statistics."""
        self._zero_flow = None
        problem = self._problem(projected, batch)
        if self.mode == "sparse" and not self.training and not torch.is_grad_enabled():
            flow, fraction = counted_flow(problem, v)
            self._zero_flow = (h, fraction)
            return flow
        return sparse_flow(v=v, dropout_p=self.dropout if self.training else 0.0, **problem.arguments())

    def _problem(self, projected: dict[str, Tensor], batch: GraphBatch) -> FlowProblem:
        """The energy that Z minimises."""
        return FlowProblem(
            projected["q"],
            projected["k"],
            projected.get("q_friction"),
            projected.get("k_friction"),
            batch.ragged,
            self._lam(batch) if self.mode == "sparse" else projected["q"].new_zeros(()),
            alpha=self.alpha,
            mode="dense" if self.mode == "dense" else self.solver,
            iters=self.iters,
            step=self.step_size,
        )

    def _projections(self, x: Tensor, names: Sequence[str] = _PROBLEM) -> dict[str, Tensor]:
        """(N, heads, dim) of those of the maps of ``x`` that the mode has."""
        present = {name: getattr(self, name, None) for name in names}
        maps = {name: lin for name, lin in present.items() if isinstance(lin, nn.Linear)}
        rows = zip(maps, joint_linear(x, list(maps.values()))[0], strict=True)
        return {name: row.view(x.shape[0], self.heads, x.shape[1]) for name, row in rows}

    def _lam(self, batch: GraphBatch) -> Tensor:
        """The energy's lam: a scalar, or (G,) one value per graph."""
        lam: Tensor = self.log_lam.exp() if self.lam == 1.0 else self.lam * self.log_lam.exp()
        if self.lam_norm == "graph":
            return lam / batch.ragged.size_tensor.clamp(min=1)
        if self.lam_norm == "batch":
            real = batch.real("graph")
            if real is None:
                return lam / max(batch.ragged.max_size, 1)
            return lam / real.select(batch.ragged.size_tensor).max().clamp(min=1)
        if self.max_nodes is None:
            raise ValueError(
                "lam_norm 'dataset' divides by the nodes of the largest training graph, but max_nodes was not given: "
                "give it, or take lam_norm 'graph'"
            )
        return lam / self.max_nodes

    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        """Z without dropout, (heads, n, n) per graph; row i is what node i receives. No heads in mode ``"none"``."""
        if self.mode == "none":
            return [h.new_empty(0, size, size) for size in batch.ragged.sizes]
        return flow_pattern(self._problem(self._projections(self.norm(h)), batch))

    def dense_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        """softmax(s) without friction, (heads, n, n) per graph: what the sparse flow cuts down; for figures."""
        problem = self._problem(self._projections(self.norm(h)), batch)
        return flow_pattern(dataclasses.replace(problem, mode="dense"))

    def statistics(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> dict[str, Tensor]:
        """``zero_flow`` (G,): fraction of exact zeros in Z, NaN for an empty graph; only in mode ``"sparse"``."""
        if self.mode != "sparse":
            return {}
        counted, self._zero_flow = self._zero_flow, None
        if counted is not None and counted[0] is h:
            return {"zero_flow": counted[1]}
        with torch.no_grad():
            return {"zero_flow": zero_fraction(self._problem(self._projections(self.norm(h)), batch))}

    def extra_repr(self) -> str:
        """Mode, heads and what the flow depends on, in ``print(model)``."""
        text = f"{self.mode}, heads={self.heads}, adjacency={self.adjacency}, dropout={self.dropout}"
        if self.mode == "sparse":
            text += f", lam={self.lam} / {self.lam_norm}, alpha={self.alpha}, solver={self.solver}"
        return text


@register("DFi")
class DFi(SFi):
    """Attention of DFi-Former: :class:`SFi` without friction, whose pattern is dense.

    Equation::

        out = (1 + gamma)^-1 sum_h [A_norm + gamma softmax(Q K^T / sqrt(d))] X W_V^h W_O^h

    Parameters have the names they have in :class:`SFi`, so that a trained DFi-Former starts an SFi-Former+.

    Args:
        dim: channels of input and output, and of every head.
        heads: H.
        dropout: probability of dropping an attention weight.
        adjacency: the term A_norm.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.
    """

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        adjacency: bool = True,
    ) -> None:
        super().__init__(dim, heads, dropout=dropout, mode="dense", adjacency=adjacency)
