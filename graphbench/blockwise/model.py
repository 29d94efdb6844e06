"""The ability of a model to predict block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from torch import Tensor

from graphbench.structures.node_blocks import HostRows, NodeBlocks

if TYPE_CHECKING:
    from graphbench.blockwise.forward import Blockwise


class BlockwiseModel(ABC):
    """A model that can predict the nodes of one graph block by block."""

    @abstractmethod
    def forward_blockwise(self, graph: NodeBlocks) -> Tensor:
        """The predictions that ``forward`` makes for all nodes of one graph, in evaluation, with bounded memory.

        Args:
            graph: graph in blocks.

        Returns:
            (N, out_dim) on the host.

        Raises:
            ValueError: the encoder, a layer or the head cannot work block by block.
        """


class BlockwiseBlock(ABC):
    """Ability of a block of a stacked model to be taken apart by itself."""

    @abstractmethod
    def forward_blockwise(self, h: HostRows, e: HostRows | None, blocks: Blockwise) -> tuple[HostRows, HostRows | None]:
        """States of nodes and of edges behind the block, as those of its forward pass over the whole graph."""
