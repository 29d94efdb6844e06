"""The command ``graphbench``: words, start-up, lists, explanations; the wheel, outside the checkout."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from graphbench import __main__ as module
from graphbench import __version__, console, registry, shipped
from graphbench.commands import check as explain
from graphbench.commands import list as catalogue
from tests.data.test_graph_tables import TRAINED, write_everything
from tests.paths import ROOT
from tests.test_main import TINY

HELP = """
import contextlib, io, json, sys
from graphbench.console import main
for word in sys.argv[1:]:
    sys.argv[1:] = [*filter(None, [word]), "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as told:
        try: code = main(sys.argv[1:])
        except SystemExit as stop: code = stop.code
    heavy = {"torch", "scipy", "sklearn", "torch_geometric", "matplotlib", "pandas"} & set(sys.modules)
    print(json.dumps([word, code, sorted(heavy), told.getvalue()]))
"""
"""Asks for the help of one word after the other, "" for that of the command: none of them imports anything heavy."""


def _call(*words: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=variables, capture_output=True, text=True, timeout=300, check=False
    )


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    words = ["", *console.COMMANDS]
    done = _call("-c", HELP, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [word for word, *_ in told] == words
    for word, code, heavy, text in told:
        assert (code, heavy) == (0, []), word
        assert text.startswith(f"usage: graphbench {word or 'COMMAND'}")
        assert not re.search(r"main\.py|scripts/|:\w+:`", text), "in the words of the command, for a terminal"


def test_the_package_speaks_of_the_command_alone() -> None:
    """Whoever installs the wheel has no main.py and no scripts; pages of benchmarks say how their numbers were made."""
    named = re.compile(r"(?<!/)\bmain\.py(?!:)|\bscripts/\w")
    files = [file for file in (ROOT / "graphbench").rglob("*.py") if file.parent.name != "benchmarks"]
    assert files
    assert not [str(file) for file in files if named.search(file.read_text())]


def test_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["graphbench"])
    assert console.main(["--version"]) == 0
    assert capsys.readouterr().out == f"graphbench {__version__}\n"
    assert console.main(["trian"]) == 2
    assert "unknown command 'trian'. Did you mean 'train'?" in capsys.readouterr().err
    assert console.main(["completion", "names", "check"]) == 0
    assert {"quickstart", "sgformer-cora"} <= set(capsys.readouterr().out.split())
    assert console.main(["completion", "names", "sweep"]) == 0
    assert "sgformer-table2" in capsys.readouterr().out.split()
    assert console.main(["list", "models"]) == 0
    assert "TwoBranch" in capsys.readouterr().out
    assert sys.argv == ["graphbench"], "a program that calls a command keeps its own arguments"
    assert console.main(["completion", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: graphbench completion bash|zsh|fish\n")
    assert console.main(["completion", "ksh"]) == 2
    assert "completion takes bash, zsh, fish, received 'ksh'" in capsys.readouterr().err
    assert module.main is console.main


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("graphbench tr", {"train"}),
        ("graphbench check sgformer-co", {"sgformer-cora", "sgformer-cora-4layers"}),
        ("graphbench list met", {"metrics"}),
        ("graphbench train --dry", {"--dry_run"}),
        ("graphbench predict new", {"new.pt"}),
        ("graphbench train --cfg quickstart optim.max_ep", {"optim.max_epoch"}),
        ("graphbench sweep sgformer-table2 gnn.batchnorm fa", {"false"}),
        ("graphbench check quickstart model.edge_decoding conc", {"concat"}),
    ],
)
def test_bash_completes_words_names_options_and_files(
    line: str, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new.pt").touch()
    (tmp_path / "graphbench").write_text(f'#!/bin/sh\nexec {sys.executable} -m graphbench "$@"\n')
    (tmp_path / "graphbench").chmod(0o755)
    assert console.main(["completion", "bash"]) == 0
    script = f"{capsys.readouterr().out}COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _graphbench\n"
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", script + 'printf "%s\\n" "${COMPREPLY[@]}"'], cwd=tmp_path, env=path, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert expected <= set(done.stdout.split())
    assert all(each.startswith(line.split()[-1]) for each in done.stdout.split())


def test_completion_imports_no_library_of_models() -> None:
    code = (
        "import sys; from graphbench import console; console.main(['completion', 'names', 'train', 'optim.scheduler']);"
        "print({'torch', 'numpy', 'torch_geometric'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_reads_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.main(["completion", "fish"]) == 0
    script = capsys.readouterr().out + "complete -C 'graphbench tra'\n"
    assert "train" in subprocess.run(["fish", "-c", script], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (("datasets", "PyG-K*"), ["PyG-KarateClub/...", "Zachary", "[read by PyTorch Geometric, measured]"]),
        (("layers", "S[FG]*"), ["SFi ", "SGFormer  Attention without softmax, in O(N).  [arXiv:2306.10759]"]),
        (("metrics", "auc"), ["auc  Area under the ROC curve"]),
        (("datasets", "PyG-ZINC/*"), ["PyG-ZINC/subset  graph regression, mae"]),
        (("sweeps", "sgformer-table5"), ["Cora with 50 % to 1 %", "[results/published/sgformer_table5.csv]"]),
        (("configs", "quickstart"), ["quickstart  First contact"]),
        ((), ["graphbench list layers"]),
    ],
)
def test_lists(arguments: tuple[str, ...], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert console.main(["list", *arguments]) == 0
    printed = capsys.readouterr().out
    assert all(line in printed for line in lines), printed
    assert console.main(["list", "layrs"]) == 2
    assert "Did you mean 'layers'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("topic", "name", "paper"),
    [("layers", "GRPE", "2201.12787"), ("layers", "GINE", "1905.12265"), ("models", "GritTransformer", "2305.17589")],
)
def test_the_paper_of_a_line_is_that_of_the_component(topic: str, name: str, paper: str) -> None:
    [item] = (item for item in catalogue.TOPICS[topic]() if item.name == name)
    assert item.source == f"arXiv:{paper}"
    assert "arxiv" not in item.about


@pytest.mark.parametrize("namespace", registry.NAMESPACES)
def test_a_component_is_named_before_its_equation(namespace: str) -> None:
    for component in registry.components(namespace):
        summary = re.sub(r"https://\S+", "", (inspect.getdoc(component) or "").partition("\n")[0])
        assert summary[:1].isupper(), f"{component}: {summary}"
        assert not re.search(r"=|<-|\\", summary), f"{component}: {summary}"


@pytest.mark.slow
@pytest.mark.parametrize("topic", catalogue.TOPICS)
def test_every_topic_has_lines_with_names_of_their_own(topic: str) -> None:
    items = list(catalogue.TOPICS[topic]())
    assert items
    assert all(item.about or item.source for item in items), [item.name for item in items if not item.about]


@pytest.mark.slow
def test_check_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert explain.main(["quickstart", *TINY, "--measure"]) == 0
    told = capsys.readouterr().out
    assert "measured over two epochs, training and evaluation: " in told
    assert "graphs of a batch do not change each other's predictions (8 graphs: " in told
    assert not (tmp_path / "results").exists()


def test_check_says_where_values_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.main(["check", "quickstart", "optim.max_epoch", "3"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert lines["optim.max_epoch"].split()[1:] == ["3", "command", "line"]
    assert lines["optim.base_lr"].endswith("configs/quickstart.yaml:18")
    assert lines["train.eval_period"].endswith("configs/_base_/train/gps.yaml:3")
    assert lines["46,533"].startswith("46,533 trainable parameters: 0.7 MiB with gradients and adamW")
    for optimizer, held in (("adagrad", 0.5), ("sgd", 0.5)):  # a number per parameter, of momentum where it has some
        assert console.main(["check", "quickstart", "optim.optimizer", optimizer]) == 0
        assert f"{held} MiB with gradients and {optimizer}," in capsys.readouterr().out
    assert console.main(["check", "sgformer-cora"]) == 0, "weight decay of a part of the model"
    capsys.readouterr()
    assert console.main(["check", "quickstart", "optim.max_epch", "3"]) == 2
    assert "Did you mean 'optim.max_epoch'" in capsys.readouterr().err


def test_names_stand_for_shipped_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    configs = ROOT / "configs"
    assert shipped.configuration("quickstart") == configs / "quickstart.yaml"
    for name in ("quicks*", "**x", "range(1, 10**9)"):  # a name is no pattern
        assert shipped.configuration(name) == Path(name)
    assert shipped.configuration("configs/quickstart.yaml") == configs / "quickstart.yaml"
    assert shipped.configuration("lrgb/sfi-pascal") == configs / "lrgb/sfi-pascal.yaml"
    assert shipped.configuration("sgformer-cora") == configs / "nodes/sgformer-cora.yaml"
    assert shipped.configuration("sgformer-table2") == configs / "sweeps/sgformer-table2.yaml"
    for name in ("no-such", ".", "", ".."):
        assert shipped.configuration(name) == Path(name)
    assert shipped.beside(tmp_path, "nodes/sgformer-cora.yaml") == configs / "nodes/sgformer-cora.yaml"
    assert shipped.beside(tmp_path, "configs/quickstart.yaml") == configs / "quickstart.yaml"
    assert shipped.beside(tmp_path, "../no-such.yaml") == tmp_path / "../no-such.yaml"
    (tmp_path / "quickstart").mkdir()
    assert shipped.configuration("quickstart") == configs / "quickstart.yaml", "a folder is no configuration"
    (tmp_path / "quickstart.yaml").write_text("seed: 1\n")
    assert shipped.configuration("quickstart.yaml") == Path("quickstart.yaml"), "the user's own file comes first"
    assert shipped.beside(tmp_path, "quickstart.yaml") == tmp_path / "quickstart.yaml"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel was installed, made from the sdist, with nothing of the checkout beside it."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    sdist = [sys.executable, "-c", f"from setuptools import build_meta; build_meta.build_sdist({str(folder)!r})"]
    sources = folder / "source"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    for name in filter(None, listed):
        unused = name.startswith(("tests/", "results/measured/")) or (name.startswith("docs/") and name[-3:] != ".md")
        if not unused and (ROOT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            (sources / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run(sdist, cwd=sources, check=True, timeout=300, stdout=subprocess.DEVNULL)
    [packed] = folder.glob("graphbench_gt-*.tar.gz")
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(packed)]
    subprocess.run(wheel, check=True, timeout=300)
    [file] = folder.glob("graphbench_gt-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(folder / "site"), str(file)], check=True, timeout=300)
    return folder / "site"


@pytest.mark.slow
def test_the_wheel_trains_and_shows_results_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    def command(*words: str) -> subprocess.CompletedProcess[str]:
        return _call(str(installed / "bin/graphbench"), *words, cwd=tmp_path, PYTHONPATH=str(installed))

    where = _call("-c", "import graphbench; print(graphbench.__file__)", cwd=tmp_path, PYTHONPATH=str(installed))
    assert where.stdout.startswith(str(installed))
    done = command("train", "quickstart", *TINY)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["metric"] == "accuracy-SBM"
    record = json.loads((tmp_path / "results/quickstart/0/record.json").read_text())
    assert record["environment"]["git_commit"] is None
    assert "| quickstart " in command("tables", "results").stdout
    assert command("report", "results").returncode == 0
    listed = command("list", "sweeps", "quick-*").stdout
    assert "quick-sgformer" in listed
    planned = command("sweep", "sgformer-table2", "--dry_run", "--only", "sgformer-cora")
    assert "graphbench train --cfg " in planned.stdout, planned.stderr
    (tmp_path / "mine.yaml").write_text(
        "sweep: {name: mine, seeds: 1}\ngroups: [{configs: [sgformer-cora], label: SGFormer}]\n"
    )
    assert command("sweep", "mine.yaml", "--dry_run").stdout.startswith("SGFormer | Cora | sgformer-cora | 1 runs")
    assert "run it in one" in command("bench", "page").stderr
    assert (installed / "graphbench/share/results/published/sgformer_table2.csv").is_file()
    guides = Path(command("--help").stdout.splitlines()[-1].rpartition(": ")[2])
    assert guides == installed / "graphbench/share/docs"
    modules = [file.read_text() for file in (installed / "graphbench").rglob("*.py")]
    named = {name for text in modules for name in re.findall(r"\bdocs/([\w.-]+\.md)", text)}
    assert len(named) > 5
    assert not {name for name in named if not (guides / name).is_file()}
    pytest.importorskip("rdkit")
    own = command("train", *write_everything(tmp_path))
    assert own.returncode == 0, own.stderr
    shown = command("tables", "results").stdout
    assert all(f"| {name} " in shown for name in TRAINED), shown
    (tmp_path / "own.yaml").write_text("_base_: configs/quickstart.yaml\n")
    assert command("check", "own.yaml").returncode == 0
