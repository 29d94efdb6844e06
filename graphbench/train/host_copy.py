"""Copies from a device to the host in one: a wait costs as much as a dozen small operations, however little arrives."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


def to_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Copies of tensors in host memory, without gradients; those that lie there already stay what they are.

    Args:
        tensors: any types and shapes; those that are not on the host lie on one device. Views that lie one behind the
            other in one buffer cost no more than one of them.
    """
    copies = list(tensors)
    runs = _runs(tensors)
    runs.sort(key=lambda run: -tensors[run[0]].element_size())  # widest types first: every part begins aligned
    if runs:
        parts = [_bytes([tensors[i] for i in run]) for run in runs]
        joined = parts[0].cpu() if len(parts) == 1 else torch.cat(parts).cpu()
        for run, part in zip(runs, joined.split([len(part) for part in parts]), strict=True):
            numbers = part.view(tensors[run[0]].dtype).split([tensors[i].numel() for i in run])
            for i, of_tensor in zip(run, numbers, strict=True):
                copies[i] = of_tensor.view(tensors[i].shape)
    return copies


def _runs(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Numbers of the tensors on the device, together where they lie one behind the other in one buffer."""
    runs: list[list[int]] = []
    for i, tensor in enumerate(tensors):
        if tensor.device.type == "cpu":
            continue
        before = tensors[runs[-1][-1]] if runs else None
        if (
            before is not None
            and before._base is not None
            and before._base is tensor._base
            and before.dtype == tensor.dtype
            and before.is_contiguous()
            and tensor.is_contiguous()
            and before.storage_offset() + before.numel() == tensor.storage_offset()
        ):
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _bytes(run: Sequence[Tensor]) -> Tensor:
    first = run[0].detach()
    if len(run) > 1:
        numbers = sum(tensor.numel() for tensor in run)
        first = first.as_strided((numbers,), (1,), first.storage_offset())
    return first.contiguous().reshape(-1).view(torch.uint8)


class Arriving:
    """Numbers on their way to the host, which need not wait for what is launched after them.

    Args:
        tensor: (N,) on any device; not written to before it has arrived.
    """

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._sent: torch.cuda.Event | None = None
        if tensor.is_cuda:
            self._tensor = tensor.to("cpu", non_blocking=True)  # into pinned memory
            self._sent = torch.cuda.Event()
            self._sent.record(torch.cuda.current_stream(tensor.device))

    def numbers(self) -> list[float]:
        """The numbers, once the device has computed and copied them."""
        if self._sent is not None:
            self._sent.synchronize()
        numbers: list[float] = self._tensor.tolist()
        return numbers


_host_copies = WeakTensorKeyDictionary()


def constant_on_host(tensor: Tensor) -> Tensor:
    """A tensor that nothing writes to, in host memory; copied once in its life."""
    if tensor.device.type == "cpu":
        return tensor
    if tensor not in _host_copies:
        _host_copies[tensor] = tensor.cpu()
    copy: Tensor = _host_copies[tensor]
    return copy
