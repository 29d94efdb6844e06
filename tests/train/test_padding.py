"""Neutral padding: a training step on a padded batch is the step on the plain one, in float64.

Loss, every gradient and every running statistic of all components that declare themselves capturable, of every
shipped method and of every loss.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from graphbench.config import load_config
from graphbench.data.loading.assembly import BatchAssembler, why_not
from graphbench.data.loading.padded import capacity_classes
from graphbench.data.store import GraphStore
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.transforms import build_transforms
from graphbench.structures import GraphBatch
from graphbench.structures.capacity import RealRows
from graphbench.tasks.task import Task
from graphbench.train.forward import BatchAdapter, OpaqueBatch
from tests.synthetic_batch import SIZES, store_like
from tests.test_configs import ONE_LAYER
from tests.test_second_device import _one_per_method, _without_dropout

TOLERANCE = 1e-12


@contextmanager
def _draws_of_the_first_rows() -> Iterator[None]:
    """A longer draw begins with the numbers of a shorter one, whatever was drawn before."""
    calls = 0

    def generator() -> torch.Generator:
        nonlocal calls
        calls += 1
        return torch.Generator().manual_seed(calls)

    def drawn(draw: Any) -> Any:
        return lambda *size, **options: draw(*size, **{"generator": generator()} | options)

    def exponential_(target: Tensor, *arguments: Any) -> Tensor:
        uniform = torch.rand(target.shape, dtype=torch.float64, generator=generator())
        return target.copy_(-torch.log1p(-uniform))

    with pytest.MonkeyPatch.context() as patch:
        for name in ("randint", "rand", "randn"):
            patch.setattr(torch, name, drawn(getattr(torch, name)))
        patch.setattr(Tensor, "exponential_", exponential_)
        yield


def step(model: nn.Module, task: Task, batch: GraphBatch, real: RealRows | None) -> dict[str, Tensor]:
    """Loss, gradients and buffers of one step, by name."""
    model = copy.deepcopy(model)
    with _draws_of_the_first_rows():
        prediction, auxiliary = BatchAdapter(model, "64-true")(OpaqueBatch(batch))
    assert batch.y is not None
    loss = task.loss(prediction, batch.y, real)
    (loss if auxiliary is None else loss + auxiliary).backward()
    result = {"loss": loss.detach()}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            result[f"gradient of {name}"] = parameter.grad
    return result | {f"buffer {name}": buffer for name, buffer in model.named_buffers()}


def assert_neutral(model: nn.Module, task: Task, store: GraphStore, graphs: list[int]) -> None:
    """Compares the step on graphs of a store with and without padding."""
    assembler = BatchAssembler(store)
    larger = [int(store.sizes.argmax())] * len(graphs)
    counts = [assembler.counts(np.asarray(chosen)) for chosen in (graphs, larger)]
    (capacity,) = capacity_classes(counts, 1, assembler.max_size)
    capacity = dataclasses.replace(capacity, graphs=len(graphs) + 2)  # two places stay empty
    numbers = torch.tensor(graphs + [-1] * (capacity.graphs - len(graphs)))
    padded = assembler.assemble(numbers, capacity)
    plain = step(model, task, store.gather(graphs), None)
    ours = step(model, task, padded, assembler.real_targets(padded))
    assert ours.keys() == plain.keys()
    largest = max(float(value.abs().max()) for name, value in plain.items() if name.startswith("gradient"))
    for name, expected in plain.items():
        scale = max(1.0, largest if name.startswith("gradient") else float(expected.abs().max()))
        error = float((ours[name] - expected).abs().max()) / scale if expected.numel() else 0.0
        assert error <= TOLERANCE, f"{name}: {error:.1e}"


@pytest.mark.parametrize("path", _one_per_method())
def test_every_method(path: Path, tmp_path: Path) -> None:
    narrow = [*ONE_LAYER]
    config = load_config(path, narrow)
    info = dataclasses.replace(declared_info(config), max_nodes=max(SIZES))
    model, task = build_model(config, info).double().train(), build_task(config, info)
    _without_dropout(model)
    store = store_like(info, build_transforms(config), tmp_path, SIZES)
    if why_not(store) is not None:
        pytest.skip(str(why_not(store)))
    assert_neutral(model, task, store, [2, 0, 3])
