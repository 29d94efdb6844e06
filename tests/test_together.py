"""Seeds trained in turns (``--together``): each is what it would be alone, bit for bit on a CPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.commands.train import main
from graphbench.config import load_config
from graphbench.errors import Interrupted, RunFailed, UserError
from graphbench.experiment import run
from graphbench.tasks.task import Task
from graphbench.train.checkpointer import read_checkpoint
from graphbench.train.reporter import Reporter, StartReport
from tests.own_graphs import write_rings
from tests.paths import ROOT
from tests.train.test_checkpointer import Killed

SEEDS = 3
GRAPHS = (
    "gt.dropout 0.4 gnn.dropout 0.4 gnn.batchnorm true optim.max_epoch 12 train.early_stop_patience 3 "
    "train.batch_size 3 optim.optimizer adamW optim.base_lr 0.03"
).split()
OF_THE_PROCESS = ("time_epoch", "time_iter", "eta", "eta_hours")


def write_ring_of_nodes(folder: Path) -> Path:
    """One graph whose nodes are the examples, trained on as a whole."""
    path = write_rings(folder)
    generator = torch.Generator().manual_seed(2)
    node = torch.arange(60)
    edge_index = torch.stack([torch.cat([node, (node + 1) % 60]), torch.cat([(node + 1) % 60, node])])
    y = torch.randint(3, (60,), generator=generator)
    x = torch.randn(60, 4, generator=generator) + torch.nn.functional.one_hot(y, 4)
    torch.save([{"x": x, "edge_index": edge_index, "y": y}], folder / "graphs.pt")
    order = torch.randperm(60, generator=generator).tolist()
    (folder / "split.json").write_text(json.dumps({"train": order[:30], "val": order[30:45], "test": order[45:]}))
    text = path.read_text().replace(
        "task: graph, task_type: classification_binary", "task: node, task_type: classification"
    )
    text = text.replace("transductive: false", "transductive: true").replace("head: graph", "head: node")
    path.write_text(text)
    return path


KINDS = {"graphs": write_rings, "nodes": write_ring_of_nodes}


def train(path: Path, out: Path, *, reporters: tuple[Reporter, ...] = (), **options: Any) -> dict[str, Any] | None:
    config = load_config(path, [*GRAPHS, "out_dir", str(out)])
    return run(config, repeat=SEEDS, reporters=reporters, **options)


def left_behind(out: Path, seed: int) -> dict[str, Any]:
    """Everything of a run that must not depend on what was trained beside it, but its tensors."""
    folder = out / "rings" / str(seed)
    record = json.loads((folder / "record.json").read_text())
    curves = {
        split: [
            {name: value for name, value in json.loads(line).items() if name not in OF_THE_PROCESS}
            for line in (folder / split / "stats.json").read_text().splitlines()
        ]
        for split in ("train", "val", "test")
    }
    kept = ("status", "reason", "scores", "best_epoch", "epochs", "params", "inputs", "config_hash", "seed", "data")
    return {"curves": curves, **{name: record[name] for name in kept}}


def tensors(content: Any, at: str = "") -> dict[str, Any]:
    """Everything in a checkpoint but its times, flat."""
    if isinstance(content, dict):
        parts = {f"{at}/{name}": value for name, value in content.items() if "seconds" not in str(name)}
    elif isinstance(content, (list, tuple)):
        parts = {f"{at}/{number}": value for number, value in enumerate(content)}
    else:
        return {at: content}
    return {name: value for part, each in parts.items() for name, value in tensors(each, part).items()}


def assert_same(one: Path, other: Path, seeds: range | list[int] = range(SEEDS)) -> None:
    for seed in seeds:
        assert left_behind(one, seed) == left_behind(other, seed)
        for name in ("last.ckpt", "best.ckpt"):
            a, b = (tensors(read_checkpoint(out / f"rings/{seed}/ckpt/{name}")) for out in (one, other))
            skipped = [place for place in a if "history" in place]  # curves, compared above
            assert a.keys() == b.keys()
            for place in a.keys() - set(skipped):
                same = torch.equal(a[place], b[place]) if isinstance(a[place], Tensor) else a[place] == b[place]
                assert same, (seed, name, place)


Alone = dict[str, tuple[Path, dict[str, Any] | None]]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Alone:
    """By kind the folder of the graphs, with what is trained one after the other in ``alone``, and the last line."""
    made: Alone = {}
    with pytest.MonkeyPatch.context() as patched:
        for kind, write in KINDS.items():
            folder = tmp_path_factory.mktemp(kind)
            patched.chdir(folder)
            made[kind] = folder, train(write(folder), folder / "alone")
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_together_is_one_after_the_other(
    kind: str, alone: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, line_alone = alone[kind]
    monkeypatch.chdir(folder)
    path = folder / "rings.yaml"
    state = torch.get_rng_state()
    line = train(path, tmp_path / "together", together=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert line is not None
    assert line_alone is not None
    assert line | {"run_dir": ""} == line_alone | {"run_dir": ""}
    assert_same(folder / "alone", tmp_path / "together")
    epochs = [left_behind(folder / "alone", seed)["epochs"] for seed in range(SEEDS)]
    assert len(set(epochs)) > 1, "seeds stop early at different times"
    for seed in range(SEEDS):
        log = (tmp_path / f"together/rings/{seed}/logging.log").read_text()
        assert f"rings {seed}: rings" in log
        assert "one of 3 together" in log
        assert len(log.splitlines()) == len((folder / f"alone/rings/{seed}/logging.log").read_text().splitlines())
    assert json.loads((tmp_path / "together/rings/1/record.json").read_text())["together"] == SEEDS


class At(Reporter):
    """Does something after a batch of one seed."""

    def __init__(self, act: Callable[[], None], seed: int = 1, epoch: int = 2, batch: int = 1) -> None:
        self.act, self.seed, self.place, self.count = act, str(seed), (epoch, batch), 0
        self.order: list[str] = []

    def start(self, report: StartReport) -> None:
        self.order.append(report.path.name)

    def batch(self, epoch: int, done: int, total: int) -> None:
        self.count += (epoch, done) == self.place  # of the seeds in turn
        if (epoch, done) == self.place and self.order[self.count - 1] == self.seed:
            self.act()


def killed() -> None:
    raise Killed


def terminated() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("kind", "act", "ends"), [("graphs", killed, Killed), ("nodes", terminated, Interrupted)])
def test_what_was_stopped_goes_on_beside_what_was_not_begun(
    kind: str,
    act: Callable[[], None],
    ends: type[BaseException],
    alone: Alone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One seed finished before, two stopped in the middle of an epoch or between two steps."""
    folder, _ = alone[kind]
    monkeypatch.chdir(folder)
    path = folder / "rings.yaml"
    train(path, tmp_path / "stopped", only=[0])
    with pytest.raises(ends):
        train(path, tmp_path / "stopped", only=[1, 2], together=True, reporters=(At(act),))
    statuses = [
        json.loads((tmp_path / f"stopped/rings/{seed}/record.json").read_text())["status"] for seed in (0, 1, 2)
    ]
    assert statuses[0] == "finished"
    assert "finished" not in statuses[1:]
    if ends is Interrupted:
        assert statuses[1:] == ["interrupted"] * 2
        assert all((tmp_path / f"stopped/rings/{seed}/ckpt/last.ckpt").is_file() for seed in (1, 2))
    train(path, tmp_path / "stopped", together=True)
    assert_same(folder / "alone", tmp_path / "stopped")


