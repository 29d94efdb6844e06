"""Every configuration on a device that is not the host: no tensor left behind, the same numbers, and no waiting."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from graphbench import experiment
from graphbench.config import load_config
from graphbench.factory import training
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.training import build_optimizer
from graphbench.factory.transforms import build_transforms
from graphbench.layers.attention import nodeformer
from graphbench.layers.attention.nodeformer import NodeFormer
from graphbench.ops import eigen_pairs
from graphbench.ops.backend import Backends
from graphbench.structures import GraphBatch, Ragged
from graphbench.tasks.task import Task
from graphbench.train.fabric import Fabric
from graphbench.train.precision import Precision
from tests.contract import tensors_of
from tests.second_device import DEVICE, GPU, Elsewhere, second_device, triton_stubbed
from tests.synthetic_batch import SIZES, batch_like, store_like
from tests.test_configs import CONFIGS, ROOT, one_layer


def _one_per_method() -> list[object]:
    """The first file of every method, in the long part the first one in every further folder."""
    seen: set[tuple[Path, str]] = set()
    methods: set[str] = set()
    cases = []
    for path in CONFIGS:
        method = path.stem.partition("-")[0]
        marks = pytest.mark.slow if method in methods else ()
        marks = pytest.mark.exhaustive if (path.parent, method) in seen else marks
        seen.add((path.parent, method))
        methods.add(method)
        cases.append(pytest.param(path, id=str(path.relative_to(ROOT / "configs")), marks=marks))
    return cases


class _OnTheHost(TorchDispatchMode):
    """Draws for the device are made by the host, from its generator; signs of QR differ between devices as well."""

    _NAMES = ("rand", "randn", "randint", "randperm", "exponential", "uniform", "normal", "bernoulli", "linalg_qr")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        given = tree_flatten((args, kwargs))[0]
        devices = [each.device if isinstance(each, Tensor) else each for each in given]
        there = any(isinstance(each, torch.device) and each.type == DEVICE.type for each in devices)
        if not there or name.removesuffix("_").removesuffix("_like") not in self._NAMES:
            return func(*args, **kwargs)
        here = func(*tree_map(self._at("cpu"), args), **tree_map(self._at("cpu"), kwargs))
        return args[0].copy_(here) if name.endswith("_") else tree_map(self._at(DEVICE), here)

    @staticmethod
    def _at(device: torch.device | str) -> Any:
        """What moves tensors and names of devices there."""

        def moved(each: Any) -> Any:
            if isinstance(each, torch.device):
                return torch.device(device)
            return each.to(device) if isinstance(each, Tensor) else each

        return moved


@contextmanager
def _drawn_on_the_host() -> Iterator[None]:
    """Devices draw different numbers: random signs, orders and noise of the other one come from the host here.

    Signs of eigenvectors are drawn inside a kernel on a GPU, whose place torch code takes. A seed made of the digits of
    a sum is another one where it is summed in another order.
    """
    signs = mock.patch.object(eigen_pairs, "_PAIRS", Backends(None, eigen_pairs.cpu.eigen_pairs))
    with signs, mock.patch.object(nodeformer, "released_seed", return_value=nodeformer.OVERFLOW), _OnTheHost():
        yield


def _step(model: nn.Module, task: Task, batch: GraphBatch) -> Tensor:
    model.zero_grad(set_to_none=True)
    torch.manual_seed(1)
    loss = task.loss(model(batch), batch.y)
    loss.backward()
    return loss.detach()


def _without_dropout(model: nn.Module) -> None:
    """Devices draw different masks."""
    for module in model.modules():
        for name in ("p", "dropout", "attn_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("path", _one_per_method())
def test_a_training_step(path: Path, tmp_path: Path) -> None:
    config, one_graph = one_layer(path)
    info = dataclasses.replace(declared_info(config), max_nodes=max(SIZES))
    model, task = build_model(config, info).train(), build_task(config, info)
    batch = batch_like(info, build_transforms(config), tmp_path)
    if one_graph:
        batch = batch.replace(ragged=Ragged.from_sizes([batch.num_nodes]))
    with second_device() as waits:
        there, batch_there = copy.deepcopy(model).to(DEVICE), batch.to(DEVICE)
        optimizer = build_optimizer(config, there)
        with triton_stubbed():
            _step(there, task, batch_there)
            optimizer.step()
            waits.clear()  # what is derived from a batch is derived once
            _step(there, task, batch_there)
            optimizer.step()
            # A generator can be seeded by the host only, which has to read the value: once in every such layer.
            seeding = [each for each in there.modules() if isinstance(each, NodeFormer) and each.noise == "released"]
            assert len(waits) == len(seeding)
            assert all("layers/attention/nodeformer.py" in each for each in waits)

        # What stubbed kernels have derived from the other batch, such as propagated features, has no values.
        there, batch_there = copy.deepcopy(model).to(DEVICE), batch.to(DEVICE)
        _without_dropout(there)
        with _drawn_on_the_host():
            loss_there = _step(there, task, batch_there)
    _without_dropout(model)
    with _drawn_on_the_host():
        loss = _step(model, task, batch)
    torch.testing.assert_close(loss_there.cpu(), loss, rtol=1e-4, atol=1e-5)
    largest = max(each.grad.abs().max() for each in model.parameters() if each.grad is not None)
    for (name, here), other in zip(model.named_parameters(), there.parameters(), strict=True):
        assert (here.grad is None) == (other.grad is None), name
        if here.grad is not None:
            error = (other.grad.cpu() - here.grad).abs().max() / largest
            assert error < 1e-3, f"gradient of {name}: {error:.1e} of the largest"


def _fabric(config: object, precision: Precision | None = None) -> Fabric:
    return Fabric(DEVICE, precision or Precision("32-true", DEVICE))


SMALL = "dataset.SBM.train_graphs 16 dataset.SBM.val_graphs 4 dataset.SBM.test_graphs 4"
GRAPH = "dataset.ErdosRenyi.nodes 400 dataset.ErdosRenyi.features 8 train.batch_size 100 train.eval_period 1"
RUNS = {
    "quickstart-gps": f"optim.max_epoch 2 gnn.dropout 0 gt.dropout 0 gt.attn_dropout 0 {SMALL}",
    "synthetic/sgformer-erdos-renyi": f"optim.max_epoch 2 {GRAPH}",
}


@pytest.mark.parametrize("name", RUNS)
def test_a_whole_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches, epochs, evaluation, checkpoint and record; between evaluations only the loop itself waits, once."""
    path = ROOT / "configs" / f"{name}.yaml"
    here, there = (
        load_config(path, [*RUNS[name].split(), "out_dir", str(tmp_path / each), "accelerator", each])
        for each in ("cpu", "auto")
    )
    expected = experiment.run(here)
    if not GPU:
        monkeypatch.setattr(training, "build_fabric", _fabric)
    with second_device() as waits:
        result = experiment.run(there)
    assert expected is not None
    assert result is not None
    for split in ("val", "test"):
        assert result[split] == pytest.approx(expected[split], rel=1e-3, abs=1e-4)
    epochs = 2
    # Once for every capacity; where there is no GPU, for batches, which no memory is pinned for.
    expected_waits = ("tasks/", "train/", "ops/batch_rows/gpu.py", "to_device structures/")
    assert not [each for each in waits if not any(place in each for place in expected_waits)]
    assert sum("train/tally.py" in each for each in waits) <= 4 * epochs + 3  # a total per split and epoch


