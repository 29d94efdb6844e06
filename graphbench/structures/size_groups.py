"""Graphs of a batch by their size, for what all graphs of one size share: the filters of long convolutions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphbench.structures.capacity import Capacity, CapacityRagged, SizesUnknown
from graphbench.structures.ragged import Ragged


@dataclass(frozen=True)
class SizeGroups:
    """One group per distinct size n of a batch, ascending, with n taps (rows) that its graphs share.

    Worked example, graphs of 2, 3 and 2 nodes: taps 0, 1 belong to size 2 and taps 2, 3, 4 to size 3; ``first_tap`` is
    (0, 2, 0), ``graphs`` (0, 2, 1), ``ptr`` (0, 2, 3).

    Attributes:
        taps: partition of the taps by group. That of a padded batch has one group for every size there can be, most of
            them without a tap, and a last one for taps that are left over.
        first_tap: (G,) int64, first tap of every graph.
        graphs: (G',) int64, graphs by group.
        ptr: (S+1,) int64, first graph of every group in ``graphs``.
    """

    taps: Ragged
    first_tap: Tensor
    graphs: Tensor
    ptr: Tensor

    def positions(self) -> tuple[Tensor, Tensor]:
        """(M,) int64 on the device: position of every tap among those of its size, and that size, at least 1."""
        tap = torch.arange(self.taps.num_rows, device=self.taps.device)
        group = self.taps.graph_id
        size = self.taps.size_tensor.index_select(0, group)
        return tap - self.taps.ptr.index_select(0, group), size.clamp_(min=1)


def num_taps(ragged: Ragged) -> int:
    """M, taps of :func:`size_groups`."""
    if not isinstance(ragged, CapacityRagged):
        return sum(ragged.distinct_sizes)
    if not ragged.capacity.taps:
        raise SizesUnknown("the sizes of the graphs of a padded batch are known on the device only")
    return ragged.capacity.taps


def size_groups(ragged: Ragged) -> SizeGroups:
    """The groups of a batch, computed once."""
    return ragged.derived(_of_capacity if isinstance(ragged, CapacityRagged) else _of_sizes)


def _of_sizes(ragged: Ragged) -> SizeGroups:
    of_graph, distinct = np.asarray(ragged.sizes), np.asarray(ragged.distinct_sizes)
    first = np.append(0, distinct.cumsum())
    number = np.searchsorted(distinct, of_graph)
    graphs = np.argsort(of_graph, kind="stable")[(of_graph == 0).sum() :]
    ptr = np.append(np.searchsorted(of_graph[graphs], distinct), len(graphs))
    # One copy for all of them.
    on_device = torch.from_numpy(np.concatenate([first[number], graphs, ptr])).to(ragged.device, non_blocking=True)
    taps = Ragged.from_sizes(ragged.distinct_sizes, ragged.device)
    return SizeGroups(taps, *on_device.split([len(number), len(graphs), len(ptr)]))


def _of_capacity(ragged: Ragged) -> SizeGroups:
    sizes, total, largest = ragged.size_tensor, num_taps(ragged), ragged.max_size
    groups = largest + 2  # sizes 0 .. largest, and what is left over
    present = torch.zeros(groups, dtype=torch.int64, device=ragged.device).index_fill_(0, sizes, 1)
    last = (present * torch.arange(groups, device=ragged.device)).cumsum(0)
    ptr = torch.cat([last.new_zeros(1), last[:-1], last.new_full((1,), total)])
    taps = CapacityRagged(ptr, Capacity(largest + 1, 1, nodes=total, edges=0, max_size=total))
    ordered, graphs = sizes.sort(stable=True)
    first_graph = torch.searchsorted(ordered, torch.arange(groups + 1, device=ragged.device))
    return SizeGroups(taps, ptr.index_select(0, sizes), graphs, first_graph)


def equal_sizes(like: Ragged, graphs: int, size: int) -> Ragged:
    """So many graphs of one size, on the device of another partition and padded if that is."""
    if not isinstance(like, CapacityRagged):
        return Ragged.from_sizes([size] * graphs, like.device)
    ptr = torch.arange(graphs + 1, device=like.device) * size
    return CapacityRagged(ptr, Capacity(graphs, 0, nodes=graphs * size, edges=0, max_size=size))
