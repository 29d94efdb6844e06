"""Base classes of models, and the context that the configuration offers: encoders, factories of layers and head."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from graphbench.contract import Capturable
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.heads.contract import Head
from graphbench.layers.contract import Attention, Block, LocalLayer
from graphbench.layers.module_list import Modules
from graphbench.models.pre_layers import LayerSettings, PreLayer
from graphbench.registry import UNSET, FromContext
from graphbench.structures import Features, GraphBatch
from graphbench.structures.side_stream import BRANCH, join_side, on_side


@dataclass(frozen=True)
class ModelContext:
    """Parts of a model; a parameter ``name: FromContext[...]`` reads the field ``name``.

    Attributes:
        encoder: ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: width of the encoded nodes.
        edge_encoder: ``batch -> (E, dim_edge)``, or None.
        dim: width of the hidden state (``gnn.dim_inner``).
        dim_edge: width of the edge states.
        layers: number of layers (``gt.layers``, ``gnn.layers_mp``, ``graphormer.num_layers``).
        block: factory of blocks with the layers that ``layer_type`` names.
        local: factory of the one local layer in ``layer_type``, from ``(dim_in, dim_out)``; None where it names none.
        attention: factory of the one attention in ``layer_type``; None where it names none.
        head: factory of the head, from its input width.
        prepare: ``(h, e, batch) -> batch'`` before the first block, for state shared by all blocks, or None.
        pre_mp: linear layers between encoder and layers (``gnn.layers_pre_mp``), for models with such a parameter.
        post: norm, dropout and activation after every convolution of GraphGym's network.
        stage_type: ``gnn.stage_type``.
        batchnorm: ``gnn.batchnorm``.
        dropout: ``gnn.dropout``.
        act: ``gnn.act``.
    """

    encoder: NodeEncoder = UNSET
    dim_encoded: int = UNSET
    edge_encoder: EdgeEncoder | None = UNSET
    dim: int = UNSET
    dim_edge: int = UNSET
    layers: int = UNSET
    block: Callable[[], Block] = UNSET
    local: Callable[[int, int], LocalLayer] | None = UNSET
    attention: Callable[[], Attention] | None = UNSET
    head: Callable[[int], Head] = UNSET
    prepare: nn.Module | None = UNSET
    pre_mp: Modules[PreLayer] = UNSET
    post: LayerSettings = UNSET
    stage_type: str = UNSET
    batchnorm: bool = UNSET
    dropout: float = UNSET
    act: str = UNSET


class Model(nn.Module, Capturable):
    """Map from a batch to predictions.

    Attributes:
        registered_name: set by :func:`~graphbench.registry.register`.
        layers_from: group of the configuration that names and counts the layers: ``gt`` (``gt.layer_type``,
            ``gt.layers``), ``gnn`` (``gnn.layer_type``, ``gnn.layers_mp``) or ``graphormer``.
        layer: name in ``layers/blocks`` of the only block that the model has; None: ``layer_type`` names it.
        feed_forward: False: a block is one sublayer without feed-forward network
            (:class:`~graphbench.layers.single.SingleBlock`).
        of_graphs: whether the head gets one row per graph.
        own_pair_bias: whether attentions add a bias that the model computes, and none that encoders supply.
        permutation_equivariant: False where predictions depend on the order of the nodes.
    """

    registered_name: ClassVar[str] = ""
    layers_from: ClassVar[Literal["gt", "gnn", "graphormer"]] = "gt"
    layer: ClassVar[str | None] = None
    feed_forward: ClassVar[bool] = True
    of_graphs: bool = False
    own_pair_bias: ClassVar[bool] = False
    permutation_equivariant: ClassVar[bool] = True

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Transforms that the model's own arguments need, see :meth:`.GraphLayer.required_transforms`."""
        return {}

    def __call__(self, batch: GraphBatch) -> Tensor:
        """Predictions of the head, see :meth:`forward`.

        Raises:
            TypeError: a batch of PyTorch Geometric, which has no encodings.
        """
        if not isinstance(batch, GraphBatch):
            raise TypeError(
                f"a model takes a GraphBatch, received {type(batch).__name__}. graphbench.batch_of(config, graphs) "
                "makes one of a PyG Batch or a list of Data, with the encodings that the model reads."
            )
        predicted: Tensor = super().__call__(batch)
        return predicted

    @abstractmethod
    def forward(self, batch: GraphBatch) -> Tensor:
        """Predictions of the head: (G, out_dim), (N, out_dim) or (P, out_dim)."""


@dataclass(frozen=True)
class Frame:
    """Encoder and head of a model: a parameter of this type stands for its fields.

    Attributes:
        encoder: node encoder, ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: width of the encoded nodes.
        dim: width of the hidden state (``gnn.dim_inner``).
        head: factory of the head, from its input width.
    """

    encoder: FromContext[NodeEncoder]
    dim_encoded: FromContext[int]
    dim: FromContext[int]
    head: FromContext[Callable[[int], Head]]


@dataclass(frozen=True)
class EdgeFrame(Frame):
    """Encoder and head of a model that reads edge states.

    Attributes:
        edge_encoder: ``batch -> (E, dim_edge)``, or None.
        dim_edge: width of the edge states.
    """

    edge_encoder: FromContext[EdgeEncoder | None]
    dim_edge: FromContext[int] = 0

    @property
    def edge_columns(self) -> int | None:
        """Columns of the edge states; None where there are none."""
        return None if self.edge_encoder is None else self.edge_encoder.dim


class EncodedModel(Model):
    """A model whose first states are those of a node encoder and an edge encoder.

    Args:
        encoder: node encoder, ``batch -> ((N, dim_encoded), batch')``.
        edge_encoder: edge encoder, ``batch -> (E, dim_edge)``, or None.
        keep_sparse: the first layer can read sparse rows, which the encoder then returns where nothing encodes them.
    """

    def __init__(
        self, encoder: NodeEncoder, edge_encoder: EdgeEncoder | None = None, *, keep_sparse: bool = True
    ) -> None:
        super().__init__()
        if keep_sparse:
            encoder.keeps_sparse = True
        self.encoder = encoder
        self.edge_encoder = edge_encoder

    def encode(self, batch: GraphBatch) -> tuple[Features, Tensor | None, GraphBatch]:
        """First node states (N, dim_encoded), edge states (E, dim_edge) or None, and the batch to go on with."""
        with on_side(BRANCH):
            e = None if self.edge_encoder is None else self.edge_encoder(batch)
        h, batch = self.encoder(batch)
        join_side(BRANCH, e)
        return h, e, batch
