"""The checks of :mod:`graphbench.testing` and, where a second device can be had, one more.

Tests of layers, encoders, heads and models take example graphs and checks from here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from graphbench.structures import GraphBatch
from graphbench.testing.checks import CHECKS as ON_ONE_DEVICE
from graphbench.testing.checks import (
    Subject,
    assert_close,
    check_batch_independence,
    check_corner_cases,
    check_gradients,
    check_untouched,
    shaken,
)
from graphbench.testing.graphs import alone, edges_of, example_batch, permutations, permuted, tensors_of
from tests.second_device import DEVICE, second_device, triton_stubbed

__all__ = [
    "CHECKS",
    "Subject",
    "alone",
    "check_batch_independence",
    "check_corner_cases",
    "check_gradients",
    "check_second_device",
    "check_untouched",
    "edges_of",
    "example_batch",
    "permutations",
    "permuted",
    "shaken",
    "tensors_of",
]


def check_second_device(subject: Subject, batch: GraphBatch) -> None:
    """On a device that is not the host: same outputs and gradients, and the second time the host waits for nothing."""
    subject.module.eval()
    there = Subject(copy.deepcopy(subject.module), subject.call, subject.level, subject.width)
    with second_device() as waits:
        there.module.to(DEVICE)
        batch_there = batch.to(DEVICE)
        with triton_stubbed():
            for _ in range(2):
                waits.clear()
                _with_gradients(there, batch_there)
            assert not waits
        outputs_there = _with_gradients(there, batch_there)
        found = {name: value.cpu() for name, value in outputs_there.items()}
    expected = _with_gradients(subject, batch)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_close(found[name], value, 1e-10, f"{name} differs on another device")


def _with_gradients(subject: Subject, batch: GraphBatch) -> dict[str, Tensor]:
    subject.module.zero_grad(set_to_none=True)
    torch.manual_seed(11)
    outputs = subject(batch)
    sum((value * value).sum() for value in outputs.values()).backward()
    found = {f"gradient of {name}": p.grad for name, p in subject.module.named_parameters() if p.grad is not None}
    found |= {name: value.detach() for name, value in outputs.items()}
    subject.module.zero_grad(set_to_none=True)
    return found


CHECKS: dict[str, Callable[[Subject, GraphBatch], None]] = {**ON_ONE_DEVICE, "second_device": check_second_device}
