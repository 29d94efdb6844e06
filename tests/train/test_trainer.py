"""What the trainer computes: which epochs, which forwards, which steps, which epoch is the best."""

from __future__ import annotations

import json
import math
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor, nn

from graphbench.errors import RunFailed, UserError
from graphbench.tasks.metric import Undefined
from graphbench.train.checkpointer import read_checkpoint
from graphbench.train.fabric import Fabric
from graphbench.train.precision import Precision
from graphbench.train.reporter import Reporter
from graphbench.train.step_runner import StepRunner
from tests.train.tiny_run import PenalisedModel, Slowly, TinyModel, tiny_loaders, tiny_settings, tiny_task, tiny_trainer


def lines(folder: Path, split: str) -> list[dict]:
    return [json.loads(line) for line in (folder / "tiny" / "0" / split / "stats.json").read_text().splitlines()]


class Recorder(Reporter):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.epochs = []

    def start(self, report) -> None:
        self.events.append("start")

    def epoch(self, report) -> None:
        self.events.append("epoch")
        self.epochs.append(report)

    def finish(self, outcome) -> None:
        self.events.append("finish")

    def close(self) -> None:
        self.events.append("close")


def test_it_learns_and_writes_what_graphgps_writes(tmp_path: Path) -> None:
    recorder = Recorder()
    outcome = tiny_trainer(tmp_path, tiny_settings(max_epoch=15), reporters=[recorder]).run()
    train = lines(tmp_path, "train")
    assert [line["epoch"] for line in train] == list(range(15))
    assert train[-1]["loss"] < 0.8 * train[0]["loss"]
    keys = "epoch time_epoch eta eta_hours loss lr params time_iter accuracy f1".split()
    assert list(train[0]) == keys
    assert set(lines(tmp_path, "test")[0]) == set(keys) - {"eta", "eta_hours"}
    assert outcome.reason == "max_epoch"
    assert outcome.epochs == 15
    assert outcome.params == sum(p.numel() for p in TinyModel().parameters())
    assert recorder.events == ["start", *["epoch"] * 15, "finish", "close"]


def test_the_best_epoch_is_the_first_with_the_best_validation_metric(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_settings(max_epoch=12, metrics_period=1))
    outcome = trainer.run()
    val = [line["accuracy"] for line in lines(tmp_path, "val")]
    assert outcome.best_epoch == val.index(max(val))
    for split in ("train", "val", "test"):
        line = lines(tmp_path, split)[outcome.best_epoch]
        scores = {score.name: score.value for score in outcome.scores if score.split == split}
        assert scores == {name: line[name] for name in ("loss", "accuracy", "f1")}
    assert {score.split: score.count for score in outcome.scores} == {"train": 18, "val": 9, "test": 9}
    assert {score.name: score.maximize for score in outcome.scores} == {"loss": False, "accuracy": True, "f1": True}

    saved = read_checkpoint(trainer._checkpointer.best)
    assert saved["epoch"] == outcome.best_epoch
    model = TinyModel()
    model.load_state_dict(saved["model"])
    model.eval()
    (test,) = [eval_pass for eval_pass in tiny_loaders().passes if "test" in eval_pass.rows]
    with torch.no_grad():
        right = sum((model(batch).argmax(1) == batch.y).sum().item() for batch, _ in test.batches())
    (accuracy,) = [s.value for s in outcome.scores if (s.split, s.name) == ("test", "accuracy")]
    assert right / 9 == pytest.approx(accuracy)


def test_a_metric_to_minimise(tmp_path: Path) -> None:
    outcome = tiny_trainer(tmp_path, tiny_settings(metric="loss", maximize=False)).run()
    val = [line["loss"] for line in lines(tmp_path, "val")]
    assert outcome.best_epoch == val.index(min(val))


def test_evaluation_period(tmp_path: Path) -> None:
    tiny_trainer(tmp_path, tiny_settings(max_epoch=9, eval_period=3)).run()
    assert [line["epoch"] for line in lines(tmp_path, "val")] == [0, 2, 5, 8]
    assert len(lines(tmp_path, "train")) == 9


