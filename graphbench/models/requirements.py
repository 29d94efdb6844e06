"""Demands of several models on their arguments, and edge tables of which every layer has its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

from torch import Tensor

from graphbench.errors import ArgumentError, check_one_of
from graphbench.layers.contract import LocalLayer
from graphbench.structures import GraphBatch

Tables: TypeAlias = Literal["shared", "per_layer", "per_layer_and_first"]


def local_layers(local: Callable[[int, int], LocalLayer] | None, layers: int) -> Callable[[int, int], LocalLayer]:
    """The factory of local layers, of which there must be one and be asked for at least one.

    Raises:
        ArgumentError: ``layer_type`` names no local layer, or there are none of them.
    """
    if local is None or layers < 1:
        received = f"{layers} of {'none' if local is None else 'one kind'}"
        raise ArgumentError(("local", "layers"), f"1 or more local layers are needed, received {received}")
    return local


def check_same_width(dim_encoded: int, dim: int, reason: str) -> None:
    """Refuses encoded nodes of another width than the layers'.

    Raises:
        ArgumentError: with the reason, and both widths.
    """
    if dim_encoded != dim:
        raise ArgumentError(("dim_encoded", "dim"), f"{reason}, received {dim_encoded} and {dim} columns")


def check_per_node(prediction: Tensor, batch: GraphBatch, key: str) -> None:
    """Refuses predictions of graphs where ``key`` goes on with those of nodes.

    Raises:
        ValueError: there are not as many rows as nodes.
    """
    if len(prediction) != batch.num_nodes:
        raise ValueError(f"{key} needs a prediction per node, received {len(prediction)} for {batch.num_nodes} nodes")


class EdgeTables:
    """Edge states that all layers share, or ``dim`` columns for every layer.

    Args:
        tables: ``shared``: all layers read the same edge states; ``per_layer``: layer l reads columns l * dim ..
            (l + 1) * dim of them, so that an edge encoder of width ``gnn.dim_edge`` = layers * dim gives every layer
            tables of its own, as OGB's convolutions have them; ``per_layer_and_first``: the first layer adds ``dim``
            more columns to its own, the last ones of all, as GSN's does with counts of substructures.
        dim: width of the layers.
        layers: number of layers.
        received: columns of the edge states; None where there are none.

    Raises:
        ArgumentError: no such ``tables``, or fewer columns than layers read.
    """

    def __init__(self, tables: Tables, dim: int, layers: int, received: int | None) -> None:
        check_one_of(get_args(Tables), edge_tables=tables)
        self.shared, self.first, self.dim = tables == "shared", tables == "per_layer_and_first", dim
        columns = dim * (layers + self.first)
        if not self.shared and received is not None and received < columns:
            raise ArgumentError(
                "edge_tables",
                f"edge_tables {tables}: the layers read {columns} columns of the edge states, received {received}; set "
                f"gnn.dim_edge to {columns}, and dim_edge of the layers, where they have it, to {dim}",
            )

    def of(self, e: Tensor | None, layer: int) -> Tensor | None:
        """(E, dim) edge states for a layer, counted from 0."""
        if e is None or self.shared:
            return e
        own = e[:, layer * self.dim : (layer + 1) * self.dim]
        return own + e[:, -self.dim :] if self.first and layer == 0 else own
