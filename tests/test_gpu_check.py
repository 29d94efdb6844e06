"""What is run first on a lent GPU: the parts there are, that what they name exists, and calls that go on."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from scripts import gpu_check, launches

NAMED = (
    "test_fifty_steps_have_the_losses_of_steps_without_a_graph",
    "test_two_captured_runs_are_equal_bit_for_bit",
    "test_dropout_masks_change_from_step_to_step",
    "test_a_kernel_on_another_stream_is_noticed",
    "test_graphs_on_several_streams_draw_from_their_own_generators",
    "test_a_refused_recording_leaves_a_device_that_works",
    "test_graphs_side_by_side_have_their_own_scratch_memory",
)


def test_the_tests_it_speaks_of_are_in_its_files() -> None:
    files = [command[-1] for command in gpu_check.parts()["captured"].values()]
    text = "".join((gpu_check.ROOT / file).read_text() for file in files)
    assert all(f"def {name}(" in text for name in NAMED)


def test_every_file_of_a_command_exists() -> None:
    for commands in gpu_check.parts().values():
        assert commands
        for command in commands.values():
            assert all((gpu_check.ROOT / word).exists() for word in command if word.endswith(".py"))


def test_an_unknown_part_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        gpu_check.main([str(tmp_path), "epoch"])
    assert "epochs, blocks; received epoch" in capsys.readouterr().err


def test_the_profiler_needs_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert launches.profiled(["gnnbench/gps-zinc"], {}) == 2
    assert "PyTorch sees no CUDA device" in capsys.readouterr().err


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def stored(folder: Path) -> dict[str, dict[str, object]]:
    return json.loads((folder / "part.json").read_text())["results"]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, list[str]]:
    """Of the only part there is; what ran leaves a line behind."""
    run = f"open({str(tmp_path / 'ran')!r}, 'a').write"
    commands = {
        "first": python(f"{run}('first '); print('so'); print('{{\"ratio\": 2}}')"),
        "second": python(f"{run}('second '); raise SystemExit(3)"),
    }
    monkeypatch.setattr(gpu_check, "parts", lambda: {"part": commands})
    return commands


def test_what_a_command_printed_is_kept_and_not_run_again(commands: dict[str, list[str]], tmp_path: Path) -> None:
    arguments = [str(tmp_path / "results")]
    assert gpu_check.main(arguments) == 1
    results = stored(tmp_path / "results")
    assert (results["first"]["code"], results["first"]["result"]) == (0, {"ratio": 2})
    assert results["first"]["output"] == 'so\n{"ratio": 2}\n'
    assert results["second"]["code"] == 3
    assert gpu_check.main(arguments) == 1
    assert gpu_check.main([str(tmp_path / "others"), "--earlier", str(tmp_path / "results")]) == 1
    assert (tmp_path / "ran").read_text() == "first second "


def test_results_of_other_code_do_not_count(commands: dict[str, list[str]], tmp_path: Path) -> None:
    del commands["second"]
    file = tmp_path / "part.json"
    assert gpu_check.main([str(tmp_path)]) == 0
    known = json.loads(file.read_text())
    known["environment"]["source"] = "other"
    file.write_text(json.dumps(known))
    assert gpu_check.main([str(tmp_path)]) == 0
    assert (tmp_path / "ran").read_text() == "first first "


def test_a_call_ends_in_time_and_the_next_one_goes_on(commands: dict[str, list[str]], tmp_path: Path) -> None:
    del commands["second"]
    assert gpu_check.main([str(tmp_path), "--minutes", "0"]) == gpu_check.LEFT
    assert not (tmp_path / "part.json").exists()
    assert gpu_check.main([str(tmp_path)]) == 0
    commands["second"] = python("import time; time.sleep(600)")
    assert gpu_check.main([str(tmp_path), "--minutes", "0.01"]) == gpu_check.LEFT
    assert list(stored(tmp_path)) == ["first"]
    commands["second"] = python("print('no brace')")
    assert gpu_check.main([str(tmp_path)]) == 0
    assert stored(tmp_path)["second"]["result"] is None


@pytest.mark.slow
def test_a_command_that_does_not_end_leaves_time_for_the_others(commands: dict[str, list[str]], tmp_path: Path) -> None:
    """It has failed, with what it printed; the next call does not try it again."""
    endless = python("import time; print('a dot'); time.sleep(600)")
    commands["second"], commands["third"] = endless, commands["first"]
    assert gpu_check.main([str(tmp_path), "--most", "0.1"]) == 1
    results = stored(tmp_path)
    assert (results["second"]["code"], results["second"]["output"]) == (gpu_check.TOO_LONG, "a dot\n")
    assert results["third"]["code"] == 0
    assert gpu_check.main([str(tmp_path)]) == 1
    assert (tmp_path / "ran").read_text() == "first first "


def test_output_that_breaks_off_is_kept(commands: dict[str, list[str]], tmp_path: Path) -> None:
    """Neither half an object nor bytes that are no text end the call."""
    commands["first"] = python("import os; os.write(1, b'{\\xff\\n'); os.write(1, b'{broken')")
    commands["second"] = python("print(1)")
    assert gpu_check.main([str(tmp_path)]) == 0
    assert stored(tmp_path)["first"]["result"] is None