def test_one_graph_is_passed_through_twice_per_epoch_not_four_times(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_settings(max_epoch=5), level="node")
    outcome = trainer.run()
    assert trainer.model.forwards == 10
    assert {score.split: score.count for score in outcome.scores} == {"train": 100, "val": 49, "test": 49}


def test_training_metrics_come_from_the_training_passes(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_settings(max_epoch=1, metrics_period=1))
    seen = []
    loss = trainer.task.loss
    trainer.task.loss = lambda pred, true: seen.append((pred.detach(), true)) or loss(pred, true)
    batches = trainer.loaders.num_train_batches
    trainer.run()
    right = sum((pred.argmax(1) == true).sum().item() for pred, true in seen[:batches])
    line = lines(tmp_path, "train")[0]
    assert line["accuracy"] == pytest.approx(right / 18)
    by_hand = sum(float(nn.functional.cross_entropy(p, t)) * len(p) for p, t in seen[:batches]) / 18
    assert line["loss"] == pytest.approx(by_hand, rel=1e-6)


def hand_written(
    level: str, epochs: int, accumulation: int, clip: float | None, kind: type[TinyModel] = TinyModel
) -> dict[str, torch.Tensor]:
    torch.manual_seed(5)
    model, loaders = kind(level=level), tiny_loaders(level)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, weight_decay=1e-3, momentum=0.9, fused=True)
    for epoch in range(epochs):
        model.train()
        waiting = 0
        total = loaders.num_train_batches
        for number, (batch, rows) in enumerate(loaders.train(epoch)):
            pred, true = model(batch), batch.y
            if rows is not None:
                pred, true = pred[rows], true[rows]
            loss = nn.functional.cross_entropy(pred, true)
            if isinstance(model, PenalisedModel):
                loss = loss + model.auxiliary_loss
            loss.backward()
            waiting += 1
            if waiting == accumulation or number + 1 == total:
                if clip is not None:
                    nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                optimizer.zero_grad()
                waiting = 0
    return model.state_dict()


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize(("accumulation", "clip"), [(1, None), (2, None), (3, 0.05), (100, None)])
def test_steps_are_those_of_a_loop_written_by_hand(tmp_path: Path, level: str, accumulation: int, clip) -> None:
    settings = tiny_settings(
        max_epoch=3, batch_accumulation=accumulation, clip_grad_norm=clip is not None, clip_grad_norm_value=clip or 1.0
    )
    trainer = tiny_trainer(tmp_path, settings, level=level, optimizer="sgd", scheduler="none")
    trainer.run()
    expected = hand_written(level, 3, accumulation, clip)
    for name, tensor in trainer.model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.parametrize("accumulation", [1, 2])
def test_an_auxiliary_loss_is_minimised_and_not_reported(tmp_path: Path, accumulation: int) -> None:
    settings = tiny_settings(max_epoch=3, batch_accumulation=accumulation)
    trainer = tiny_trainer(tmp_path, settings, kind=PenalisedModel, optimizer="sgd", scheduler="none")
    trainer.run()
    expected = hand_written("graph", 3, accumulation, None, PenalisedModel)
    assert expected["anchor"] != 1.0
    for name, tensor in trainer.model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    for name, kind in (("plain", TinyModel), ("penalised", PenalisedModel)):
        tiny_trainer(tmp_path / name, tiny_settings(max_epoch=1), kind=kind, scheduler="none", lr=0.0).run()
    for split in ("train", "val"):
        (plain,), (penalised,) = (lines(tmp_path / name, split) for name in ("plain", "penalised"))
        assert penalised["loss"] == plain["loss"]


@pytest.mark.parametrize("clip", [None, 0.01])
def test_an_auxiliary_loss_is_scaled_with_the_loss(tmp_path: Path, clip: float | None) -> None:
    """Float16 gradients are scaled before backward and unscaled before clipping: also those of the auxiliary loss."""
    settings = tiny_settings(max_epoch=2, clip_grad_norm=clip is not None, clip_grad_norm_value=clip or 1.0)
    anchors = []
    cpu = torch.device("cpu")
    for precision in (Precision("16-mixed", cpu), Precision("32-true", cpu)):
        precision.load_state_dict(precision.state_dict() | {"scale": 1024.0})
        fabric = Fabric(cpu, precision)
        torch.manual_seed(5)
        model = PenalisedModel(norm=False, dropout=0.0)
        options = {"model": model, "fabric": fabric, "optimizer": "sgd", "scheduler": "none"}
        tiny_trainer(tmp_path / str(len(anchors)), settings, **options).run()
        anchors.append(1.0 - float(model.anchor.detach()))
    assert anchors[0] != 0.0
    assert anchors[0] == pytest.approx(anchors[1], rel=1e-2)


