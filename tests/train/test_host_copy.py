"""Copies to the host: values, types and shapes stay, and the host waits once."""

from __future__ import annotations

import torch

from graphbench.train.host_copy import constant_on_host, to_host
from tests.second_device import DEVICE, second_device


def test_everything_arrives_after_one_wait() -> None:
    here = torch.arange(4)
    sent = [
        torch.tensor(1.5),
        torch.tensor([True, False, True]),
        torch.arange(6).view(2, 3),
        torch.empty(0, 5),
        torch.randn(3, 7).t(),
        torch.randn(5, dtype=torch.float64),
        torch.randn(3, 1).bfloat16(),
    ]
    with second_device() as waits:
        there = [here, *(tensor.to(DEVICE) for tensor in sent)]
        waits.clear()
        copies = to_host(there)
        assert len(waits) == 1
    assert copies[0] is here
    for a, b in zip(copies[1:], sent, strict=True):
        assert a.device.type == "cpu"
        torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_a_constant_is_copied_once() -> None:
    rows = torch.tensor([2, 0])
    assert constant_on_host(rows) is rows
    with second_device() as waits:
        there = rows.to(DEVICE)
        waits.clear()
        copies = [constant_on_host(there) for _ in range(3)]
        assert len(waits) == 1
    assert all(torch.equal(copy, rows) for copy in copies)
