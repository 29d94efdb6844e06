"""Memory limit of encodings that are stored for all pairs of nodes."""

from __future__ import annotations

from graphbench.data.store import GraphStore
from graphbench.errors import UserError

LIMIT = 4 << 30
"""Bytes that one value for every ordered pair of nodes may take: 4 GiB, which 11,000 images of 480 superpixels or one
graph of 65,536 nodes need for distances of one byte. They are computed in memory and kept in one file."""


def check_pairs(store: GraphStore, width: int) -> None:
    """Refuses graphs too large for blocks of all pairs.

    Args:
        store: the graphs.
        width: bytes for one pair.

    Raises:
        UserError: the blocks would take more than :data:`LIMIT`.
    """
    needed = width * int(store.sizes.square().sum())
    if needed > LIMIT:
        raise UserError(
            f"{store.num_graphs:,} graphs of up to {int(store.sizes.max()):,} nodes: what is known about all pairs of "
            f"nodes would take {needed / 2**30:,.1f} GiB, the limit is {LIMIT / 2**30:.0f} GiB. For graphs of this "
            "size use attention to the nodes within some hops, which reads neighbour lists (focal heads of FFGT; "
            "transform HopNeighbors). Many graphs of moderate size need not be stored: dataset.distances batch."
        )