def test_five_batches_in_groups_of_two_make_three_steps(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_settings(max_epoch=1, batch_accumulation=2))
    assert trainer.loaders.num_train_batches == 5
    steps = []
    trainer.optimizer.register_step_post_hook(lambda *_: steps.append(1))
    trainer.run()
    assert len(steps) == 3


def test_early_stopping_counts_epochs_since_the_best(tmp_path: Path) -> None:
    outcome = tiny_trainer(tmp_path, tiny_settings(max_epoch=200, patience=4)).run()
    assert outcome.reason == "early stopping"
    assert outcome.epochs == outcome.best_epoch + 1 + 4
    assert outcome.epochs < 200


def test_early_stopping_counts_evaluations_whatever_their_period(tmp_path: Path) -> None:
    settings = tiny_settings(max_epoch=200, patience=4, eval_period=5)
    outcome = tiny_trainer(tmp_path, settings).run()
    assert outcome.reason == "early stopping"
    assert settings.evaluations(outcome.epochs) - settings.evaluations(outcome.best_epoch + 1) == 4
    assert outcome.epochs % 5 == 0, "it ends with an evaluation"


def test_secondary_metrics_of_short_epochs(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_settings(max_epoch=29))  # five batches per epoch
    trainer.run()
    val = lines(tmp_path, "val")
    full = {line["epoch"] for line in val if "f1" in line}
    best, improved = -math.inf, set()
    for line in val:
        if line["accuracy"] > best:
            best = line["accuracy"]
            improved.add(line["epoch"])
    assert full == {0, 25, 28} | improved
    assert len(full) < 29


def test_rates_in_the_statistics_are_those_the_epoch_was_trained_with(tmp_path: Path) -> None:
    tiny_trainer(tmp_path, tiny_settings(max_epoch=4), lr=0.02).run()
    rates = [line["lr"] for line in lines(tmp_path, "train")]
    assert rates[:3] == pytest.approx([0.02 * 1e-6, 0.01, 0.02])


def test_the_rate_may_change_before_every_step(tmp_path: Path) -> None:
    """Five batches in groups of two: the rates after 2/5, 4/5 and all of an epoch; warm-up over two epochs."""
    settings = tiny_settings(max_epoch=4, batch_accumulation=2, schedule_every_step=True)
    trainer = tiny_trainer(tmp_path, settings, scheduler="polynomial_with_warmup", lr=0.02)
    rates: list[float] = []
    trainer.schedule.optimizer.register_step_pre_hook(lambda opt, *_: rates.append(opt.param_groups[0]["lr"]))
    trainer.run()
    assert rates[:6] == pytest.approx([0.01 * fraction for fraction in (0.4, 0.8, 1.0, 1.4, 1.8, 2.0)])
    assert rates[6:] == pytest.approx([0.01 * part for part in (1.6, 1.2, 1.0, 0.6, 0.2, 0.0)], rel=1e-4, abs=2e-7)


def test_plateau_takes_the_latest_validation_loss_every_epoch(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_settings(max_epoch=8, eval_period=4), scheduler="reduce_on_plateau", lr=0.0)
    trainer.schedule.optimizer.param_groups[0]["lr"] = 0.02  # rates fall, weights hardly matter
    seen = []
    step = trainer.schedule.step
    trainer.schedule.step = lambda val_loss: seen.append(val_loss) or step(val_loss)
    trainer.run()
    val = {line["epoch"]: line["loss"] for line in lines(tmp_path, "val")}
    assert seen == [val[0]] * 3 + [val[3]] * 4 + [val[7]]


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed", "bf16-true", "64-true"])
@pytest.mark.parametrize("level", ["graph", "node"])
def test_other_number_formats(tmp_path: Path, precision: str, level: str) -> None:
    trainer = tiny_trainer(tmp_path, tiny_settings(max_epoch=12), level=level, precision=precision, model=Ring(level))
    trainer.run()
    train = lines(tmp_path, "train")
    assert train[-1]["loss"] < train[0]["loss"]
    dtype = {"bf16-true": torch.bfloat16, "64-true": torch.float64}.get(precision, torch.float32)
    assert {parameter.dtype for parameter in trainer.model.parameters()} == {dtype}
    of_products = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(precision, dtype)
    assert trainer.model.product_dtypes == {of_products}


