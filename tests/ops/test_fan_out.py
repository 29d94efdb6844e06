"""One tensor for several consumers; gradients of the kernel: interpreted_fan_out.py."""

from __future__ import annotations

import torch

from graphbench.ops.fan_out import fan_out


def test_on_the_host_it_is_the_tensor_itself() -> None:
    x = torch.ones(2)
    assert all(y is x for y in fan_out(x, 4))
