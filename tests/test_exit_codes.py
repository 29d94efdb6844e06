"""What the operating system refuses: one message, exit code 2 or 3, no traceback, nothing lost."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from graphbench.commands.train import main
from graphbench.encoders.inputs import stored_features
from graphbench.errors import RunFailed, UserError
from graphbench.exit_codes import exit_codes, told_to_user
from graphbench.structures import GraphBatch, Ragged
from tests.final_line import parse_final_line
from tests.own_graphs import write_rings
from tests.paths import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rings(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a/b"), RunFailed),
        (OSError(errno.EMFILE, "Too many open files"), RunFailed),
        (PermissionError(errno.EACCES, "Permission denied", "a/b"), UserError),
        (OSError(errno.EROFS, "Read-only file system", "a/b"), UserError),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "a/b"), UserError),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), RunFailed),
        (MemoryError(), RunFailed),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes."), RunFailed),
        (SystemError("error return without exception set"), RunFailed),
        (ImportError("libtorch.so: failed to map segment from shared object"), RunFailed),
        (Exception("Error while serializing: I/O error: No space left on device (os error 28)"), RunFailed),
    ],
)
def test_what_the_system_says(error: Exception, kind: type[Exception]) -> None:
    told = told_to_user(error)
    assert type(told) is kind
    if isinstance(error, OSError) and error.filename:
        assert str(told).startswith("a/b: ")


def test_a_defect_of_ours_keeps_its_traceback() -> None:
    assert told_to_user(IndexError("4")) is None

    @exit_codes
    def wrong() -> int:
        raise IndexError("4")

    with pytest.raises(IndexError):
        wrong()


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
def test_streams_that_are_closed_and_characters_that_they_lack(tmp_path: Path, closed: tuple[int, ...]) -> None:
    """``graphbench tables >&-`` of a cron job: files get no number of a stream, since libraries print to that."""
    code = "from graphbench.exit_codes import exit_codes\n@exit_codes\ndef main():\n    file = open('new', 'w')\n"
    code += "    print('84.4 \u00b1 1.4')\n    return file.fileno()\nraise SystemExit(main())\n"
    (tmp_path / "program.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "program.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True)
    assert done.returncode > 2
    assert done.stdout.split() == [b"84.4", b"\\xb1", b"1.4"]
    without = " ".join(f"{number}>&-" for number in closed)
    done = subprocess.run(["bash", "-c", f'exec "$@" {without}', "bash", *command], cwd=tmp_path, env=environment)
    assert done.returncode > 2


def test_what_a_component_refuses_is_told() -> None:
    """A ValueError that this package raises is a message to whoever gave the value; one of a library is our defect."""
    with pytest.raises(ValueError, match="reads node features") as ours:
        stored_features(GraphBatch(Ragged.from_sizes([1]), torch.empty(2, 0, dtype=torch.int64)), "LinearNode")
    assert str(told_to_user(ours.value)).startswith("LinearNode reads node features, but these graphs have none")
    with pytest.raises(ValueError, match="invalid literal") as not_ours:
        int("x")
    assert told_to_user(not_ours.value) is None
    a_line_of_ours = compile("int('x')", str(ROOT / "graphbench" / "line.py"), "exec")
    with pytest.raises(ValueError, match="invalid literal") as miscalculated:
        exec(a_line_of_ours)
    assert told_to_user(miscalculated.value) is None


def test_ctrl_c_that_a_library_swallows_while_it_is_imported(capsys: pytest.CaptureFixture[str]) -> None:
    @exit_codes
    def starting() -> int:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise RecursionError("half imported")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests before have left
    try:
        assert starting() == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted: nothing was running yet.\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_before_training_and_after_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """While data are read, or the results of all runs are put together."""
    number, told = signal.Signals[name], {"SIGINT": "Ctrl-C"}.get(name, name)
    default = signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL
    before = signal.signal(number, default)  # whatever the tests before have left
    command = ["--cfg", "rings.yaml", "optim.max_epoch", "1"]
    with monkeypatch.context() as patch:
        patch.setattr("graphbench.factory.outline.read_data", lambda config: signal.raise_signal(number))
        assert main(command) == 130
    missing = "there is nothing to resume. The same command does what is missing."
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"interrupted: stopped by {told} before training began: {missing}"
    assert not list(folder.rglob("record.json"))
    if name == "SIGTERM":
        with monkeypatch.context() as patch:
            patch.setattr("graphbench.experiment.write_aggregate", lambda *_, **__: signal.raise_signal(number))
            assert main(command) == 130
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"interrupted: stopped by SIGTERM between two trainings or after the last: {missing}"
    assert signal.signal(number, before) is default


def test_a_file_system_without_locks_is_named() -> None:
    told = told_to_user(OSError(errno.ENOLCK, "No locks available"))
    assert isinstance(told, UserError)
    assert "has no file locks" in str(told)


def test_a_library_that_fails_because_of_the_disk() -> None:
    error = RuntimeError("unexpected pos 64 vs 0")
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device", "x.ckpt")
    assert str(told_to_user(error)).startswith("x.ckpt: No space left on device")


@pytest.mark.parametrize("wrong", ["results", "results/rings", "results/rings/0/config.yaml", "results/rings/0/ckpt"])
def test_something_else_where_a_run_writes(folder: Path, capsys: pytest.CaptureFixture[str], wrong: str) -> None:
    path = folder / wrong
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix:
        path.mkdir()
    else:
        path.write_text("mine")
    assert main(["--cfg", "rings.yaml"]) == 2
    err = capsys.readouterr().err
    assert err.count("error: ") == 1
    assert wrong.removesuffix("/ckpt") in err
    assert path.is_dir() if path.suffix else path.read_text() == "mine"


def test_a_reader_of_standard_error_that_leaves_interrupts_a_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``2>&1 | head``: the same command goes on, as after Ctrl-C."""
    reader, writer = os.pipe()
    os.close(reader)
    with monkeypatch.context() as patch, open(writer, "w", buffering=1) as pipe:
        patch.setattr(sys, "stderr", pipe)
        assert main(["--cfg", "rings.yaml"]) == 130
        os.dup2(os.open(os.devnull, os.O_WRONLY), pipe.fileno())  # else closing it would write once more
    record = json.loads((folder / "results/rings/0/record.json").read_text())
    assert (record["status"], record["reason"][:31]) == ("interrupted", "stopped by a closed output pipe")
    assert main(["--cfg", "rings.yaml"]) == 0
    assert "resuming at epoch 1" in (folder / "results/rings/0/logging.log").read_text()


