"""Inputs of encoders: fields of a batch, with a message where a field is missing."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphbench.ops.embedding_sum import embedding_sum
from graphbench.structures import Features, GraphBatch, as_dense


def node_features(batch: GraphBatch, reader: str) -> Tensor:
    """``batch.x``, dense.

    Raises:
        ValueError: the graphs have no node features.
    """
    return as_dense(stored_features(batch, reader))


def stored_features(batch: GraphBatch, reader: str) -> Features:
    """``batch.x`` as it is; for a ``reader`` that begins with an :class:`~graphbench.layers.input_linear.InputLinear`.

    Raises:
        ValueError: the graphs have no node features.
    """
    if batch.x is None:
        raise ValueError(f"{reader} reads node features, but these graphs have none (batch.x is None)")
    return batch.x


def edge_features(batch: GraphBatch, reader: str) -> Tensor:
    """``batch.edge_attr``.

    Raises:
        ValueError: the graphs have no edge features.
    """
    if batch.edge_attr is None:
        raise ValueError(
            f"{reader} reads edge features, but these graphs have none (batch.edge_attr is None); "
            "DummyEdge gives every edge the same learned vector"
        )
    return batch.edge_attr


def embed(table: nn.Embedding, categories: Tensor, reader: str) -> Tensor:
    """(..., dim) rows of ``table`` for categories (...).

    Raises:
        ValueError: as :func:`embed_columns`.
    """
    return embed_columns([table], categories.reshape(-1, 1), reader).view(*categories.shape, table.embedding_dim)


def embed_columns(tables: Sequence[nn.Embedding], columns: Tensor, reader: str) -> Tensor:
    """(N, dim) sum of the rows of ``tables``, one per column of the categories (N, C).

    Raises:
        ValueError: a category outside the vocabulary (on CPU; an accelerator makes its row NaN, because reading the
            values would wait for it in every step).
    """
    index = columns.long()
    try:
        return embedding_sum(index, [table.weight for table in tables])
    except IndexError:
        low, high = ([int(limit) for limit in limits] for limits in torch.aminmax(columns, dim=0))
        for c, table in enumerate(tables):
            if low[c] < 0 or high[c] >= table.num_embeddings:
                column = f", column {c}," if len(tables) > 1 else ""
                raise ValueError(
                    f"{reader}{column} has a vocabulary of {table.num_embeddings} categories (0 to "
                    f"{table.num_embeddings - 1}), received categories from {low[c]} to {high[c]}"
                ) from None
        raise
