"""A training by the framework's own loop, run again and again from the same weights."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import torch

from graphbench.benchmarks.measuring import seconds_of
from graphbench.config import load_config
from graphbench.data.loading.loader import GraphLoaders
from graphbench.factory.parts import build_parts
from graphbench.factory.training import build_optimizer, build_schedule, build_settings
from graphbench.runs.identity import RunIdentity
from graphbench.runs.run_directory import RunDirectory
from graphbench.train.reporter import Reporter
from graphbench.train.seeding import seed_everything
from graphbench.train.trainer import Trainer


class Training:
    """One configuration, read and built; every run of its loop starts from the same weights.

    Args:
        folder: folder for what a run leaves behind.
        command: configuration and overrides.
        epochs: epochs of a run.
        device: device that it runs on.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        epochs: int,
        device: torch.device,
    ) -> None:
        settings = ["optim.max_epoch", str(epochs), "train.early_stop_patience", "0", "accelerator", device.type]
        self.config = load_config(Path(command[0]), [*command[1:], *settings])
        parts = build_parts(self.config)
        assert isinstance(parts.loaders, GraphLoaders)
        self.store, self.splits, self.info = parts.loaded.store, parts.splits, parts.info
        self.loaders, self.model, self.task = parts.loaders, parts.model, parts.task
        self.fabric, self._folder, self._runs = parts.fabric, folder, 0
        self.epochs, self.device = epochs, device

    def run(self, reporters: Sequence[Reporter] = ()) -> None:
        """All epochs, with records and checkpoints."""
        trained = copy.deepcopy(self.model)
        optimizer = build_optimizer(self.config, trained)
        self._runs += 1
        directory = RunDirectory(self._folder, f"{id(self)}", self._runs)
        trainer = Trainer(
            self.fabric,
            trained,
            self.task,
            self.loaders,
            optimizer,
            build_schedule(self.config, optimizer),
            build_settings(self.config, self.info),
            run=directory,
            reporters=reporters,
        )
        with directory.open(identity=RunIdentity("0"), config_text=""):
            seed_everything(0)
            trainer.run()

    def seconds(self, runs: int) -> list[float]:
        """Per epoch, of every run."""
        return [seconds_of(self.run, self.device) / self.epochs for _ in range(runs)]
