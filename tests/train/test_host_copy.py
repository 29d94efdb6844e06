"""Copies to the host: values, types and shapes stay, and the host waits once."""

from __future__ import annotations

import pytest
import torch

from graphbench.train.host_copy import Arriving, constant_on_host, to_host
from tests.second_device import DEVICE, GPU, observed, second_device


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


def test_numbers_that_were_sent_are_those_of_that_time() -> None:
    with second_device() as waits:
        there = torch.tensor([1.5, 2.5]).to(DEVICE)
        waits.clear()
        arriving = Arriving(there)
        later = there * 2
        assert not waits, "sending waits for nothing"
        assert arriving.numbers() == [1.5, 2.5]
        assert Arriving(later).numbers() == [3.0, 5.0]


@pytest.mark.skipif(GPU, reason="operations of a GPU are not observed")
def test_views_behind_each_other_are_copied_as_one() -> None:
    """As what captured steps leave in a tally, with a gap where one could not be captured."""

    def operations(batches: int) -> int:
        with second_device():
            rows, losses = torch.arange(6.0 * batches).view(-1, 2).to(DEVICE), torch.arange(batches).to(DEVICE)
            views = [rows[3 * i : 3 * i + 3] for i in range(batches)] + [losses[i] for i in range(batches)]
            views[1] = views[1].clone()
            asked: list[str] = []
            with observed(lambda name, tensors, result: asked.append(name)):
                copies = to_host(views)
        assert [each.device.type for each in copies] == ["cpu"] * len(views)
        for i in range(batches):
            assert copies[i].tolist() == [[6.0 * i + 2 * row, 6.0 * i + 2 * row + 1] for row in range(3)]
            assert copies[batches + i].tolist() == i
        return len(asked)

    assert operations(4) == operations(30)
