"""Sums of embeddings, row by row."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def embedding_sum(index: Tensor, tables: Sequence[Tensor]) -> Tensor:
    """See :func:`graphbench.ops.embedding_sum.embedding_sum`."""
    rows = [sum(table[category] for table, category in zip(tables, row, strict=True)) for row in index.tolist()]
    return torch.stack(rows) if rows else tables[0].new_zeros(0, tables[0].shape[1])  # type: ignore[arg-type]
