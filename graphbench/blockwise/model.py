"""The ability of a model to predict block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from graphbench.structures.node_blocks import NodeBlocks


class BlockwiseModel(ABC):
    """A model that can predict the nodes of one graph block by block."""

    @abstractmethod
    def forward_blockwise(self, graph: NodeBlocks) -> Tensor:
        """The predictions that ``forward`` makes for all nodes of one graph, in evaluation, with bounded memory.

        Args:
            graph: in blocks.

        Returns:
            (N, out_dim) on the host.

        Raises:
            ValueError: the encoder, a layer or the head cannot work block by block.
        """
