"""What is drawn, and how often."""

from __future__ import annotations

import errno
import io
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from graphbench.errors import Interrupted
from graphbench.runs.record import Outcome
from graphbench.train import progress
from graphbench.train.progress import ProgressBar, describe
from graphbench.train.reporter import EpochReport, Reporter
from graphbench.train.signals import StopRequest
from tests.train.tiny_run import summary, tiny_settings, tiny_trainer


def report(epoch: int = 11, seconds_left: float = 42.0) -> EpochReport:
    return EpochReport(
        epoch=epoch,
        max_epoch=200,
        metric="accuracy",
        stats={"train": {"loss": 0.43121}, "val": {"accuracy": 0.812}},
        best_epoch=9,
        best={"val": {"accuracy": 0.816}},
        improved=False,
        seconds=1.0,
        seconds_total=12.0,
        seconds_left=seconds_left,
    )


def test_one_epoch_in_one_line() -> None:
    text = "epoch 11 (12/200)  loss 0.4312  val accuracy 0.8120  best 0.8160 (epoch 9)  left "
    assert describe(report()) == text + "0:42"
    assert describe(report(seconds_left=3700)) == text + "1:01:40"


def test_a_file_gets_a_line_now_and_then(tmp_path: Path) -> None:
    output = io.StringIO()
    bar = ProgressBar(Console(file=output), title="tiny 0")
    tiny_trainer(tmp_path, tiny_settings(max_epoch=120), reporters=[bar]).run()
    written = output.getvalue().splitlines()
    assert 15 <= len(written) <= 30
    assert written[0].startswith("tiny 0: epoch 0 (1/120)  loss ")
    assert written[-2].startswith("tiny 0: epoch 119 (120/120)")
    assert re.match(r"tiny 0: 120 epochs in \d+:\d\d \(max_epoch\)", written[-1])


def test_the_last_line_of_a_long_run_has_hours() -> None:
    output = io.StringIO()
    bar = ProgressBar(Console(file=output))
    bar.finish(Outcome("max_epoch", 7, 9, (), 1, 433.0, 3900.0, None))
    assert output.getvalue() == "9 epochs in 1:05:00 (max_epoch), best epoch 7\n"


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_resumed_run_says_so_first(tmp_path: Path, epoch: int) -> None:
    stop = StopRequest()

    class Asks(Reporter):
        def batch(self, at: int, done: int, total: int) -> None:
            stop.received = "a test" if at == epoch else None

    with pytest.raises(Interrupted):
        tiny_trainer(tmp_path, reporters=[Asks()], stop=stop).run()
    output = io.StringIO()
    tiny_trainer(tmp_path, reporters=[ProgressBar(Console(file=output), title="tiny 0")]).run()
    first, *rest = output.getvalue().splitlines()
    assert first == f"tiny 0: resumed at epoch {epoch} from {tmp_path / 'tiny/0/ckpt/last.ckpt'}"
    assert rest[0].startswith(f"tiny 0: epoch {epoch} ({epoch + 1}/6)")


def test_a_terminal_gets_a_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 1e6))  # it stands still
    output = io.StringIO()
    bar = ProgressBar(Console(file=output, force_terminal=True, width=140), title="tiny 0")
    tiny_trainer(tmp_path, tiny_settings(max_epoch=60), reporters=[bar]).run()
    text = output.getvalue()
    assert "epoch 59 (60/60)  loss" in text
    assert "best epoch" in text
    assert "(30/60)" not in text  # drawn once in a while


class _Closed(io.StringIO):
    """A terminal whose window was closed, or a pipe whose reader has gone."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def write(self, text: str) -> int:
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize("terminal", [True, False])
def test_a_closed_terminal_ends_no_training(tmp_path: Path, terminal: bool) -> None:
    stop = StopRequest()
    bar = ProgressBar(Console(file=_Closed(errno.EIO), force_terminal=terminal), stop=stop)
    assert tiny_trainer(tmp_path, reporters=[bar], stop=stop).run().epochs == 6


@pytest.mark.parametrize("terminal", [True, False])  # on a terminal, rich raises SystemExit
def test_a_pipe_that_nobody_reads_saves_the_state(tmp_path: Path, terminal: bool) -> None:
    whole = tiny_trainer(tmp_path / "whole")
    expected = summary(whole, whole.run())
    stop = StopRequest()
    bar = ProgressBar(Console(file=_Closed(errno.EPIPE), force_terminal=terminal), stop=stop)
    with pytest.raises(Interrupted, match=r"stopped by a closed output pipe in epoch \d. The state is saved"):
        tiny_trainer(tmp_path / "head", reporters=[bar], stop=stop).run()
    rest = tiny_trainer(tmp_path / "head")
    assert summary(rest, rest.run()) == expected


def test_the_terminal_is_given_back_after_a_failure(tmp_path: Path) -> None:
    output = io.StringIO()
    bar = ProgressBar(Console(file=output, force_terminal=True, width=140))
    trainer = tiny_trainer(tmp_path, reporters=[bar])
    trainer.task.loss = None
    try:
        trainer.run()
    except TypeError:
        pass
    assert output.getvalue().endswith("\x1b[?25h") or "\x1b[?25h" in output.getvalue()  # cursor shown again
