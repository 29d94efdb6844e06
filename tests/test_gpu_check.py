"""What is run first on a lent GPU: the parts there are, and that what they name exists."""

from __future__ import annotations

import pytest
import torch

from scripts import gpu_check

NAMED = (
    "test_fifty_steps_have_the_losses_of_steps_without_a_graph",
    "test_two_captured_runs_are_equal_bit_for_bit",
    "test_dropout_masks_change_from_step_to_step",
    "test_a_kernel_on_another_stream_is_noticed",
    "test_graphs_on_several_streams_draw_from_their_own_generators",
)


def test_the_tests_it_speaks_of_are_in_its_files() -> None:
    text = "".join((gpu_check.ROOT / file).read_text() for file in gpu_check.TESTS)
    assert all(f"def {name}(" in text for name in NAMED)


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        gpu_check.main(["epoch"])
    assert "parts are tests, launches, epochs; received epoch" in capsys.readouterr().err


def test_launches_need_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_check.main(["launches"]) == 2
    assert "PyTorch sees no CUDA device" in capsys.readouterr().err


def test_the_first_failure_is_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    parts = {"tests": lambda: 0, "launches": lambda: 3, "epochs": lambda: done.append("epochs") or 4}
    monkeypatch.setattr(gpu_check, "PARTS", parts)
    assert gpu_check.main([]) == 3
    assert done == ["epochs"]
