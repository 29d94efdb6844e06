"""Graph transformers' layers on plain tensors, for models of PyTorch and PyTorch Geometric.

::

    attention = graphbench.nn.SFi(64, heads=4)
    x = x + attention(x, edge_index, batch)          # (N, 64): what PyG's loader puts into data.x, .edge_index, .batch

``batch`` (N,) is the graph of every node, ascending; None is one graph; ``ptr`` (G+1,), the cumulated sizes that
FlashAttention calls ``cu_seqlens``, may be given in its place. Nothing is padded, and the rows of a graph do not depend
on the other graphs of the batch. What a layer needs beyond the edges (hop distances, an expander graph) is computed
when it is first asked for and kept as long as the tensor ``edge_index`` lives, for all layers of a model.

These are the layers that configurations name, constructed and called in another way; ``layer.layer`` is the layer
itself, with its docstring, equation and source. ``PlainAttention`` makes the same of an attention of one's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphbench.nn.attention import FFGT, GECO, GRPE, DFi, Gradformer, Performer, SFi, SGFormer, Transformer
from graphbench.nn.exphormer import Exphormer
from graphbench.nn.gps_block import GPSBlock
from graphbench.nn.plain_layer import PlainAttention

if TYPE_CHECKING:
    from graphbench.nn.gps_conv import GPSConv

__all__ = [
    "FFGT",
    "GECO",
    "GRPE",
    "DFi",
    "Exphormer",
    "GPSBlock",
    "GPSConv",
    "Gradformer",
    "Performer",
    "PlainAttention",
    "SFi",
    "SGFormer",
    "Transformer",
]


def __getattr__(name: str) -> Any:
    """Imports PyTorch Geometric only for whoever asks for the class that is derived from one of its own."""
    if name == "GPSConv":
        from graphbench.nn.gps_conv import GPSConv

        return GPSConv
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'. There are: {', '.join(__all__)}")
