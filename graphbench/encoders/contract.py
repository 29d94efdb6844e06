"""Base classes of encoders, and the contexts that the model offers them.

The first hidden state is ``[ features | encoding | encoding .. ]``: one feature encoder maps the features of the data
set, positional encoders map numbers that a transform computed from the structure. A :class:`ColumnEncoder` adds
columns; a :class:`BatchEncoder` works on the concatenation and may compute state for the layers or add nodes.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from graphbench.contract import Capturable
from graphbench.registry import UNSET
from graphbench.structures import GraphBatch


@dataclass(frozen=True)
class FeatureContext:
    """Values that the model offers to encoders of node and edge features.

    Attributes:
        dim: columns of the result.
        node_in: columns of the raw node features.
        edge_in: columns of the raw edge features.
        num_types: vocabulary of one categorical column (``dataset.*_encoder_num_types``, or the data set's).
        ogb_atom_vocabulary: chirality classes of OGB's atoms.
        standardize: whether superpixel features are standardised, chosen by ``compat``.
        fixed: fields that no key of an encoder's section changes.
    """

    fixed: ClassVar[tuple[str, ...]] = ("dim", "node_in", "edge_in")

    dim: int = UNSET
    node_in: int = UNSET
    edge_in: int = UNSET
    num_types: int = UNSET
    ogb_atom_vocabulary: int = UNSET
    standardize: bool = UNSET


@dataclass(frozen=True)
class PositionalContext:
    """Values that the model offers to positional encoders; their widths and sizes are keys of ``posenc_<Name>``.

    Attributes:
        dim: columns of the node (edge) states before the encoder's own.
        act: activation (``gnn.act``).
        heads: attention heads of biases (``graphormer.num_heads``).
        max_nodes: nodes of the largest graph, test graphs included: for shapes only; None where unknown.
        edge_types: vocabulary of edge features with one categorical column, else 0.
        input_dropout: ``graphormer.input_dropout``.
        use_graph_token: ``graphormer.use_graph_token``.
    """

    dim: int = UNSET
    act: str = UNSET
    heads: int = UNSET
    max_nodes: int | None = UNSET
    edge_types: int = UNSET
    input_dropout: float = UNSET
    use_graph_token: bool = UNSET


class FeatureEncoder(nn.Module, Capturable):
    """Map from raw node or edge features to the first columns of the hidden state.

    Attributes:
        registered_name: set by :func:`~graphbench.registry.register`.
        columns: columns of the features that the encoder reads; None: any number.
    """

    registered_name: ClassVar[str] = ""
    columns: ClassVar[int | None] = None

    @abstractmethod
    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim) in ``encoders/node``, (E, dim) in ``encoders/edge``."""


class PositionalEncoder(nn.Module, Capturable):
    """Base of both kinds of positional encoders.

    Attributes:
        registered_name: also the name of the configuration's group, ``posenc_<Name>``.
        transform: name of the transform whose outputs it reads by :meth:`encoding`, or None. Keys of
            ``posenc_<Name>`` are arguments of both.
        level: whether its rows are nodes or edges.
    """

    registered_name: ClassVar[str] = ""
    transform: ClassVar[str | None] = None
    level: ClassVar[Literal["node", "edge"]] = "node"

    def encoding(self, batch: GraphBatch, output: str, columns: int | None = None) -> Tensor:
        """An output of this encoder's transform: ``batch.pe["<Name>.<output>"]``, at level ``edge`` ``batch.edge_pe``.

        Args:
            batch: the graphs.
            output: name of the transform's output, e.g. ``"eigvecs"``.
            columns: numbers per node or edge that the encoder was built for; None for any.

        Returns:
            (N, columns) or (E, columns); a trailing dimension of one is dropped.

        Raises:
            ValueError: not there, or of another width.
        """
        name = self.registered_name or type(self).__name__
        key, field = f"{name}.{output}", "edge_pe" if self.level == "edge" else "pe"
        encodings = batch.edge_pe if self.level == "edge" else batch.pe
        if key not in encodings:
            raise ValueError(
                f"{name} reads batch.{field}['{key}'], which its transform computes; the batch has "
                f"{sorted(encodings) or 'no encodings'}"
            )
        values = encodings[key]
        if not values.numel() and columns is not None:
            return values.new_zeros(values.shape[0], columns)
        flat = values.flatten(1) if values.dim() > 1 else values[:, None]
        if columns is not None and flat.shape[1] != columns:
            raise ValueError(
                f"{name} was built for {columns} numbers per {self.level}, batch.{field}['{key}'] has "
                f"{flat.shape[1]} (shape {tuple(values.shape)})"
            )
        return flat


class ColumnEncoder(PositionalEncoder):
    """An encoding in columns that are concatenated with the features."""

    @abstractmethod
    def forward(self, batch: GraphBatch) -> Tensor:
        """(N, dim_pe), or (E, dim_pe) at level ``edge``."""


class BatchEncoder(PositionalEncoder):
    """An encoding that changes the node states or the batch, after the concatenation.

    Attributes:
        adds_token: whether it inserts one more node as the first of every graph.
        supplies: field of :class:`~graphbench.structures.LayerState` that it leaves with a row per node or pair; None
            for none. Encoders add to a ``pair_bias`` that is there.
        gates_local_layers: whether local layers gate their messages by its ``stable_encoding`` unless told otherwise
            (their argument ``equivstable``).
    """

    adds_token: bool = False
    supplies: Literal["pair_bias", "stable_encoding", "edge_states"] | None = None
    gates_local_layers: ClassVar[bool] = False

    @abstractmethod
    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        """New node states and the batch to go on with; state for layers by :meth:`GraphBatch.with_state`."""
