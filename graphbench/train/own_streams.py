"""CUDA streams that have one holder at a time."""

from __future__ import annotations

import gc
import weakref

import torch

STREAMS = 32
"""Streams of a device: PyTorch hands them out in turn, and then the same again (``c10/cuda/CUDAStream.h``)."""

_held: weakref.WeakValueDictionary[tuple[int, int], torch.cuda.Stream] = weakref.WeakValueDictionary()


def own_streams(device: torch.device, count: int) -> list[torch.cuda.Stream]:
    """Streams that nobody else has from here while they are alive.

    Args:
        device: a CUDA device.
        count: number of streams.

    Raises:
        RuntimeError: others have so many that none are left.
    """
    found = _free(device, count)
    if len(found) < count:
        gc.collect()  # a training that has ended may still be held by a cycle
        found += _free(device, count - len(found))
    if len(found) < count:
        left = f"all but {len(found)}" if found else "all of them"
        raise RuntimeError(f"a GPU has {STREAMS} streams, and other trainings of this process have {left}")
    return found


def _free(device: torch.device, count: int) -> list[torch.cuda.Stream]:
    """At most ``count`` streams that nobody has, which are taken."""
    found: list[torch.cuda.Stream] = []
    for _ in range(STREAMS):
        if len(found) == count:
            break
        stream = torch.cuda.Stream(device)
        key = (device.index or 0, stream.cuda_stream)
        if key not in _held:
            _held[key] = stream
            found.append(stream)
    return found