def test_a_seed_that_fails_leaves_the_others_alone(
    alone: Alone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = alone["graphs"]
    monkeypatch.chdir(folder)
    path = folder / "rings.yaml"
    loss, steps = Task.loss, []

    def broken(task: Task, pred: Tensor, *rest: Tensor) -> Tensor:
        seed = torch.initial_seed()  # of the training that has its turn
        steps.append(seed)
        if seed == 0 and pred.requires_grad and steps.count(0) > 5:
            raise MemoryError("for a test")
        return loss(task, pred, *rest) * (float("nan") if seed == 1 else 1.0)

    monkeypatch.setattr(Task, "loss", broken)
    arguments = [
        "--cfg",
        str(path),
        "--repeat",
        str(SEEDS),
        "--together",
        *GRAPHS,
        "out_dir",
        str(tmp_path / "together"),
    ]
    assert main(arguments) == RunFailed.exit_code
    told = capsys.readouterr().err
    assert "run failed: 2 trainings of those together:\n" in told
    assert "rings 0: epoch 1, batch 0: the memory of this machine is exhausted" in told
    assert "rings 1: epoch 0, batch 0: the training loss is nan" in told
    statuses = [
        json.loads((tmp_path / f"together/rings/{seed}/record.json").read_text())["status"] for seed in range(3)
    ]
    assert statuses == ["failed", "failed", "finished"]
    assert_same(folder / "alone", tmp_path / "together", [2])
    monkeypatch.setattr(Task, "loss", loss)
    assert main(arguments) == 0  # once the reason is gone, they go on
    assert_same(folder / "alone", tmp_path / "together")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["devices", "2"], r"command line: --together is for trainings in one process: devices is 2"),
        (["strategy", "ddp"], r"strategy ddp is for several processes"),
        (["profile", "3"], r"profiler watches one training at a time"),
        (["train.mode", "inference-only", "pretrained.dir", "runs"], r"train.mode inference-only applies a trained"),
    ],
)
def test_what_cannot_share_a_process_is_refused(overrides: list[str], message: str) -> None:
    config = load_config(ROOT / "configs/quickstart.yaml", overrides)
    with pytest.raises(UserError, match=message):
        run(config, repeat=2, together=True)


@pytest.mark.slow
def test_kill_9_then_the_same_command_ends_with_the_same_numbers(tmp_path: Path) -> None:
    path = write_rings(tmp_path)
    options = [*GRAPHS, "optim.max_epoch", "40", "train.early_stop_patience", "0", "train.ckpt_period", "1"]
    command = [sys.executable, str(ROOT / "main.py"), "--cfg", str(path), "--repeat", str(SEEDS), *options]
    quiet: dict[str, Any] = {
        "cwd": tmp_path,
        "env": {**os.environ, "OMP_NUM_THREADS": "1"},
        "stderr": subprocess.DEVNULL,
    }
    subprocess.run([*command, "out_dir", "alone"], check=True, stdout=subprocess.DEVNULL, **quiet)
    together = [*command, "--together", "out_dir", "killed"]
    process = subprocess.Popen(together, stdout=subprocess.DEVNULL, **quiet)
    curve = tmp_path / f"killed/rings/{SEEDS - 1}/train/stats.json"
    while not (curve.is_file() and len(curve.read_text().splitlines()) >= 3):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    subprocess.run(together, check=True, stdout=subprocess.DEVNULL, **quiet)
    assert "resuming at epoch" in (tmp_path / "killed/rings/0/logging.log").read_text()
    assert_same(tmp_path / "alone", tmp_path / "killed")
