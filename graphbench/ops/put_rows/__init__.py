"""Rows of several tensors, written to where a number on the device says."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.put_rows import cpu, reference

__all__ = ["put_rows"]


_IMPLEMENTATIONS = Backends(reference.put_rows, cpu.put_rows, gpu=True)


def put_rows(
    place: Tensor,
    sources: Sequence[Tensor],
    targets: Sequence[Tensor],
    levels: Sequence[int],
    *,
    backend: str = "auto",
) -> None:
    """``targets[i][place[levels[i]] + r] = sources[i][r]``, in place; nothing waits for the device.

    Args:
        place: (L,) int64, at least 0.
        sources: (R_i, ...) each.
        targets: (T_i + 1, ...) of the same type and shape of rows. What would lie behind row T_i - 1 is lost; the last
            row may be overwritten.
        levels: number of the place of each.
        backend: ``"auto"``, ``"reference"``, ``"cpu"`` or ``"gpu"``.

    Raises:
        ValueError: ``backend`` is unknown.
    """
    _IMPLEMENTATIONS.choose(backend, place)(place, sources, targets, levels)
