"""Targets that a model may read: those of training nodes, for models that propagate labels."""

from __future__ import annotations

from torch import Tensor

from graphbench.structures.graph_batch import GraphBatch

KNOWN = "known_targets"
"""Name among the node-wise columns of a batch; loaders fill it for models that read targets."""


def known_targets(batch: GraphBatch) -> Tensor | None:
    """(N,) bool, nodes whose row of ``batch.y`` may be read; None where nobody said which."""
    return batch.pe.get(KNOWN)
