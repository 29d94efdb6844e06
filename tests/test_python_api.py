"""docs/python-api.md, word by word, and that importing the package imports nothing else."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import graphbench
from graphbench import experiment
from graphbench.errors import UserError
from graphbench.train.reporter import EpochReport, Reporter
from tests.paths import ROOT


def test_the_page_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python-api.md").read_text(), re.DOTALL)
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, "docs/python-api.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "quickstart" in printed
    assert "46533 parameters" in printed
    assert re.search(r"torch\.Size\(\[(\d+)(, 1)?\]\) \1\n", printed)
    assert "accuracy-SBM 2 0." in printed
    assert (tmp_path / "results/quickstart-tour/agg/test/best.json").is_file()


def test_a_wrong_key_is_the_message_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("optim:\n  base_lrr: 0.1\n")
    with pytest.raises(UserError, match=r"a\.yaml:2: unknown .*'optim\.base_lrr'.* Did you mean 'optim\.base_lr'"):
        graphbench.load_config(tmp_path / "a.yaml")


def test_one_thread_trains_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once drew from one random generator: their numbers were others at every start."""
    monkeypatch.chdir(tmp_path)
    graphs = "dataset.SBM.train_graphs 4 dataset.SBM.val_graphs 2 dataset.SBM.test_graphs 2 optim.max_epoch 1"
    config = graphbench.load_config("quickstart", graphs.split())

    class InAnotherThread(Reporter):
        def epoch(self, report: EpochReport) -> None:
            with ThreadPoolExecutor(1) as pool:
                told.append(pool.submit(graphbench.run, config).exception())

    told: list[BaseException | None] = []
    reporter = InAnotherThread()
    assert experiment.run(config, reporters=[reporter]) is not None
    assert isinstance(told[0], UserError)
    assert "another thread of this process is training" in str(told[0])
    with pytest.raises(UserError, match="repeat must be at least 1 and at most 10,000, received 0"):
        graphbench.run(config, repeat=0)


def test_importing_the_package_imports_nothing_of_it() -> None:
    """Its functions are imported where they are asked for: ``import graphbench`` costs no second."""
    tree = ast.parse((ROOT / "graphbench/__init__.py").read_text())
    for node in tree.body:
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        assert set(modules) <= set(sys.stdlib_module_names), ast.unparse(node)
    assert {"build_model", "load_config", "run"} <= set(dir(graphbench))
    with pytest.raises(AttributeError, match="module 'graphbench' has no attribute 'model'"):
        _ = graphbench.model


@pytest.mark.parametrize(
    ("given", "kept"), [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_threads_that_wait_sleep_soon_unless_somebody_chose(given: dict[str, str], kept: str | None) -> None:
    clean = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    program = "import os, graphbench; print(os.environ.get('GOMP_SPINCOUNT'))"
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(kept)


def test_run_takes_a_loaded_configuration() -> None:
    with pytest.raises(TypeError, match=r"run takes what load_config returns, received str"):
        graphbench.run("configs/quickstart.yaml")  # type: ignore[arg-type]
