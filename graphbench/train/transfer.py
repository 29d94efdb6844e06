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
    found = list(tensors)
    away = [number for number, each in enumerate(found) if each.device.type != "cpu"]
    away.sort(key=lambda number: -found[number].element_size())  # wide ones first: every part begins where it may
    if away:
        parts = [found[number].detach().contiguous().reshape(-1).view(torch.uint8) for number in away]
        together = parts[0].cpu() if len(parts) == 1 else torch.cat(parts).cpu()
        for number, part in zip(away, together.split([len(each) for each in parts]), strict=True):
            found[number] = part.view(found[number].dtype).view(found[number].shape)
    return found


_KEPT = WeakTensorKeyDictionary()


def constant_on_host(tensor: Tensor) -> Tensor:
    """A tensor that nothing writes to, in host memory; copied once in its life."""
    if tensor.device.type == "cpu":
        return tensor
    if tensor not in _KEPT:
        _KEPT[tensor] = tensor.cpu()
    kept: Tensor = _KEPT[tensor]
    return kept