@pytest.mark.parametrize("name", ["gradformer-zinc", "gps-zinc"])
def test_batches_are_gathered_there(name: str, tmp_path: Path) -> None:
    """As where a GPU holds the whole data set (``train.resident``)."""
    config = load_config(ROOT / f"configs/gnnbench/{name}.yaml", [])
    store = store_like(declared_info(config), build_transforms(config), tmp_path, [*SIZES, *SIZES[::-1]])
    graphs = torch.tensor([3, 1, 7, 2])
    expected = store.gather(graphs)
    with second_device() as waits:
        resident = store.to(DEVICE)
        waits.clear()
        found = resident.gather(graphs)
        assert not waits
        adjacency = found.adjacency()
        assert not waits
        lists = [
            x.cpu() for each in (adjacency.by_target, adjacency.by_source) for x in (each.ptr, each.entry, each.other)
        ]
        found = found.to("cpu")
    assert found.edge_order is not None
    found = dataclasses.replace(found, edge_order=None)
    torch.testing.assert_close(dict(tensors_of(found)), dict(tensors_of(expected)), rtol=0, atol=0)
    sorted_there, sorted_here = iter(lists), expected.adjacency()
    for each in (sorted_here.by_target, sorted_here.by_source):
        for x in (each.ptr, each.entry, each.other):
            assert torch.equal(next(sorted_there), x)


def test_the_device_is_strict() -> None:
    with second_device() as waits:
        x = torch.arange(3.0).to(DEVICE)
        waits.clear()
        with pytest.raises(RuntimeError, match=r"two devices|same device"):
            x + torch.ones(3)
        assert (x + 1).is_cuda if GPU else isinstance(x + 1, Elsewhere)
        assert torch.ones(3).to(DEVICE, non_blocking=True).device == x.new_full((), 2.0).device == DEVICE
        assert not waits
        for wait in (
            lambda: float(x.sum()),
            lambda: x.nonzero(),
            lambda: x[x > 1],
            lambda: x.cpu(),
            lambda: x.tolist(),
            lambda: torch.ones(3).to(DEVICE),
            lambda: x.copy_(torch.ones(3)),
            lambda: x.new_tensor(2.0),
        ):
            waits.clear()
            wait()
            assert len(waits) == 1
