"""Attention of FFGT and GRPE.

- ``layer``, ``grpe``: FFGT and GRPE, with full-range heads and focal heads (a limited receptive field).
- ``settings``: the keys that both and their pre-norm layers (``layers/blocks/pre_norm.py``) have in common.
- ``relations``: relative encodings of the hops and the edge type between two nodes, as learned tables.
"""

from graphbench.layers.attention.ffgt.grpe import GRPE
from graphbench.layers.attention.ffgt.layer import FFGT

__all__ = ["FFGT", "GRPE"]
