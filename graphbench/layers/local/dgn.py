"""Directional aggregation: DGN (https://arxiv.org/abs/2010.02863), PNA as its authors use it on ogbg-molpcba, and GSN.

GSN, https://arxiv.org/abs/2006.09252, whose authors follow the counts of cycles in place of eigenvectors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from graphbench.errors import ArgumentError, check_one_of
from graphbench.layers.contract import LocalLayer
from graphbench.ops.propagate import gather, max_at_target, mean_at_target, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency
from graphbench.structures.substructure_kinds import SMALLEST

_PLAIN = {
    "mean": mean_at_target,
    "sum": sum_at_target,
    "max": max_at_target,
    "min": lambda adj, message: -max_at_target(adj, -message),
}
_DIRECTED = re.compile(r"dir([1-9])-(av|dx)")
_EPS = 1e-8
Field = Literal["eigenvectors", "cycles"]


@register("DGN")
class DGN(LocalLayer):
    """Directional graph network: aggregates side by side, some along a direction such as a Laplacian eigenvector.

    Equations, s over the sources of edges into t, u the k-th nontrivial eigenvector of D - A, n nodes of the graph::

        m_st  = h_s,   or with message_map   W_s h_s + W_t h_t + W_e e_st + b
        w_st  = f_st / (sum over s of |f_st| + 1e-8)
        f_st  = u_s - u_t,   with field: cycles   the number of cycles of k nodes that the edge lies on
        a_t   = mean, sum, max or min over s of m_st,   dir<k>-av: sum_s |w_st| m_st,
                dir<k>-dx: |sum_s w_st m_st - (sum_s w_st) h_t|
        h'_t  = n^(-1/2) (W [a_t | a'_t | ..] + b),   with message_map   W [h_t | a_t | a'_t | ..]

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        dim_edge: channels of the edge states that ``message_map`` reads; 0: none.
        aggregators: ``mean``, ``sum``, ``max``, ``min``, ``dir<k>-av``, ``dir<k>-dx`` with k in 1 .. 9, for cycles
            in 3 .. 9.
        message_map: messages are computed ("complex" in the authors' code); False: the neighbours' states ("simple").
        size_norm: the factor n^(-1/2); False: 1.
        field: ``eigenvectors``, or ``cycles`` without chords (directional GSN).

    Shape:
        h (N, dim_in), e (E, dim_edge) or None -> h' (N, dim_out), e. Without e its term is 0; a node without messages,
        and a direction that a graph is too small for, have 0.

    Differences from the paper: no towers, no scaling by the degree. In the authors' code linear maps start much
    smaller, and graphs of ogbg-molhiv with up to five nodes are left out of training and evaluation; so they are in
    that of directional GSN, which numbers its directions from 0.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        dim_edge: FromContext[int] = 0,
        aggregators: list[str] = ["mean", "max", "min"],  # noqa: B006 - read only
        message_map: bool = False,
        size_norm: bool = False,
        field: Field = "eigenvectors",
    ) -> None:
        super().__init__()
        check_one_of(get_args(Field), field=field)
        for name in aggregators:
            if name not in _PLAIN and not _direction_of(name, field):
                least = f" with k from {SMALLEST} on" if field == "cycles" else ""
                raise ArgumentError(
                    ("aggregators", "field"),
                    f"aggregators must be {', '.join(_PLAIN)}, dir<k>-av or dir<k>-dx{least}, received '{name}'",
                )
        if not aggregators:
            raise ArgumentError("aggregators", "aggregators must name at least one, received none")
        self.aggregators, self.size_norm, self.field = tuple(aggregators), size_norm, field
        self.source = nn.Linear(dim_in, dim_in) if message_map else None
        self.target = nn.Linear(dim_in, dim_in, bias=False) if message_map else None
        self.edge = nn.Linear(dim_edge, dim_in, bias=False) if message_map and dim_edge else None
        self.lin = nn.Linear((len(aggregators) + message_map) * dim_in, dim_out)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Eigenvectors up to the last direction, the trivial one included, or counts of cycles up to its size."""
        field = arguments["field"]
        last = max((_direction_of(name, field) for name in arguments["aggregators"]), default=0)
        if not last:
            return {}
        if field == "cycles":
            return {"EdgeSubstructureCounts": {"cycles": last}}
        return {"LaplacianPE": {"max_freqs": last + 1, "laplacian_norm": "none"}}

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        adj = batch.adjacency()
        if self.source is None or self.target is None:
            message = gather(adj, h, "source")
        else:
            message = gather(adj, self.source(h), "source") + gather(adj, self.target(h), "target")
            if self.edge is not None and e is not None:
                message = message + self.edge(e)
        aggregates = [self._aggregate(name, message, h, adj, batch) for name in self.aggregators]
        new = self.lin(torch.cat([*([] if self.source is None else [h]), *aggregates], dim=1))
        if self.size_norm:
            size = batch.ragged.size_tensor.index_select(0, batch.ragged.graph_id)
            new = new * size.to(new.dtype).rsqrt().unsqueeze(1)
        return new, e

    def _aggregate(self, name: str, message: Tensor, h: Tensor, adj: Adjacency, batch: GraphBatch) -> Tensor:
        directed = _DIRECTED.fullmatch(name)
        if directed is None:
            return _PLAIN[name](adj, message)
        along = _along_cycles if self.field == "cycles" else _along_eigenvector
        weight = batch.derived(along, int(directed[1])).to(h.dtype)
        if directed[2] == "av":
            return sum_at_target(adj, weight.abs() * message)
        return (sum_at_target(adj, weight * message) - sum_at_target(adj, weight) * h).abs()


def _direction_of(name: str, field: Field) -> int:
    """The k of an aggregator, 0 where it has none or the field has no such direction."""
    found = _DIRECTED.fullmatch(name)
    number = int(found[1]) if found else 0
    return number if field != "cycles" or number >= SMALLEST else 0


def _along_eigenvector(batch: GraphBatch, number: int) -> Tensor:
    """(E, 1) w of the edges."""
    vectors = batch.pe.get("LaplacianPE.eigvecs")
    if vectors is None or vectors.shape[1] <= number:
        raise ValueError(f"DGN reads {number + 1} eigenvectors of the Laplacian (transform LaplacianPE)")
    adj, u = batch.adjacency(), vectors[:, number : number + 1].nan_to_num()
    return _normalised(gather(adj, u, "source") - gather(adj, u, "target"), adj)


def _along_cycles(batch: GraphBatch, size: int) -> Tensor:
    """(E, 1) w of the edges."""
    counts, column = batch.edge_pe.get("EdgeSubstructureCounts.counts"), size - SMALLEST
    if counts is None or counts.shape[1] <= column:
        raise ValueError(f"DGN reads counts of cycles of up to {size} nodes (transform EdgeSubstructureCounts)")
    return _normalised(counts[:, column : column + 1].to(torch.get_default_dtype()), batch.adjacency())


def _normalised(field: Tensor, adj: Adjacency) -> Tensor:
    """The field (E, 1) divided by the sum of its absolute values at the target."""
    return field / (gather(adj, sum_at_target(adj, field.abs()), "target") + _EPS)
