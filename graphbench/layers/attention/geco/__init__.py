"""Convolutional attention of GECO and Hyena: implicit filters, local context, node orders, and the two attentions."""

from graphbench.layers.attention.geco.hyena import Hyena
from graphbench.layers.attention.geco.layer import GECO

__all__ = ["GECO", "Hyena"]
