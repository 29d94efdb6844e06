"""Attention of FFGT and GRPE: heads with a limited receptive field, relative encodings of distance and edge type."""

from graphbench.layers.attention.ffgt.grpe import GRPE
from graphbench.layers.attention.ffgt.layer import FFGT

__all__ = ["FFGT", "GRPE"]
