"""``scripts/prepare.py``: what it leaves on disk, and what it says when something is missing."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from graphbench.commands.prepare import main
from graphbench.sweeps.progress import SweepProgress
from graphbench.sweeps.shards import ShardSpec
from graphbench.sweeps.work_item import WorkItem
from graphbench.sweeps.worker import read_spec, written
from tests.paths import ROOT

PEPTIDES = "OGB/peptides-functional"
TINY = """
_base_: {root}/configs/synthetic/pattern-gps.yaml
dataset:
  dir: {data}
  SBM: {{train_graphs: 6, val_graphs: 2, test_graphs: 2}}
"""


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", "")
    monkeypatch.delenv("GRAPHBENCH_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO")


def _tiny(folder: Path, name: str = "tiny.yaml", more: str = "") -> str:
    (folder / name).write_text(TINY.format(root=ROOT, data=folder / "data") + more)
    return str(folder / name)


def test_encodings_are_computed_once_and_found_by_the_next_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main([_tiny(tmp_path)]) == 0
    assert "encodings: LapPE, RWSE; ready after" in capsys.readouterr().out
    assert "computing LapPE, RWSE of 10 graphs" in caplog.text
    kept = {path.name for path in (tmp_path / "data/.cache/transforms").glob("*.safetensors")}
    assert len(kept) == 2
    caplog.clear()
    assert main([_tiny(tmp_path), "--offline"]) == 0
    assert "computing" not in caplog.text
    assert main([_tiny(tmp_path, "other.yaml", "posenc_LapPE: {eigen: {max_freqs: 3}}\n")]) == 0
    assert "computing LapPE of 10 graphs" in caplog.text


LINKS = """
dataset: {{format: custom, name: links, task: link_pred, task_type: classification, transductive: true,
          split_mode: random, split: [0.6, 0.2, 0.2], custom: {{path: links.pt}}, node_encoder: true,
          node_encoder_name: LinearNode+LapPE, edge_encoder: false, dir: {data}}}