class Ring(nn.Module):
    """As TinyModel, without assumptions about the number format."""

    def __init__(self, level: str) -> None:
        super().__init__()
        self.level = level
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.product_dtypes: set[torch.dtype] = set()

    def forward(self, batch):
        h = self.first(batch.x).relu()
        self.product_dtypes.add(h.dtype)
        if self.level == "graph":
            h = h.new_zeros(batch.num_graphs, 8).index_add(0, batch.ragged.graph_id, h)
        return self.last(h)


# ---------------------------------------------------------------------- failures


class Breaks(TinyModel):
    """Predicts NaN from the ``at``-th training forward pass on."""

    def __init__(self, at: int, value: float = math.nan) -> None:
        super().__init__()
        self.at, self.value, self.calls = at, value, 0

    def forward(self, batch):
        prediction = super().forward(batch)
        if self.training:
            self.calls += 1
            if self.calls > self.at:
                prediction = prediction + self.value
        return prediction


def test_a_loss_that_is_not_finite_ends_the_run_and_names_the_place(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_settings(ckpt_period=1), model=Breaks(at=5 + 5 + 3))
    with pytest.raises(RunFailed, match=r"epoch 2, batch 3: the training loss is nan.*kept in") as error:
        trainer.run()
    assert error.value.exit_code == 3
    assert read_checkpoint(trainer._checkpointer.last)["epoch"] == 2
    assert all(tensor.isfinite().all() for tensor in read_checkpoint(trainer._checkpointer.last)["model"].values())


@pytest.mark.parametrize("enable_ckpt", [True, False])
def test_the_best_model_of_a_run_that_diverges_is_kept(tmp_path: Path, enable_ckpt: bool) -> None:
    """No state of it had been saved; that of the moment is spoiled."""
    settings = tiny_settings(ckpt_period=100, ckpt_best=False, enable_ckpt=enable_ckpt)
    trainer = tiny_trainer(tmp_path, settings, model=Breaks(at=5 + 2))
    with pytest.raises(RunFailed, match=r"epoch 1, batch 2: the training loss is nan") as error:
        trainer.run()
    last, best = trainer._checkpointer.last, trainer._checkpointer.best
    assert not last.exists()
    assert best.is_file() == enable_ckpt
    model = f", but the model of the best epoch, 0, is in {best}" if enable_ckpt else ""
    assert str(error.value).endswith(f" No checkpoint had been written yet{model}.")
    if enable_ckpt:
        kept = read_checkpoint(best)
        assert (kept["epoch"], kept["metric"]) == (0, "accuracy")
        assert all(tensor.isfinite().all() for tensor in kept["model"].values())


