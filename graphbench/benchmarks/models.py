"""Training, inference and memory of several configurations, in one run: what papers print as times.

Not a benchmark by itself: ``sgformer_table4`` and ``gradformer_figure7`` say which models on which data.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import ROOT, device_name, paired, peaks
from graphbench.config import Config, load_config
from graphbench.contract import HasAuxiliaryLoss, take_auxiliary_loss
from graphbench.data.builder import LoadedDataset
from graphbench.factory.data import read_data
from graphbench.factory.parts import build_parts
from graphbench.structures import GraphBatch

PAIRS = 5
MEMORY_PAIRS = 1


@dataclass(frozen=True)
class Side:
    """A model to measure.

    Attributes:
        label: label as printed in the paper.
        command: configuration below ``configs`` and overrides, as on the command line.
    """

    label: str
    command: tuple[str, ...]


class Prepared:
    """One configuration with the batches of an epoch on a device.

    Args:
        side: model to measure.
        device: device that it runs on.
        epoch: all batches of the first epoch, and of an evaluation; False: the first training batch, for both.
        read: gives the data of the configuration, without encodings.
    """

    def __init__(
        self,
        side: Side,
        device: torch.device,
        epoch: bool = False,
        read: Callable[[Config], LoadedDataset] = read_data,
    ) -> None:
        file, *overrides = side.command
        self.config = config = load_config(Path(ROOT, "configs", file), [*overrides, "accelerator", device.type])
        parts = build_parts(config, read=read)
        loaders, transductive = parts.loaders, parts.loaded.card.transductive
        self.info, self.model, self._task, self._optimizer = parts.info, parts.model, parts.task, parts.optimizer
        self._training = list(islice(loaders.train(0), None if epoch else 1))
        evaluated = (batch for each in loaders.passes for batch, _ in each.batches()) if epoch else ()
        self._evaluation = list(evaluated) or [batch for batch, _ in self._training]
        # What layers derive from the graph of all steps is computed once, from batches that are drawn anew every time.
        self._drawn_anew = not transductive or config.tree.train.sampler not in ("full_batch", "seeds")
        self._auxiliary = [module for module in self.model.modules() if isinstance(module, HasAuxiliaryLoss)]

    @property
    def first(self) -> tuple[GraphBatch, Tensor | None]:
        """The first training batch, and the rows that are trained on."""
        batch, rows = self._training[0]
        assert isinstance(batch, GraphBatch)
        return batch, rows

    def train(self) -> None:
        """The training steps."""
        self.model.train()
        for batch, rows in self._training:
            self._step(self._as_drawn(batch), rows)

    def _step(self, batch: GraphBatch, rows: Tensor | None) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        prediction, target = self.model(batch), batch.y
        assert target is not None
        if rows is not None:
            prediction, target = prediction[rows], target[rows]
        loss: Tensor = self._task.loss(prediction, target)
        auxiliary = take_auxiliary_loss(self._auxiliary)
        (loss if auxiliary is None else loss + auxiliary).backward()
        if self.config.tree.optim.clip_grad_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.tree.optim.clip_grad_norm_value)
        self._optimizer.step()

    @torch.no_grad()
    def infer(self) -> None:
        """The forward passes."""
        self.model.eval()
        for batch in self._evaluation:
            assert isinstance(batch, GraphBatch)
            self.model(self._as_drawn(batch))

    def train_and_infer(self) -> None:
        """Both, as an epoch does."""
        self.train()
        self.infer()

    def _as_drawn(self, batch: GraphBatch) -> GraphBatch:
        return batch.replace() if self._drawn_anew else batch


def side_by_side(
    where: str, ours: Side, peers: Sequence[Side], device: torch.device, epoch: bool = False
) -> list[Case]:
    """Training, inference and peak memory of a training step of every peer beside ours.

    Args:
        where: the data, for the names of the cases.
        ours: the model that the paper presents.
        peers: the others.
        device: device that it runs on.
        epoch: a whole epoch, and a whole evaluation; False: a step and a forward pass.
    """
    cases = []
    for peer in peers:
        first, second = Prepared(ours, device, epoch), Prepared(peer, device, epoch)
        for what, mine, other in (
            ("training epoch" if epoch else "training step", first.train, second.train),
            ("inference", first.infer, second.infer),
        ):
            mine()  # warm-up
            other()
            name = f"{where}: {ours.label} beside {peer.label}, {what}, {device_name(device)}"
            cases.append(Case(name, peer.label, *paired(mine, other, PAIRS, device), target=1.0))
        del first, second
        gc.collect()
        memory = peaks(one_step, (_packed(ours), _packed(peer)), MEMORY_PAIRS, device)
        name = f"{where}: {ours.label} beside {peer.label}, peak memory of a training step, {device_name(device)}"
        cases.append(Case(name, peer.label, *memory, target=1.0, unit="MiB"))
    return cases


def _packed(side: Side) -> str:
    """A side as one argument of a command line."""
    return "\n".join((side.label, *side.command))


def one_step(packed: str, device: torch.device) -> Callable[[], None]:
    """The training step of a side, see :func:`~graphbench.benchmarks.measuring.peaks`."""
    label, *command = packed.split("\n")
    return Prepared(Side(label, tuple(command)), device).train


if __name__ == "__main__":
    from graphbench.benchmarks.measuring import CPU, peak

    print(peak(one_step(sys.argv[1], CPU), CPU))
