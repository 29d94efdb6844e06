"""From a device to the host in one copy: a wait costs as much as a dozen small operations, however little arrives."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary


def to_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same tensors in host memory, without gradients; those that lie there already stay what they are.

    Args:
        tensors: of any types and shapes; what is not on the host lies on one device.
    """
    copies = list(tensors)
    on_device = [i for i, tensor in enumerate(tensors) if tensor.device.type != "cpu"]
    on_device.sort(key=lambda i: -tensors[i].element_size())  # widest types first: every part begins aligned
    if on_device:
        parts = [tensors[i].detach().contiguous().reshape(-1).view(torch.uint8) for i in on_device]
        joined = parts[0].cpu() if len(parts) == 1 else torch.cat(parts).cpu()
        for i, part in zip(on_device, joined.split([len(part) for part in parts]), strict=True):
            copies[i] = part.view(tensors[i].dtype).view(tensors[i].shape)
    return copies


_host_copies = WeakTensorKeyDictionary()


def constant_on_host(tensor: Tensor) -> Tensor:
    """A tensor that nothing writes to, in host memory; copied once in its life."""
    if tensor.device.type == "cpu":
        return tensor
    if tensor not in _host_copies:
        _host_copies[tensor] = tensor.cpu()
    copy: Tensor = _host_copies[tensor]
    return copy
