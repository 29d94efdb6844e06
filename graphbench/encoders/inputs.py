"""What an encoder reads from a batch, with a message instead of a KeyError where it is not there."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.structures import Features, GraphBatch, as_dense


def node_features(batch: GraphBatch, reader: str) -> Tensor:
    """``batch.x``, with the zeros of sparse rows written out.

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


def precomputed(batch: GraphBatch, encoder: str, output: str, columns: int | None, *, edges: bool = False) -> Tensor:
    """The numbers that a transform left in ``batch.pe`` (or ``batch.edge_pe``) for an encoder.

    Args:
        batch: the graphs.
        encoder: registered name of the encoder, e.g. ``"LapPE"``.
        output: name of the transform's output, e.g. ``"eigvecs"``.
        columns: numbers per node or edge the encoder was built for; None for any.
        edges: edge-wise instead of node-wise numbers.

    Returns:
        (N, columns) or (E, columns); a trailing dimension of one is dropped.

    Raises:
        ValueError: not there, or of another width.
    """
    name = f"{encoder}.{output}"
    group, found, what = ("edge_pe", batch.edge_pe, "edge") if edges else ("pe", batch.pe, "node")
    if name not in found:
        raise ValueError(
            f"{encoder} reads batch.{group}['{name}'], which its transform computes; the batch has "
            f"{sorted(found) or 'no encodings'}"
        )
    values = found[name]
    if not values.numel() and columns is not None:
        return values.new_zeros(values.shape[0], columns)
    flat = values.flatten(1) if values.dim() > 1 else values[:, None]
    if columns is not None and flat.shape[1] != columns:
        raise ValueError(
            f"{encoder} was built for {columns} numbers per {what}, batch.{group}['{name}'] has {flat.shape[1]} "
            f"(shape {tuple(values.shape)})"
        )
    return flat


def embed(table: nn.Embedding, categories: Tensor, reader: str) -> Tensor:
    """Rows of ``table``.

    Raises:
        ValueError: a category outside the vocabulary (on CPU; an accelerator reports an assertion of its own, because
            looking at the values there would stop it in every step).
    """
    try:
        return table(categories.long())
    except IndexError:
        low, high = (int(value) for value in torch.aminmax(categories))
        raise ValueError(
            f"{reader} has a vocabulary of {table.num_embeddings} categories (0 to {table.num_embeddings - 1}), "
            f"received categories from {low} to {high}"
        ) from None
