"""Sums of embeddings by one lookup per column."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import embedding


def embedding_sum(index: Tensor, tables: Sequence[Tensor]) -> Tensor:
    """See :func:`graphbench.ops.embedding_sum.embedding_sum`."""
    columns = [embedding(index[:, c], table) for c, table in enumerate(tables)]
    return columns[0] if len(columns) == 1 else torch.stack(columns).sum(0)
