"""A test per promise of SECURITY.md."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from graphbench.commands.train import main
from graphbench.config import load_config
from graphbench.config.values import parse_range
from graphbench.data.files.raw_files import read_npz, read_object_array, read_pickle, read_torch
from graphbench.errors import UserError
from graphbench.plug_ins import CONSENT
from graphbench.report.cli import main as report
from graphbench.runs.data_facts import DataFacts
from graphbench.runs.record import RunRecord, Score
from graphbench.train.checkpointer import DAMAGED, read_checkpoint
from tests.own_graphs import write_rings
from tests.paths import ROOT


class Bomb:
    """Pickled, it creates a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A foreign folder with a plug-in that leaves a trace; the working directory is another one."""
    monkeypatch.delenv(CONSENT, raising=False)
    foreign, own = tmp_path / "foreign", tmp_path / "own"
    foreign.mkdir()
    own.mkdir()
    (foreign / "evil.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'trace')!r})\ndef graphs(): return []\n")
    monkeypatch.chdir(own)
    return foreign


# ---- configurations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["evil.py", "{foreign}/evil.py", "../foreign/evil.py"])
def test_code_of_a_foreign_configuration_runs_only_if_the_user_says_so(elsewhere: Path, name: str) -> None:
    path = elsewhere / "model.yaml"
    path.write_text(f"plugins: [{name.format(foreign=elsewhere)}]\n")
    with pytest.raises(UserError, match=r"model\.yaml:1: .* names code outside the current project.*--allow_plugins"):
        load_config(path)
    assert not (elsewhere.parent / "trace").exists()


@pytest.mark.parametrize("module", ["antigravity", "this", "xml.sax", "sys", "__main__", "yaml"])
def test_modules_that_happen_to_be_installed_are_foreign_code_too(elsewhere: Path, module: str) -> None:
    before = set(sys.modules)
    with pytest.raises(UserError, match="names code outside the current project"):
        load_config(ROOT / "configs/quickstart.yaml", ["plugins", f"[{module}]"])
    assert module in ("sys", "__main__", "yaml") or module not in set(sys.modules) - before


def test_a_function_that_makes_graphs_is_code_too(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rings(elsewhere)
    text = path.read_text().replace("custom: {path: graphs.pt}", f"custom: {{function: '{elsewhere}/evil.py:graphs'}}")
    path.write_text(text)
    assert main(["--cfg", str(path)]) == 2
    assert "names code outside the current project" in capsys.readouterr().err
    assert not (elsewhere.parent / "trace").exists()


def test_consent_by_flag_or_variable(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "good.py").write_text("RAN = True\n")
    path = elsewhere / "model.yaml"
    path.write_text(f"_base_: {ROOT}/configs/quickstart.yaml\nplugins: [good.py]\n")
    assert main(["--cfg", str(path), "--dry_run"]) == 2
    monkeypatch.setenv(CONSENT, "")  # put back at the end, whatever main() sets
    assert main(["--cfg", str(path), "--dry_run", "--allow_plugins"]) == 0
    assert os.environ[CONSENT] == "1", "processes that this one starts are told"


def test_the_own_project_needs_no_word(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.py").write_text("RAN = True\n")
    Path("model.yaml").write_text("plugins: [mine.py]\n")
    load_config("model.yaml")


@pytest.mark.parametrize("value", ["!!python/object/apply:os.mkdir [{trace}]", "!!python/name:os.mkdir"])
def test_yaml_makes_plain_values_only(elsewhere: Path, value: str) -> None:
    path = elsewhere / "model.yaml"
    path.write_text("print: " + value.format(trace=elsewhere.parent / "trace") + "\n")
    with pytest.raises(UserError, match="could not determine a constructor"):
        load_config(path)
    with pytest.raises(UserError, match=r"times_func must look like range\(1, 17\)"):
        parse_range("__import__('os').mkdir('trace')", "times_func", "command line")
    assert not (elsewhere.parent / "trace").exists()


# ---- data and checkpoints --------------------------------------------------------------------------------------------


def test_files_are_read_without_running_what_they_name(tmp_path: Path) -> None:
    trace, file = tmp_path / "trace", tmp_path / "file"
    bomb = Bomb(trace)
    file.write_bytes(pickle.dumps([bomb]))
    with pytest.raises(UserError, match="a pickle can run code"):
        read_pickle(file)
    torch.save({"x": bomb}, file)
    with pytest.raises(UserError, match="cannot be read"):
        read_torch(file)
    with pytest.raises(DAMAGED):
        read_checkpoint(file)
    array = np.empty(1, dtype=object)
    array[0] = bomb
    with file.open("wb") as opened:
        np.save(opened, array)
    with pytest.raises(UserError, match="a pickle can run code"):
        read_object_array(file)
    with file.open("wb") as opened:
        np.savez(opened, x=array)
    with pytest.raises(UserError, match="cannot be read"):
        read_npz(file, "x")
    assert not trace.exists()


def test_nothing_else_in_the_package_unpickles_or_evaluates() -> None:
    risky = re.compile(r"pickle\.loads?\(|allow_pickle=True|weights_only=False|yaml\.(load|unsafe_load|full_load)\(|"
                       r"(?<![\w.])(eval|exec)\([^)]|os\.system|shell=True")  # fmt: skip
    # Benchmarks hand a batch to their own second process through a folder that only they know; the processes of one run
    # send each other objects, as torch.distributed's collectives of objects do, which unpickle what they receive.
    own = {"benchmarks", "exchange"}
    sources = [path for path in (ROOT / "graphbench").rglob("*.py") if not own & {path.parent.name, path.stem}]
    for path in sources:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not risky.search(line), f"{path}:{number}: {line.strip()}"
    for path in sources:
        for line in path.read_text().splitlines():
            assert "torch.load(" not in line or "weights_only=True" in line, f"{path}: {line.strip()}"


# ---- a shared file system, a report in a browser ---------------------------------------------------------------------


def test_files_are_made_beside_and_renamed_so_that_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    from graphbench import atomic

    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "record.json").symlink_to(victim)
    atomic.write_text(tmp_path / "record.json", "{}")
    assert victim.read_text() == "precious"
    assert (tmp_path / "record.json").read_text() == "{}"


def test_a_report_shows_hostile_text_as_text(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`</style></script>"
    record = RunRecord(
        config="a", config_hash="h", seed=0, run_id="0", status="finished", metric="accuracy", maximize=True,
        best_epoch=0, scores=tuple(Score(split, "accuracy", 0.5, True, 3) for split in ("val", "test")),
        settings={"gt.layer_type": hostile}, ended="2026-01-01T00:00:00+00:00", reason=hostile,
        data=DataFacts(hostile, fingerprint=hostile, split_mode=hostile, sizes={"train": 1}),
        environment={"host": hostile, "cpu": hostile, "git_commit": hostile},
    )  # fmt: skip
    record.write(tmp_path / hostile.replace("/", "_") / "0" / "record.json")
    assert report([str(tmp_path), "--out", str(tmp_path / "report.html"), "--title", hostile]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "alert(1)" in page
    for part in ("<script>alert", "<img src=x", "</style></script>"):
        assert part not in page
    assert not re.search(r"""(src|href)\s*=\s*["']?https?://""", page), "a page loads nothing from elsewhere"


def test_the_promises_have_tests() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", text))
    here = set(re.findall(r"^def (test_\w+)", Path(__file__).read_text(), re.MULTILINE)) - {
        "test_the_promises_have_tests"
    }
    assert named == here


def test_json_of_a_record_is_data(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"__class__": "os.system", "config": "x"}))
    assert RunRecord.read(path) is None
