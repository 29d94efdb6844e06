"""Launches, copies and waits of one step as a GPU would see them, counted without a GPU.

The second device of tests/second_device.py sends the code the way of a GPU; Triton kernels are counted in place of
being run, and every operation of torch counts as the kernels that it launches on CUDA. Values are thereby
meaningless: code whose control flow depends on them cannot be counted, and may not be there.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphbench.config import Config, load_config
from graphbench.contract import HasStatistics
from graphbench.data.loading.padded import PaddedBatches, numbers_of
from graphbench.data.store import GraphStore
from graphbench.factory.data import declared_info
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.training import build_optimizer
from graphbench.factory.transforms import build_transforms
from graphbench.structures import DataInfo
from graphbench.structures.dropout_seeds import seeds_drawn_together
from graphbench.train.fabric import Fabric
from graphbench.train.forward_hooks import ForwardObserver, ask_statistics, averaged
from graphbench.train.gradient_clipping import clipped_gradients
from graphbench.train.precision import Precision
from graphbench.train.recording import BatchInput
from graphbench.train.tally import Place, StepOutput, Tally
from tests.paths import ROOT
from tests.second_device import DEVICE, observed, second_device, triton_stubbed
from tests.synthetic_batch import store_like

BUDGETS = ROOT / "tests" / "launch_budgets.json"
# (smallest, mean, largest number of nodes; nodes per ring) of the molecules of a data set, from its card's source.
MOLECULES = {"peptides": (8, 150, 444, 50), "zinc": (9, 23, 37, 10)}
CONFIGURATIONS = {
    "lrgb/gps-peptides-func": "peptides",
    "lrgb/sfi-peptides-func": "peptides",
    "gnnbench/gps-zinc": "zinc",
    "gnnbench/geco-zinc": "zinc",
    "gnnbench/gradformer-zinc": "zinc",
}

# Rows from which CUDA sorts 64-bit keys in eight passes, and from which it sorts the gradient of an embedding.
_LONG_SORT, _SORTED_EMBEDDING = 4096, 3072
# Tensors that one kernel of a foreach operation, of a fused optimiser and of a concatenation takes
# (aten/src/ATen/native/cuda/MultiTensorApply.cuh and Shape.cu). Adam's operation is given five lists of tensors.
_PER_FOREACH, _PER_FUSED, _PER_CAT, _LISTS_OF_ADAM = 110, 36, 128, 5
_NOTHING = {
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "set_", "resize_", "alias"),
    *("view", "_unsafe_view", "_reshape_alias", "t", "transpose", "permute", "select", "slice", "narrow", "expand"),
    *("unsqueeze", "squeeze", "split", "split_with_sizes", "unbind", "chunk", "as_strided", "diagonal", "unfold"),
    *("view_as_real", "view_as_complex", "real", "detach_", "lift_fresh", "_local_scalar_dense", "is_same_size"),
}
_SEVERAL = {
    "cumsum": 2,
    # Sums, running statistics and scales, rows; backward sums and rows (aten/src/ATen/native/cuda/Normalization.cu).
    "native_batch_norm": 3,
    "native_batch_norm_backward": 2,
    "native_layer_norm_backward": 2,
    "binary_cross_entropy_with_logits": 4,
    "repeat_interleave": 3,
    "_fft_r2c": 2,
    "_fft_c2r": 2,
    "randperm": 12,
    "nonzero": 3,
}


def kernels(name: str, tensors: list[Tensor]) -> int:
    """CUDA kernels of an operation of torch 2.13, one for most."""
    if name in _NOTHING:
        return 0
    if name in ("sort", "argsort"):
        return 14 if tensors[0].numel() > _LONG_SORT else 2
    if name == "embedding_dense_backward":
        return 15 if tensors[1].numel() > _SORTED_EMBEDDING else 2
    if name.startswith("_fused_adam"):
        return -(-(len(tensors) // _LISTS_OF_ADAM) // _PER_FUSED)
    if name in ("cat", "stack"):
        return -(-len(tensors) // _PER_CAT)
    if name.startswith("_foreach_"):
        return -(-len(tensors) // _PER_FOREACH)
    return _SEVERAL.get(name, 1)


class Ledger:
    """Counts by phase.

    Args:
        waits: where the host waited, as the second device notes it.

    Attributes:
        enabled: whether phases are counted.
        launches: phase -> kernel -> times.
        copies: phase -> copies to the device.
        waits: phase -> where the host waited.
    """

    def __init__(self, waits: list[str]) -> None:
        self.enabled = True
        self.launches: dict[str, Counter[str]] = {}
        self.copies: Counter[str] = Counter()
        self.waits: dict[str, list[str]] = {}
        self._noted = waits
        self._phase: str | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Inside, operations are counted under this name."""
        if self.enabled:
            self._phase = name
            self.launches.setdefault(name, Counter())
        start = len(self._noted)
        yield
        if self.enabled:
            self.waits.setdefault(name, []).extend(self._noted[start:])
        self._phase = None

    def totals(self) -> dict[str, list[int]]:
        """phase -> [launches, copies to the device, waits]."""
        return {
            phase: [names.total(), self.copies[phase], len(self.waits[phase])] for phase, names in self.launches.items()
        }

    def note(self, name: str, tensors: list[Tensor], result: Any) -> None:
        """One operation of torch."""
        if self._phase is None or name == "to_host":
            return
        if name == "to_device":
            self.copies[self._phase] += 1
        else:
            self._add(name, kernels(name, tensors))

    def launch(self, kernel: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """One Triton kernel."""
        self._add(f"triton {kernel.fn.__module__.removeprefix('graphbench.ops.')}.{kernel.fn.__name__}", 1)

    def _add(self, name: str, number: int) -> None:
        if self._phase is not None and number:
            self.launches[self._phase][name] += number


@contextmanager
def counting() -> Iterator[Ledger]:
    """The second device taken for a GPU, with a ledger of what it is asked to do."""
    with second_device() as waits:
        ledger = Ledger(waits)
        with triton_stubbed(ledger.launch), observed(ledger.note):
            yield ledger


def sizes_like(molecules: str, count: int) -> list[int]:
    """Numbers of nodes as a data set has them: a fixed sample."""
    smallest, mean, largest, _ = MOLECULES[molecules]
    spread = math.log(largest / mean) / 2
    drawn = mean * torch.exp(spread * torch.randn(count, generator=torch.Generator().manual_seed(0)))
    return [int(n) for n in drawn.round().clamp(smallest, largest)]


def data_like(molecules: str, config: Config, cache_dir: Path, count: int) -> tuple[DataInfo, GraphStore]:
    """So many graphs as large as those of a data set, with the encodings of a configuration in a cache."""
    sizes = sizes_like(molecules, count)
    info = dataclasses.replace(declared_info(config), max_nodes=max(sizes))
    return info, store_like(info, build_transforms(config), cache_dir, sizes, MOLECULES[molecules][3])


def count(name: str, cache_dir: Path) -> Ledger:
    """Launches, copies and waits of every phase of the second training step and the second evaluation batch.

    Args:
        name: of a configuration, relative to configs/.
        cache_dir: of the transforms.

    Returns:
        Phases ``assembly``, ``forward``, ``loss``, ``tally``, ``backward``, ``clip`` and ``optimizer`` of the step
        that is captured on a GPU, on a padded batch; ``eager``: gathering, forward, loss and backward pass of the
        same graphs where a step is not captured; and ``evaluation``: another gather and a forward pass with the
        statistics of its layers.
    """
    torch.manual_seed(0)
    config = load_config(ROOT / "configs" / f"{name}.yaml", [])
    size = config.tree.train.batch_size
    info, store = data_like(CONFIGURATIONS[name], config, cache_dir, size)
    model, task = build_model(config, info), build_task(config, info)
    shuffled = torch.randperm(size, generator=torch.Generator().manual_seed(1))
    with counting() as ledger:
        model, resident = model.to(DEVICE).train(), store.to(DEVICE)
        optimizer = build_optimizer(config, model)
        padded = PaddedBatches(resident)
        fabric = Fabric(DEVICE, Precision("32-true", DEVICE))
        plan = padded.plan(shuffled.numpy(), padded.classes([shuffled.numpy()]))
        content = BatchInput.content(numbers_of(plan), Place(0, 0, 0))
        read = BatchInput(numbers_of(plan), Place(0, 0, 0), DEVICE)
        assert plan.capacity is not None
        tally = Tally(1, plan.capacity.num_graphs)
        for counted in (False, True):  # what depends on the capacity is copied once
            ledger.enabled = counted
            with ledger.phase("assembly"):
                read.set(content)
                batch = padded.assemble(plan.capacity, read.numbers)
            with ledger.phase("forward"), seeds_drawn_together():
                prediction = model(batch.batch)
            with ledger.phase("loss"):
                loss = task.loss(prediction, batch.batch.y, batch.real)
                kept = task.keep(prediction)
            with ledger.phase("tally"):
                tally.write(read.place, StepOutput(loss, kept, batch.batch.y))
            with ledger.phase("backward"):
                fabric.backward(loss)
            with ExitStack() as clipped:
                with ledger.phase("clip"):
                    if config.tree.optim.clip_grad_norm:
                        clipped.enter_context(clipped_gradients(optimizer, config.tree.optim.clip_grad_norm_value))
                with ledger.phase("optimizer"):
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
        with ledger.phase("eager"), seeds_drawn_together():
            gathered = resident.gather(shuffled)
            assert gathered.y is not None
            fabric.backward(task.loss(model(gathered), gathered.y))
        model.eval()
        observer = ForwardObserver(model, HasStatistics, ask_statistics)
        with torch.no_grad(), ledger.phase("evaluation"), observer() as answers:
            model(resident.gather(shuffled))
            averaged(answers.values())
    return ledger
