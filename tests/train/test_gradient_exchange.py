"""The buffer of gradients; what several processes exchange through it is in test_distributed.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from graphbench.train.accelerator import make_fabric
from graphbench.train.gradient_exchange import GradientExchange


@pytest.mark.skipif(not torch.distributed.is_available(), reason="PyTorch without torch.distributed")
def test_gradients_are_parts_of_one_buffer_per_format(tmp_path: Path) -> None:
    model = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Linear(3, 1).double(), "unused": nn.Linear(2, 2)})

    def backward() -> None:
        model["b"](model["a"](torch.ones(4, 2)).double()).sum().backward()

    backward()
    expected = [None if each.grad is None else each.grad.clone() for each in model.parameters()]
    exchange = GradientExchange(model, make_fabric("cpu"))
    places = [gradient.data_ptr() for gradient in exchange.gradients]
    assert len(places) == 4
    backward()  # adds to what is there, which is 0
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1
    )
    try:
        exchange.average()
    finally:
        torch.distributed.destroy_process_group()
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert (parameter.grad is None) == (gradient is None)
        assert gradient is None or torch.equal(parameter.grad, gradient)
    exchange.forget()
    assert [gradient.data_ptr() for gradient in exchange.gradients] == places
    assert not any(gradient.any() for gradient in exchange.gradients)