def test_a_kill_between_a_run_folder_and_its_record_is_no_obstacle(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = folder / "results/rings/0"
    (run / "ckpt").mkdir(parents=True)  # all that is there before the record is
    (run / "config.yaml").write_text("seed: 0\n")
    (run / "logging.log").write_text("")
    assert main(["--cfg", "rings.yaml"]) == 0
    assert parse_final_line(capsys.readouterr().out.splitlines()[-1])["n"] == 1
    (run / "record.json").unlink()
    assert main(["--cfg", "rings.yaml"]) == 2, "results without a record are another matter"


LIMITED = """
import resource, sys
resource.setrlimit(resource.{limit}, ({value}, {value}))
from graphbench.commands.train import main
sys.exit(main(sys.argv[1:]))
"""


def limited(limit: str, value: int, *arguments: str, cwd: Path, **files: object) -> subprocess.CompletedProcess[str]:
    program = LIMITED.format(limit=limit, value=value)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | files
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        text=True,
        check=False,
        timeout=120,
        **streams,  # type: ignore[call-overload]
    )


@pytest.mark.slow
def test_files_that_cannot_grow_and_then_can(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The limit of a process on the size of its files stands for a full disk: writing fails in the same calls."""
    done = limited("RLIMIT_FSIZE", 6000, "--cfg", "rings.yaml", "train.ckpt_period", "1", cwd=folder)
    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("run failed: ")
    assert not [path for path in folder.rglob("*.tmp")]
    assert main(["--cfg", "rings.yaml"]) == 0
    resumed = parse_final_line(capsys.readouterr().out.splitlines()[-1])
    assert main(["--cfg", "rings.yaml", "name_tag", "whole"]) == 0
    whole = parse_final_line(capsys.readouterr().out.splitlines()[-1])
    assert (resumed["val"], resumed["test"]) == (whole["val"], whole["test"])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_standard_output_on_a_full_disk(folder: Path) -> None:
    with open("/dev/full", "w") as full:
        done = limited("RLIMIT_CORE", 0, "--cfg", "rings.yaml", cwd=folder, stdout=full)
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads((folder / "results/rings/0/record.json").read_text())["status"] == "finished"


def test_a_reader_that_has_seen_enough_ends_a_command_silently() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "graphbench", "list"], cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_finished_run_on_a_disk_that_may_only_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--cfg", "rings.yaml"]) == 0
    before = capsys.readouterr().out.splitlines()[-1]
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # tests may run as root, whom no mode keeps out
    stamp = (folder / "results/rings/agg/test/best.json").stat().st_mtime_ns
    assert main(["--cfg", "rings.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == before
    assert (folder / "results/rings/agg/test/best.json").stat().st_mtime_ns == stamp


def test_a_data_folder_that_may_only_be_read_has_its_cache_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphbench.data.files.roots import Roots

    monkeypatch.delenv("GRAPHBENCH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    assert Roots.from_environment(tmp_path / "data").cache == tmp_path / "data/.cache"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    first, second = (Roots.from_environment(tmp_path / name).cache for name in ("data", "other"))
    assert first.parent == second.parent == tmp_path / "own/graphbench"
    assert first != second
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])  # a user of a container, of whom only this is known
    with pytest.raises(UserError, match=f"{tmp_path} may only be read, and there is no home: .* GRAPHBENCH_CACHE"):
        Roots.from_environment(tmp_path / "data")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["gt.layers", "2147483648"], "modules in the model; is gt.layers 2,147,483,648"),
        (["devices", "1000"], "command line: devices: devices is 1000: as many processes"),
        (["dataset.format", "SBM", "dataset.name", "PATTERN", "dataset.SBM.patterns", "-1"], "patterns must be"),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_absurd_sizes_are_refused_before_anything_is_built(
    folder: Path, capsys: pytest.CaptureFixture[str], overrides: list[str], message: str
) -> None:
    if overrides[0] == "dataset.format":
        overrides += ["dataset.task", "node", "dataset.task_type", "classification", "gnn.head", "default"]
        overrides += ["dataset.split_mode", "standard"]
    assert main(["--cfg", "rings.yaml", *overrides]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("error: ") == 1


def test_features_that_are_no_numbers_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graphs = torch.load("graphs.pt", weights_only=True)
    graphs[1]["x"][2, 0] = torch.nan
    torch.save(graphs, "graphs.pt")
    assert main(["--cfg", "rings.yaml"]) == 2
    assert "graphs.pt: 'x' of graph 1 has 1 values that are nan or infinite" in capsys.readouterr().err
    assert not Path("results").exists()
