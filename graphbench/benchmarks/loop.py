"""An epoch of the framework's loop (step, evaluation, records, progress bar) against the same epoch written by hand."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import torch

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import ROOT, device_name, now
from graphbench.config import load_config
from graphbench.data.loading.loader import GraphLoaders
from graphbench.factory.data import build_splits, encode, read_data
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.training import build_fabric, build_optimizer, build_reporters, build_schedule, build_settings
from graphbench.runs.identity import RunIdentity
from graphbench.runs.run_directory import RunDirectory
from graphbench.train.seeding import seed_everything
from graphbench.train.trainer import Trainer

EPOCHS = 250
PAIRS = 7
CONFIG = ROOT / "configs/nodes/sgformer-cora-4layers.yaml"


def run(device: torch.device) -> list[Case]:
    """Cora with SGFormer, evaluated after every epoch; real data from dataset.dir or $GRAPHBENCH_DATA."""
    config = load_config(
        CONFIG, ["optim.max_epoch", str(EPOCHS), "train.early_stop_patience", "0", "accelerator", device.type]
    )
    loaded = encode(config, read_data(config))
    splits = build_splits(config, loaded, 0)
    info = loaded.card.info(loaded.store)
    seed_everything(0)
    model = build_model(config, info).to(device)
    loaders = GraphLoaders(loaded.store, splits, batch_size=1, transductive=True, seed=0, device=device)

    def ours(folder: Path) -> float:
        trained = copy.deepcopy(model)
        optimizer = build_optimizer(config, trained)
        fabric = build_fabric(config)
        fabric.launch()
        directory = RunDirectory(folder, "bench", 0)
        trainer = Trainer(
            fabric,
            trained,
            build_task(config, info),
            loaders,
            optimizer,
            build_schedule(config, optimizer),
            build_settings(config, info),
            run=directory,
            reporters=build_reporters(config, "ours", info, "0"),
        )
        with directory.open(identity=RunIdentity("0"), config_text=""):
            seed_everything(0)
            start = now(device)
            trainer.run()
            return (now(device) - start) / EPOCHS

    def by_hand() -> float:
        trained = copy.deepcopy(model)
        optimizer = build_optimizer(config, trained)
        batch, parts = loaders.full_batch, {name: rows.to(device) for name, rows in splits.parts().items()}
        best, best_state = -1.0, None
        seed_everything(0)
        assert batch.y is not None
        start = now(device)
        for _ in range(EPOCHS):
            trained.train()
            optimizer.zero_grad()
            out = trained(batch)
            loss = torch.nn.functional.cross_entropy(out[parts["train"]], batch.y[parts["train"]])
            loss.backward()
            optimizer.step()
            trained.eval()
            with torch.no_grad():
                predicted = trained(batch).argmax(1)
                accuracy = {
                    name: (predicted[rows] == batch.y[rows]).float().mean().item() for name, rows in parts.items()
                }
            if accuracy["val"] > best:
                best, best_state = accuracy["val"], copy.deepcopy(trained.state_dict())
        assert best_state is not None
        return (now(device) - start) / EPOCHS

    by_hand()  # warm-up: derived index algebra, thread pools, allocator
    pairs: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        ours(Path(folder) / "warm-up")
        for pair in range(PAIRS):  # the order alternates, so that drift of the machine cancels
            if pair % 2:
                peer = by_hand()
                pairs.append((ours(Path(folder) / str(pair)), peer))
            else:
                mine = ours(Path(folder) / str(pair))
                pairs.append((mine, by_hand()))
    name = f"Cora SGFormer, epoch with evaluation, {device_name(device)}"
    return [Case(name, "by hand", [p[0] for p in pairs], [p[1] for p in pairs], target=1 / 1.05)]