@pytest.mark.parametrize("captured", [None, Mock(return_value=None)])
def test_it_is_found_before_an_evaluation_that_cannot_stand_it(
    tmp_path: Path, captured: Mock | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an evaluation that was captured has been given up, and is done batch by batch."""
    runners = lambda capture, step, _: (StepRunner(step, capture.loaders, None), captured)  # noqa: E731
    monkeypatch.setattr("graphbench.train.trainer.Capture.runners", runners)

    class Decomposes(Breaks):
        def forward(self, batch):
            prediction = super().forward(batch)
            if not self.training:
                torch.linalg.svdvals(prediction)  # raises where a number is NaN
            return prediction

    with pytest.raises(RunFailed, match=r"epoch 1, batch 4: the training loss is nan"):
        tiny_trainer(tmp_path, tiny_settings(eval_period=1), model=Decomposes(at=5 + 4)).run()


def test_it_is_found_before_the_end_of_a_long_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbench.train.trainer.CHECK_EVERY", 2)
    trainer = tiny_trainer(tmp_path, model=Breaks(at=1))
    with pytest.raises(RunFailed, match="epoch 0, batch 1"):
        trainer.run()
    assert trainer.state.batches_done == 2


def test_a_checkpoint_holds_no_spoiled_weights(tmp_path: Path) -> None:
    trainer = tiny_trainer(tmp_path, tiny_settings(ckpt_seconds=0.0), model=Breaks(at=5 + 2))
    with pytest.raises(RunFailed, match="epoch 1, batch 2"):
        trainer.run()
    state = read_checkpoint(trainer._checkpointer.last)
    assert (state["epoch"], state["batches_done"]) == (1, 2)
    assert all(tensor.isfinite().all() for tensor in state["model"].values())


class Greedy(TinyModel):
    """Asks for more memory than there is from the ``at``-th training forward pass on."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def forward(self, batch):
        if self.training:
            self.left -= 1
            if self.left < 0:
                torch.empty(1 << 60, dtype=torch.uint8)
        return super().forward(batch)


def test_exhausted_memory_gives_advice(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"epoch 0, batch 0: the memory of this machine.*train.batch_size") as error:
        tiny_trainer(tmp_path, model=Greedy(at=0)).run()
    assert error.value.exit_code == 3
    assert str(error.value).endswith(" No checkpoint had been written yet.")


@pytest.mark.parametrize("fails", [False, True])
def test_the_best_model_is_kept_when_memory_is_exhausted(
    tmp_path: Path, fails: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also told where there is no memory for saving it either."""
    trainer = tiny_trainer(tmp_path, tiny_settings(ckpt_period=100, ckpt_best=False), model=Greedy(at=5 + 2))
    best = trainer._checkpointer.best
    if fails:
        monkeypatch.setattr(torch, "save", lambda *given: bytearray(1 << 60))
    with pytest.raises(RunFailed, match=r"epoch 1, batch 2: the memory of this machine") as error:
        trainer.run()
    assert best.is_file() != fails
    assert ("the model of the best epoch, 0, cannot be saved: MemoryError" in caplog.text) == fails
    model = "" if fails else f", but the model of the best epoch, 0, is in {best}"
    assert str(error.value).endswith(f" No checkpoint had been written yet{model}.")
    assert fails or read_checkpoint(best)["epoch"] == 0


def test_another_runtime_error_keeps_its_traceback(tmp_path: Path) -> None:
    class Wrong(TinyModel):
        def forward(self, batch):
            return self.last(batch.x)

    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        tiny_trainer(tmp_path, model=Wrong()).run()


def test_an_unknown_selecting_metric_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'acuracy'. Did you mean 'accuracy'\?"):
        tiny_trainer(tmp_path, tiny_settings(metric="acuracy")).run()


def test_a_metric_that_is_never_a_number(tmp_path: Path) -> None:
    task = tiny_task()
    task.metrics["accuracy"].value = lambda pred, true: torch.tensor(math.nan)
    with pytest.raises(RunFailed, match="validation accuracy was NaN in every"):
        tiny_trainer(tmp_path, task=task).run()
    assert lines(tmp_path, "val")[0]["accuracy"] is None


def test_a_metric_without_a_value_is_told_at_the_first_evaluation(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def no_value(pred: Tensor, true: Tensor) -> Tensor:
        raise Undefined("all labels are equal")

    task = tiny_task()
    task.metrics["accuracy"].value = no_value
    with pytest.raises(RunFailed, match=r"in every evaluated epoch \(all labels are equal\), so that"):
        tiny_trainer(tmp_path, task=task).run()
    told = [record.getMessage() for record in caplog.records if "has no value" in record.getMessage()]
    said = (
        "epoch 0: the validation accuracy has no value: all labels are equal. An epoch without one is never the best."
    )
    assert told == [said]


def test_reporters_are_closed_after_a_failure(tmp_path: Path) -> None:
    recorder = Recorder()
    with pytest.raises(RunFailed):
        tiny_trainer(tmp_path, model=Breaks(at=0), reporters=[recorder, Slowly(0)]).run()
    assert recorder.events == ["start", "close"]
