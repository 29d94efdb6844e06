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

from graphbench import registry
from graphbench.config import load_config
from graphbench.contract import HasStatistics, capture_obstacle
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
from graphbench.train.forward_hooks import ForwardObserver, ask_statistics, averaged
from tests.contract import example_batch
from tests.layers.test_contract import NAMESPACES, components, make
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
        patch.setattr(torch, "rand_like", lambda x: torch.rand(x.shape, dtype=x.dtype))
        patch.setattr(Tensor, "exponential_", exponential_)
        yield


def step(model: nn.Module, task: Task, batch: GraphBatch, real: RealRows | None) -> dict[str, Tensor]:
    """Loss, gradients and buffers of one step, by name."""
    model = copy.deepcopy(model)
    with _draws_of_the_first_rows():
        prediction, auxiliary = BatchAdapter(model, torch.float64)(OpaqueBatch(batch))
    assert batch.y is not None
    loss = task.loss(prediction, batch.y, real)
    (loss if auxiliary is None else loss + auxiliary).backward()
    result = {"loss": loss.detach()}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            result[f"gradient of {name}"] = parameter.grad
    return result | {f"buffer {name}": buffer for name, buffer in model.named_buffers()}


def padded_and_plain(store: GraphStore, graphs: list[int]) -> tuple[BatchAssembler, GraphBatch, GraphBatch]:
    """The same graphs with and without padding; two places of the padded batch stay empty."""
    assembler = BatchAssembler(store)
    larger = [int(store.sizes.argmax())] * len(graphs)
    counts = [assembler.counts(np.asarray(chosen)) for chosen in (graphs, larger)]
    (capacity,) = capacity_classes(counts, 1, assembler.max_size)
    capacity = dataclasses.replace(capacity, graphs=len(graphs) + 2)
    padded = assembler.assemble(torch.tensor([*graphs, -1, -1]), capacity)
    return assembler, padded, store.gather(graphs)


def assert_neutral(
    model: nn.Module, task: Task, store: GraphStore, graphs: list[int], tolerance: float = TOLERANCE
) -> None:
    """Compares the step on graphs of a store with and without padding, and the evaluation of it."""
    assembler, padded, plain = padded_and_plain(store, graphs)
    ours, expected = step(model, task, padded, assembler.real_targets(padded)), step(model, task, plain, None)
    assert_equal_steps(ours, expected, tolerance)
    model.eval()
    ours, expected = evaluation(model, padded), evaluation(model, plain)
    ours = {name: values[: len(expected[name])] for name, values in ours.items()}
    assert_equal_steps(ours, expected, tolerance)


def evaluation(model: nn.Module, batch: GraphBatch) -> dict[str, Tensor]:
    """Predictions and statistics about graphs, by name."""
    observer = ForwardObserver(model, HasStatistics, ask_statistics)
    with torch.no_grad(), observer() as answers:
        prediction, _ = BatchAdapter(model, torch.float64)(OpaqueBatch(batch))
    return {"prediction": prediction} | averaged(answers.values())


def assert_equal_steps(ours: dict[str, Tensor], plain: dict[str, Tensor], tolerance: float = TOLERANCE) -> None:
    """Compares what :func:`step` or :func:`evaluation` returns; NaN is equal to NaN."""
    assert ours.keys() == plain.keys()
    gradients = [float(value.abs().max()) for name, value in plain.items() if name.startswith("gradient")]
    for name, expected in plain.items():
        assert torch.equal(ours[name].isnan(), expected.isnan()), name
        value, expected = ours[name].nan_to_num(), expected.nan_to_num()
        scale = max(1.0, *gradients) if name.startswith("gradient") else max(1.0, float(expected.abs().max()))
        error = float((value - expected).abs().max()) / scale if expected.numel() else 0.0
        assert error <= tolerance, f"{name}: {error:.1e}"


def _cases() -> list[object]:
    """Polynormer is one of the widest and deepest."""
    wide = [case for case in _one_per_method() if "polynormer" in case.values[0].stem]
    slow = [pytest.param(*case.values, id=case.id, marks=(*case.marks, pytest.mark.slow)) for case in wide]
    return [case for case in _one_per_method() if "polynormer" not in case.values[0].stem] + slow


