"""Commands of README and guides, run in the order in which they stand; YAML blocks loaded and built.

What takes hours is shortened by arguments that are appended: trainings on published data by ``--dry_run`` (data is not
read, all else is checked and the model is built), those on generated graphs by fewer and smaller ones; shards are two,
of generated graphs; tables of a sweep are made from its stored records. Pages that are programs are run word by word in
test_examples.py, test_python_api.py, test_custom_data_guide.py and nn/test_nn.py.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from graphbench import build_model, console, registry
from graphbench.commands import train
from graphbench.config import load_config
from graphbench.factory.batch_dependence import TOLERANCE, batch_dependence
from graphbench.runs.records import record_source
from tests.paths import ROOT
from tests.test_docs import COMMANDS, GUIDES
from tests.test_main import TINY

PAGES = [path for path in GUIDES if path.parent.name not in ("measured", "examples")]  # these run in other tests
WITH_COMMANDS = sorted({path for path, _ in COMMANDS} & set(PAGES))
ELSEWHERE = {
    "bash scripts/run.sh": "test_reproduce.py",
    "bash scripts/test.sh": "this suite",
    "graphbench reproduce": "commands/test_reproduce.py",
    "graphbench plots surrogate": "plots/test_surrogate.py",
    "graphbench plots decay": "plots/test_decay.py",
    "graphbench plots layers": "plots/test_layers.py",
    "graphbench plots focal": "plots/test_focal.py",
    "graphbench plots scaling": "plots/test_scaling.py",
    "graphbench export results/rings/0 --out rings-compiled": "predict/test_program.py",
    "graphbench sweep sgformer-table2 --launcher ray": "sweeps/test_ray.py",
    "graphbench sweep sgformer-table2 --launcher slurm": "sweeps/test_slurm.py",
}
"""Beginnings of commands that other tests run, on runs and clusters of their own."""
STORED = {"sgformer-cora": "sgformer-table2", "gcn-cora": "sgformer-table2", "gps-nci1": "first-results"}
"""Runs that a reader has trained by then -> the records of them that are stored."""
GENERATED = ("quickstart", "quickstart-gps")
OWN = ("rings", "my_task")
FEWER = {"64": "2", "8": "2"}
"""Shards and processes that prepare a data set."""
SHORT = ("optim.max_epoch", "2", "print", "file")
SMALL = (*TINY, "gt.layers", "2", "print", "file")


def _blocks(guide: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", guide.read_text(), re.DOTALL)


def _elsewhere(words: list[str]) -> bool:
    return any(" ".join(words).startswith(start) for start in ELSEWHERE)


def _arguments(words: list[str]) -> list[str]:
    """For the command ``graphbench``, shortened."""
    word, rest = words[1], words[2:]
    if word == "train":
        given = {Path(file).stem for file in train._parse(rest).cfg}
        if given <= set(GENERATED):
            return [word, *rest, *SMALL]
        if given <= set(OWN):
            return [word, *rest, *SHORT]
        return [word, *rest, *([] if "--dry_run" in rest else ["--dry_run"])]
    if word == "prepare":
        return [word, *(GENERATED[1] if "peptides" in each else FEWER.get(each, each) for each in rest)]
    if word == "sweep" and "--dry_run" not in rest:
        return [word, *rest, "--dry_run"]
    if word == "tables" and "--sweep" in rest and "--records" not in rest:
        stored = f"results/measured/records/{rest[rest.index('--sweep') + 1]}.jsonl"
        return [word, *rest, "--records", stored if Path(stored).exists() else "results"]
    return [word, *rest]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in small, with what a reader has made before: own graphs, trained runs, older files."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "configs").symlink_to(ROOT / "configs")
    for name in ("published", "measured"):
        (folder / "results").mkdir(exist_ok=True)
        (folder / "results" / name).symlink_to(ROOT / "results" / name)
    for config, packed in STORED.items():
        source = record_source(ROOT / f"results/measured/records/{packed}.jsonl" / config)
        for run_id, record in source.records(source.run_ids()).items():
            assert record is not None
            record.write(folder / "results" / config / run_id / "record.json")
    for guide in PAGES:
        for name, text in re.findall(r"```yaml\n# (?:file: )?([\w.-]+\.yaml)\n(.*?)```", guide.read_text(), re.DOTALL):
            (folder / name).write_text(text)
    shutil.copy(folder / "rings.yaml", folder / "my_task.yaml")
    custom = ROOT / "docs/custom-data.md"
    [made] = [block for block in _blocks(custom, "python") if "torch.save" in block]
    [function] = [block for block in _blocks(custom, "python") if "def rings" in block]
    (folder / "my_graphs.py").write_text(function)
    (folder / "my_split.json").write_text(_blocks(custom, "json")[0])
    [search] = [block for block in _blocks(ROOT / "docs/sweeps.md", "yaml") if "search:" in block]
    (folder / "my-search.yaml").write_text(search)
    for place in ("path/to", "your/old/GraphGPS"):
        (folder / place).mkdir(parents=True)
        old = f"_base_: {ROOT}/configs/gnnbench/gps-zinc.yaml\n"
        (folder / place / "zinc-GPS+RWSE.yaml").write_text(old)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(compile(made, "docs/custom-data.md", "exec"), {})
        for name in ("new.pt", "new_graphs.pt", "known_graphs.pt"):
            shutil.copy("my_graphs.pt", name)
        assert console.main(["train", *GENERATED, *SMALL, "--repeat", "2"]) == 0
        assert console.main(["train", "rings.yaml", "--repeat", "2", *SHORT]) == 0
    return folder


def test_what_runs_elsewhere_is_in_the_guides() -> None:
    commands = [" ".join(words) for _, words in COMMANDS]
    assert all(any(command.startswith(start) for command in commands) for start in ELSEWHERE)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("guide", WITH_COMMANDS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_commands_of_a_guide(
    guide: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workplace)
    monkeypatch.setattr(sys, "argv", ["graphbench"])
    commands = [words for path, words in COMMANDS if path == guide and not _elsewhere(words)]
    for words in commands:
        arguments = [
            str(file) for each in _arguments(words) for file in (sorted(Path().glob(each)) if "*" in each else [each])
        ]
        code = console.main(arguments)
        assert code == 0, f"{' '.join(words)}\n{capsys.readouterr().err[-2000:]}"


@pytest.mark.parametrize("guide", [path for path in PAGES if _blocks(path, "yaml")], ids=lambda path: path.stem)
def test_yaml_blocks_are_configurations_that_build(
    guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that are part of a file are laid over the quickstart; sweep files are planned in sweeps/test_guide.py."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "my_additions.py").write_text(_plug_ins())
    for block in _blocks(guide, "yaml"):
        if re.search(r"^(sweep:|- \{)", block, re.MULTILINE):
            continue
        text = _with_plug_ins(block)
        if "_base_" not in text and "gnn:" not in text:
            text = f"_base_: configs/quickstart.yaml\n{text}"
        (tmp_path / "block.yaml").write_text(text)
        config = load_config(tmp_path / "block.yaml")
        if config.tree.dataset.format not in ("custom",) and not config.tree.dataset.format.startswith("PyG-Fake"):
            assert sum(each.numel() for each in build_model(config).parameters()) > 0


def _plug_ins() -> str:
    """CONTRIBUTING's layer, and its encoder with the transform that it reads."""
    return "\n".join(block for block in _blocks(ROOT / "CONTRIBUTING.md", "python") if "@register(" in block)


def _with_plug_ins(block: str) -> str:
    return block.replace("_base_: quickstart.yaml", "_base_: configs/quickstart.yaml\nplugins: [my_additions.py]")


ADDED = {"MeanField": "layers/attention", "DegreeSE": "encoders/positional"}


@pytest.mark.parametrize("name", ADDED)
def test_additions_of_the_guide_predict(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word by word, data and encodings included: what stands in ``batch.pe`` under another key is read by nobody."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "my_additions.py").write_text(_plug_ins())
    [yaml] = [block for block in _blocks(ROOT / "CONTRIBUTING.md", "yaml") if name in block]
    (tmp_path / "block.yaml").write_text(_with_plug_ins(yaml))
    config = load_config(tmp_path / "block.yaml", TINY)
    component = registry.lookup(ADDED[name], name)
    called: list[object] = []
    forward = component.forward
    monkeypatch.setattr(component, "forward", lambda *given: called.append(given) or forward(*given))
    dependence = batch_dependence(config)
    assert called
    assert dependence is not None
    assert not dependence.is_random
    assert dependence.change < TOLERANCE
