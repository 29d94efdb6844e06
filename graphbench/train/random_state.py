"""The global random generators, as a checkpoint keeps them, and those of one training among several."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def random_state(device: torch.device) -> dict[str, Any]:
    """The states of the global random generators, as tensors and plain numbers.

    Args:
        device: device of the training; of several GPUs the generator of this one belongs to it.
    """
    numpy_state: Any = np.random.get_state()  # noqa: NPY002  libraries draw from the global generator
    name, keys, *rest = numpy_state
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), *rest],
        "python": random.getstate(),
    }


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Inverse of :func:`random_state`; the device may be another one than it was.

    Args:
        state: result of :func:`random_state`.
        device: device of the training now.
    """
    torch.set_rng_state(state["torch"])
    of_device = state["cuda"]
    if isinstance(of_device, list):  # of all devices, in checkpoints of older versions
        of_device = of_device[device.index or 0] if len(of_device) > (device.index or 0) else None
    if of_device is not None and device.type == "cuda":
        torch.cuda.set_rng_state(of_device, device)
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))


class OwnGenerators:
    """Random numbers of one training among several: the global generators are its own while it has its turn.

    A CUDA graph reads seed and offset from tensors of the generator state that it was captured with, when it runs. On a
    GPU the default generator therefore gets another state to work on, not another value in the one that graphs of
    other streams may still be reading.

    Args:
        device: device of the training; the states begin as they are now.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda: Any = None
        if device.type == "cuda":
            torch.cuda.init()
            self._cuda = torch.cuda.default_generators[device.index or 0]
            self._on_device = self._cuda.clone_state()
            self._shared = self._cuda.graphsafe_get_state()
        self._on_host = _states_on_host()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Inside, whoever draws draws from these."""
        _set_on_host(self._on_host)
        if self._cuda is not None:
            self._cuda.graphsafe_set_state(self._on_device)
        try:
            yield
        finally:
            self._on_host = _states_on_host()
            if self._cuda is not None:
                self._cuda.graphsafe_set_state(self._shared)

    def put_back(self) -> None:
        """Sets the host's generators to where they were."""
        _set_on_host(self._on_host)


def _states_on_host() -> tuple[Any, Any, Any]:
    return torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002


def _set_on_host(states: tuple[Any, Any, Any]) -> None:
    of_torch, of_numpy, of_python = states
    torch.set_rng_state(of_torch)
    np.random.set_state(of_numpy)  # noqa: NPY002
    random.setstate(of_python)