@pytest.mark.parametrize("path", _cases())
def test_every_method(path: Path, tmp_path: Path) -> None:
    config = load_config(path, ONE_LAYER)
    info = dataclasses.replace(declared_info(config), max_nodes=max(SIZES))
    model, task = build_model(config, info).double().train(), build_task(config, info)
    obstacle = capture_obstacle(model) or task.capture_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    _without_dropout(model)
    store = store_like(info, build_transforms(config), tmp_path, SIZES)
    assert why_not(store) is None
    # All nodes of ppa are alike: two BatchNorms divide what is rounding by the root of their epsilon, 1e-5.
    assert_neutral(model, task, store, [2, 0, 3], 1e5 * TOLERANCE if "ppa" in path.stem else TOLERANCE)


def _layers() -> list[object]:
    names = [(namespace, name) for namespace in NAMESPACES for name in components(namespace)]
    return [
        pytest.param(namespace, name, id=f"{namespace.split('/')[1]}-{name}")
        for namespace, name in names
        if registry.lookup(namespace, name).capturable
    ]


@pytest.mark.parametrize(("namespace", "name"), _layers())
def test_every_layer(namespace: str, name: str) -> None:
    """In training, with states of nodes and edges that are its input."""
    example = example_batch(SIZES)
    assert example.pairs is not None
    counts = torch.bincount(example.ragged.graph_id[example.edge_index[0]], minlength=len(SIZES)).tolist()
    index = example.edge_index - example.ragged.ptr[example.ragged.graph_id[example.edge_index[0]]]
    store = GraphStore.from_arrays(SIZES, counts, index, x=example.x, edge_attr=example.edge_attr)
    store = store.replace(pairs=example.pairs.distance, y=torch.zeros(len(SIZES)))
    layer = make(namespace, name).train()
    _, padded, plain = padded_and_plain(store, [2, 0, 3])

    def outcome(batch: GraphBatch) -> dict[str, Tensor]:
        module = copy.deepcopy(layer)
        with _draws_of_the_first_rows():
            h, e, _ = module.step(batch.x, batch.edge_attr, batch)
        rows, edges = plain.num_nodes, plain.num_edges
        loss = h[:rows].cos().sum() + (0.0 if e is None else e[:edges].cos().sum())
        loss.backward()
        result = {"loss": loss.detach(), "gradient of nothing": torch.zeros(1)}
        for parameter_name, parameter in module.named_parameters():
            if parameter.grad is not None:
                result[f"gradient of {parameter_name}"] = parameter.grad
        return result | {f"buffer {key}": buffer for key, buffer in module.named_buffers()}

    assert_equal_steps(outcome(padded), outcome(plain))


LOSSES = [
    ("cross_entropy", "classification_binary", 1),
    ("cross_entropy", "classification_multi", 4),
    ("cross_entropy", "classification_multilabel", 3),
    ("cross_entropy", "subtoken_prediction", 5),
    ("weighted_cross_entropy", "classification_binary", 1),
    ("weighted_cross_entropy", "classification_multi", 4),
    ("mse", "regression", 2),
    ("l1", "regression", 2),
    ("smoothl1", "regression", 2),
]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("name", "task_type", "columns"), LOSSES)
def test_every_loss(name: str, task_type: str, columns: int, reduction: str) -> None:
    rows, real_rows = 9, 6
    context = {"task_type": task_type, "out_dim": columns, "size_average": reduction}
    loss = registry.construct(registry.lookup("tasks/losses", name), context)
    shape = (rows, 2, columns) if task_type == "subtoken_prediction" else (rows, columns)
    pred = torch.randn(shape, dtype=torch.float64)
    if task_type == "regression":
        true = torch.randn(rows, columns, dtype=torch.float64)
    elif task_type == "classification_multilabel":
        true = torch.randint(2, (rows, columns)).double()
        true[0, 0] = torch.nan
    elif task_type == "subtoken_prediction":
        true = torch.randint(columns, (rows, 3))
    else:
        true = torch.randint(max(columns, 2), (rows,))
    ours, plain = pred.clone().requires_grad_(), pred[:real_rows].clone().requires_grad_()
    value = loss(ours, true, RealRows.first(torch.tensor(real_rows), rows))
    expected = loss(plain, true[:real_rows])
    value.backward()
    expected.backward()
    torch.testing.assert_close(value, expected, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(ours.grad[:real_rows], plain.grad, rtol=1e-13, atol=1e-13)
    assert not ours.grad[real_rows:].any()