posenc_LapPE: {{enable: true, model: DeepSet, dim_pe: 2, eigen: {{max_freqs: 2}}}}
gt: {{layer_type: GCN, dim_hidden: 8}}
gnn: {{head: link_pred, dim_inner: 8}}
"""


def test_encodings_of_links_are_those_of_a_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    ring = torch.stack([torch.arange(12), torch.arange(1, 13) % 12])
    torch.save({"x": torch.ones(12, 1), "edge_index": torch.cat([ring, ring.flip(0)], 1)}, tmp_path / "links.pt")
    Path("links.yaml").write_text(LINKS.format(data=tmp_path / "data"))
    for told in ("computing LapPE of 1 graphs, 12 nodes", ""):
        caplog.clear()
        assert main(["links.yaml"]) == 0
        assert "encodings: LapPE; ready after" in capsys.readouterr().out
        assert told in caplog.text if told else "computing" not in caplog.text
    assert main(["links.yaml", "--shards", "2"]) == 2
    assert "links is one graph, whose encodings are computed for every split" in capsys.readouterr().err


def test_encodings_in_shards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    name = _tiny(tmp_path)
    assert main([name, "--shards", "2", "--shard", "1"]) == 0
    assert "encodings: shard 1 of 2 is there, others are missing; ready after" in capsys.readouterr().out
    assert "computing LapPE, RWSE" not in caplog.text
    assert "computing LaplacianPE, RandomWalkSE of 5 graphs from number 5, shard 1 of 2" in caplog.text
    assert main([name, "--shards", "2"]) == 0
    assert "encodings: LapPE, RWSE; ready after" in capsys.readouterr().out
    assert caplog.text.count("of 5 graphs from number 5") == 1
    assert caplog.text.count("of 5 graphs from number 0, shard 0 of 2") == 1
    assert main([name]) == 0
    assert "computing LapPE" not in caplog.text
    with pytest.raises(SystemExit, match="2"):
        main([name, "--shards", "2", "--shard", "2"])
    assert "--shard must lie in 0 .. N - 1 of --shards N; received 2 of 2" in capsys.readouterr().err


@pytest.mark.slow
def test_processes_compute_the_shards_that_are_missing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name = _tiny(tmp_path)
    assert main([name, "--shards", "3", "--shard", "1"]) == 0
    capfd.readouterr()
    assert main([name, "--shards", "3", "--jobs", "1"]) == 0
    said = capfd.readouterr()
    assert "encodings: LapPE, RWSE; ready after" in said.out
    assert "[2/3] LapPE, RWSE / SBM-PATTERN (tiny shard 0 of 3): done" in said.err
    (log,) = (tmp_path / "data").glob("**/shards.log")
    numbers = [line.split("shard ")[1][0] for line in log.read_text().splitlines() if "graphs from number" in line]
    assert numbers == ["0", "2"]
    assert main([name, "--shards", "3", "--launcher", "slurm"]) == 0, "nothing is left to submit"


def test_a_shard_that_fails_is_told_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def launch(items: Sequence[WorkItem], progress: SweepProgress, jobs: int | None) -> None:
        """A cluster of which one machine lacks the file."""
        for item in items:
            spec = read_spec(json.loads(json.dumps(written(item.spec()))))
            assert isinstance(spec, ShardSpec)
            if spec.number:
                spec = dataclasses.replace(spec, config_hash="of another file")
            progress.started(item)
            progress.ended(item, spec.run())

    monkeypatch.setattr("graphbench.sweeps.ray.launch", launch)
    assert main([_tiny(tmp_path), "--shards", "2", "--launcher", "ray"]) == 3
    said = capfd.readouterr().err
    assert "failed: LapPE, RWSE / SBM-PATTERN (tiny shard 1 of 2), log: " in said
    assert "tiny.yaml was changed after the shards were begun. Start them again." in said
    assert "error: tiny: 1 of 2 shards failed, the others are kept." in said
    assert main([_tiny(tmp_path), "--shards", "2"]) == 0


def test_a_job_array_of_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = _tiny(tmp_path)
    main([name, "--shards", "5", "--shard", "3"])
    capsys.readouterr()
    command = [name, "--shards", "5", "--launcher", "slurm", "--dry_run", "--jobs", "2", "--slurm", "time=1:00:00"]
    assert main([*command, "runs=2"]) == 0
    script, _, told = capsys.readouterr().out.partition("tiny.yaml: ")
    assert "#SBATCH --array=0-1%2\n" in script, "four shards, two per job"
    assert "#SBATCH --time=1:00:00\n" in script
    assert "-m graphbench.sweeps.slurm_array" in script
    assert "in 5 shards, not all of which are there" in told
    assert not list((tmp_path / "data").glob("**/array-0")), "a dry run leaves nothing behind"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--jobs", "2"], "--jobs and --launcher start the shards of --shards N, without --shard"),
        (["--shards", "2", "--shard", "0", "--launcher", "ray"], "--jobs and --launcher start the shards of --shards"),
        (["--shards", "2", "--dry_run"], "--dry_run needs --launcher slurm"),
        (["--shards", "2", "--wait"], "--wait and --slurm need --launcher slurm"),
    ],
)
def test_options_that_contradict_each_other(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["tiny.yaml", *options])
    assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_shards_go_through_ray(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ray", reason="no Ray here: pip install 'graphbench-gt[ray]'")
    assert main([_tiny(tmp_path), "--shards", "2", "--launcher", "ray", "--jobs", "2"]) == 0
    said = capfd.readouterr()
    assert "encodings: LapPE, RWSE; ready after" in said.out
    assert "[2/2] LapPE, RWSE / SBM-PATTERN (tiny shard " in said.err
    (log,) = (tmp_path / "data").glob("**/shards.log")
    assert log.read_text().count("of 5 graphs from number") == 2


@pytest.mark.slow
def test_ctrl_c_says_what_is_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("graphbench.commands.prepare.prepare", interrupted)
    assert main(["PyG-ZINC/subset"]) == 130
    assert capsys.readouterr().err == "interrupted: what was finished is kept.\n"


def test_offline_says_once_per_data_set_what_is_missing_and_prepares_the_rest(tmp_path: Path) -> None:
    peptides = f"{ROOT}/configs/_base_/data/peptides-func.yaml"
    names = (PEPTIDES, peptides, "PyG-ZINC/subset", _tiny(tmp_path))
    command = [sys.executable, str(ROOT / "scripts/prepare.py"), *names, "--offline", "--dir", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("error: ") == 2
    assert f"the raw files of Peptides-func are in none of {tmp_path}/data" in done.stderr
    assert "(downloads are switched off). Put these files below" in done.stderr
    assert "peptides-functional/raw/peptide_multi_class_dataset.csv.gz   from https://" in done.stderr
    assert "ZINC/raw/train.pickle" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.count("ready after") == 1


def test_every_class_of_pytorch_geometric_can_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRAPHBENCH_CACHE", str(tmp_path / "cache"))
    assert main(["PyG-FakeDataset/fake", "--dir", str(tmp_path)]) == 0
    assert "PyG-FakeDataset/fake" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.yaml", "no such configuration file: 'nowhere.yaml'"),
        ("Cora", "'Cora' is neither a YAML file nor format/name"),
        ("PyG-Zinc/subset", "PyG-ZINC"),
        ("PyG-ZINC/small", "subset"),
    ],
)
def test_names_that_do_not_exist(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--offline"]) == 2
    assert message in capsys.readouterr().err
