"""Convolutional attention of GECO and Hyena.

``layer`` (GECO) and ``hyena`` (Hyena) are gated convolutions along the nodes of a graph, in O(N log N). Their parts:

- ``implicit_filter``: filters as long as a graph, from a small network of positions.
- ``local_context``: GECO's local block, features of the neighbourhood concatenated before the convolutions.
- ``node_order``, ``sequence_conv``: orders of the nodes, short convolutions along them.
- ``by_channel``: affine maps in the memory layout of long convolutions on a GPU.
"""

from graphbench.layers.attention.geco.hyena import Hyena
from graphbench.layers.attention.geco.layer import GECO

__all__ = ["GECO", "Hyena"]
