"""From entries to runs: checked together, one run at a time, chosen by name."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Never

import pytest
from rich.console import Console

from graphbench.config import load_config
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.errors import UserError
from graphbench.factory.data import read_data
from graphbench.preflight import check
from graphbench.published.table import COLUMNS
from graphbench.run_inputs import run_inputs
from graphbench.runs.data_facts import DataFacts
from graphbench.runs.record import RunRecord
from graphbench.sweeps import Sweep, launchers, read_sweep
from graphbench.sweeps.cli import main
from graphbench.sweeps.plan import plan, select, set_aside
from graphbench.sweeps.progress import SweepProgress
from graphbench.sweeps.run_spec import RunResult, RunSpec, capture_result
from graphbench.sweeps.worker import execute
from tests.paths import ROOT

CONFIGS = ROOT / "configs"
GCN = CONFIGS / "nodes/gcn-cora.yaml"
IMDB = CONFIGS / "tu/gt-imdb-b.yaml"
CHAMELEON = CONFIGS / "nodes/gcn-chameleon.yaml"


def written(tmp_path: Path, *groups: str, head: str = "") -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "\n".join([f"sweep: {{name: mine, seeds: 2{head}}}", "groups:", *(f"  - {group}" for group in groups)])
    )
    return path


def read(tmp_path: Path, *groups: str, head: str = "") -> Sweep:
    return read_sweep(written(tmp_path, *groups, head=head), ["out_dir", str(tmp_path / "out")])


@pytest.mark.parametrize(("file", "run_id", "seed", "split"), [(GCN, 125, 125, 0), (CHAMELEON, 4, 123, 4)])
def test_one_run_is_part_of_the_whole(file: Path, run_id: int, seed: int, split: int) -> None:
    whole = load_config(file, ["optim.max_epoch", "3"])
    repeat = 1 if whole.tree.run_multiple_splits else 5
    one = check(whole, repeat=repeat, only=[run_id])
    (run,) = one.runs
    assert (run.run_id, run.seed, run.split_index) == (run_id, seed, split)
    assert run in check(whole, repeat=repeat).runs
    assert one.config.hash == whole.hash
    assert one.config.dump() == whole.dump()
    assert one.config.name == whole.name
    assert one.config.where("optim.max_epoch") == "command line"


@pytest.mark.parametrize(
    ("file", "keys", "message"),
    [
        (CHAMELEON, "run_multiple_splits: [0, 10]", "split_index 10 does not exist. Allowed: 0 .. 9."),
        (CHAMELEON, "run_multiple_splits: [], dataset.split_index: 12", "split_index 12 does not exist."),
        (GCN, "dataset.split_mode: standard, run_multiple_splits: [0, 1]", "1 does not exist. Allowed: 0 .. 0."),
        (GCN, "dataset.split_mode: geom-gcn, dataset.split_index: 10", "10 does not exist. Allowed: 0 .. 9."),
        (GCN, "dataset.split_mode: random, dataset.split_index: 1", "split_index must be 0, received 1."),
        (IMDB, "dataset.split_mode: cv-kfold-4, run_multiple_splits: [4]", "4 does not exist. Allowed: 0 .. 3."),
    ],
)
def test_a_split_that_does_not_exist_shows_in_the_plan(
    file: Path,
    keys: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("GRAPHBENCH_DATA", raising=False)
    sweep = written(tmp_path, f"{{configs: [{file}], label: a, common: {{{keys}}}}}")
    for more in (["--dry_run"], []):
        assert main([str(sweep), *more, "out_dir", str(tmp_path / "out"), "dataset.dir", str(tmp_path)]) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"error: {sweep}:3: ")
        assert told.count(f"{sweep}:3: ") == 2  # of the entry, and of the key
        assert message in told
    assert not (tmp_path / "out").exists()


def test_entries_that_fill_one_cell_are_refused(tmp_path: Path) -> None:
    sweep = read(tmp_path, f"{{configs: [{GCN}], variants: [{{label: a}}, {{label: a, name_tag: b}}]}}")
    message = r"mine.yaml:3: two entries for the cell 'a, Cora': gcn-cora and gcn-cora-b\."
    with pytest.raises(UserError, match=message):
        plan(sweep, sweep.entries)
    sweep = read(tmp_path, f"{{configs: [{GCN}], variants: [{{label: a}}, {{label: a, column: b, name_tag: b}}]}}")
    assert [entry.column for entry in plan(sweep, sweep.entries)] == ["Cora", "b"]


@pytest.mark.parametrize(
    ("published", "group", "message"),
    [
        ("sgformer_tabel2", "", "mine.yaml:1: unknown published table 'sgformer_tabel2'. Did you mean 'sgformer_tab"),
        ("paper.csv", "", "mine.yaml:1: there is no file "),
        ("sgformer_table2", ', variants: [{published: "spilt=x"}]', "mine.yaml:3: unknown part of the published table"),
        ("sgformer_table5", "", "mine.yaml:3: 10 values of the published table sgformer_table5 fit 'GCN' on Cora."),
        ("", ', variants: [{published: "split=x"}]', "mine.yaml:3: published needs a table"),
        (
            "",
            f"}}\n  - {{configs: [{CHAMELEON}], label: b, variants: [{{column: Cora}}]",
            "mine.yaml:4: the column 'Cora'",
        ),
    ],
)
def test_what_the_table_would_refuse_is_refused_before_training(
    tmp_path: Path, published: str, group: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head = f", published: {published}" if published else ""
    file = written(tmp_path, f"{{configs: [{GCN}], label: GCN{group}}}", head=head)
    assert main([str(file), "--out_dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}/{message}")
    assert sorted(tmp_path.iterdir()) == [file]


def test_a_published_table_of_ones_own_lies_beside_the_sweep(tmp_path: Path) -> None:
    line = "Mine,1,GCN,Cora,,accuracy_percent,higher,81.6,0.4,5,,"
    (tmp_path / "paper.csv").write_text(f"{','.join(COLUMNS)}\n{line}\n")
    sweep = read(tmp_path, f"{{configs: [{GCN}], label: GCN}}", head=", published: paper.csv")
    assert plan(sweep, sweep.entries)
    assert sweep.published is not None
    assert (sweep.published.title, sweep.published.file) == ("Mine, Table 1", f"{tmp_path}/paper.csv")


def test_a_dry_run_says_how_far_the_runs_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = read(tmp_path, f"{{configs: [{GCN}], label: a}}", head="").entries[0].config
    for seed, status in ((123, "failed"), (124, "running")):
        data = DataFacts("Cora", fingerprint="")
        facts = {"config": sweep.name, "config_hash": sweep.hash, "seed": seed, "run_id": str(seed), "data": data}
        record = RunRecord.start(**facts, metric="accuracy", maximize=True, params=1)
        dataclasses.replace(record, status=status).write(tmp_path / "out/gcn-cora" / str(seed) / "record.json")
    assert main([str(tmp_path / "mine.yaml"), "--dry_run", "--out_dir", str(tmp_path / "out")]) == 0
    assert " | 2 runs, 0 finished, 1 failed, 1 running | " in capsys.readouterr().out


def test_a_damaged_run_folder_is_told_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = read(tmp_path, f"{{configs: [{GCN}], label: a}}")
    damaged = tmp_path / "out/gcn-cora/124"
    (damaged / "ckpt").mkdir(parents=True)
    assert plan(sweep, sweep.entries), "an empty folder was killed before its record was written"
    for name in ("ckpt/best.ckpt", "record.json"):
        (damaged / name).touch()
        assert main([str(tmp_path / "mine.yaml"), "--dry_run", "--out_dir", str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err
        assert f"mine.yaml:3: gcn-cora (a): {damaged}: holds results without a readable record.json" in said
    (moved,) = set_aside(plan(sweep, sweep.entries, overwrite=True))
    assert moved.name.startswith("124.old-")
    assert plan(sweep, sweep.entries)


@pytest.mark.parametrize("other", ["plug-in", "data"])
def test_what_is_moved_aside_is_trained_again(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").touch()
    common = f"plugins: [{tmp_path}/mine.py], dataset.SBM.train_graphs: 4, dataset.SBM.val_graphs: 2"
    sweep = read(tmp_path, f"{{configs: [{CONFIGS}/quickstart.yaml], label: a, common: {{{common}}}}}")
    (entry,) = plan(sweep, sweep.entries)
    config = entry.checked.config
    loaded = read_data(config)
    for run in entry.checked.runs:
        inputs = run_inputs(config, loaded, run)
        made_of = {
            name: "another" if name.startswith(other) and run.run_id == 1 else digest
            for name, digest in inputs.identity.inputs.items()
        }
        facts = {"config": config.name, "config_hash": config.hash, "seed": run.seed, "run_id": str(run.run_id)}
        record = RunRecord.start(**facts, data=inputs.data, inputs=made_of, metric="accuracy", maximize=True, params=1)
        dataclasses.replace(record, status="finished").write(entry.checked.directory(run).path / "record.json")
    launched = []
    monkeypatch.setattr(launchers, "launch", lambda items, *_: launched.extend(items))
    arguments = [str(tmp_path / "mine.yaml"), "--out_dir", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert f"holds a run (finished) of another {other}" in capsys.readouterr().err
    main([*arguments, "--overwrite"])
    assert [item.name for item in launched] == ["a / SBM-PATTERN (quickstart 1)"]
    said = capsys.readouterr().err
    assert "2 runs, 1 finished already." in said
    assert re.search(r"moved aside: .*/quickstart/1\.old-", said)


def test_seeds_together_are_one_piece_of_work(tmp_path: Path) -> None:
    sweep = read(tmp_path, f"{{configs: [{GCN}], label: a}}")
    (entry,) = plan(sweep, sweep.entries, together=True)
    (item,) = entry.missing
    spec = RunSpec.from_plain(json.loads(json.dumps(item.spec().plain())))
    assert (spec, spec.run_ids, spec.together, spec.repeat) == (item.spec(), (123, 124), True, 2)
    assert item.name == "a / Cora (gcn-cora 123,124)"
    assert item.keys == tuple(each.keys[0] for each in plan(sweep, sweep.entries)[0].missing)
    part = item.limited_to(item.keys[1:])
    assert part is not None
    assert (part.key, part.spec().run_ids, part.spec().together) == (item.keys[1], (124,), False)
    assert item.limited_to([]) is None


def test_together_is_for_trainings_in_one_process(tmp_path: Path) -> None:
    search = f"{{configs: [{GCN}], label: a, search: {{gnn.dropout: {{low: 0.0, high: 0.5}}}}}}"
    sweep = read(tmp_path, search)
    with pytest.raises(UserError, match=r"mine.yaml: --together and 3 trials exclude each other"):
        plan(sweep, sweep.entries, trials=3, together=True)
    sweep = read(tmp_path, f"{{configs: [{GCN}], label: a, common: {{profile: 3}}}}")
    with pytest.raises(UserError, match=r"mine.yaml:3: --together is for trainings in one process: PyTorch's profiler"):
        plan(sweep, sweep.entries, together=True)


def test_what_cannot_be_built_is_blamed_on_the_line_of_the_sweep(tmp_path: Path) -> None:
    sgformer, wrong = CONFIGS / "nodes/sgformer-cora.yaml", "{gt.TwoBranch.graph_weight: 2.0}"
    sweep = read(tmp_path, f"{{configs: [{GCN}], label: a}}", f"{{configs: [{sgformer}], label: b, common: {wrong}}}")
    message = r"^.*mine.yaml:4: sgformer-cora \(b\): .*mine.yaml:4: .*graph_weight must lie in \[0, 1\], received 2"
    with pytest.raises(UserError, match=message):
        plan(sweep, sweep.entries)


def test_several_devices_are_refused(tmp_path: Path) -> None:
    sweep = read(tmp_path, f"{{configs: [{GCN}], label: a, common: {{devices: 2, accelerator: cpu}}}}")
    message = r"mine.yaml:3: gcn-cora needs 2 devices; a sweep runs every training in one process\."
    with pytest.raises(UserError, match=message):
        plan(sweep, sweep.entries)


def test_entries_are_chosen_by_label_column_or_folder(tmp_path: Path) -> None:
    sweep = read(
        tmp_path,
        f"{{configs: [{GCN}], label: GCN, variants: [{{column: 1 %, name_tag: r1}}, {{column: 2 %, name_tag: r2}}]}}",
        f"{{configs: [{CONFIGS}/nodes/mlp-cora.yaml], label: MLP}}",
    )

    def chosen(*patterns: str) -> list[str]:
        return [entry.config.name for entry in select(sweep, patterns)]

    assert chosen() == ["gcn-cora-r1", "gcn-cora-r2", "mlp-cora"]
    assert chosen("gcn") == ["gcn-cora-r1", "gcn-cora-r2"]
    assert chosen("mlp", "1 %") == ["gcn-cora-r1", "mlp-cora"], "in the order of the file"
    assert chosen("*-r2") == ["gcn-cora-r2"]
    with pytest.raises(UserError, match=r"^--only: unknown entry 'GCM'. Did you mean 'GCN'\?"):
        chosen("MLP", "GCM")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.yaml"], r"error: 'nowhere.yaml' cannot be read"),
        (["quick-sgformr"], r"error: 'quick-sgformr' cannot be read: .*Did you mean 'quick-sgformer'\?"),
        (["{sweep}", "optim.max_epoch"], r"error: command line: overrides come in pairs KEY VALUE"),
        (["{sweep}", "--only", "GCN", "optim.max_epoch", "2"], r"error: --only: unknown entry 'optim.max_epoch'"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    sweep = read(tmp_path, f"{{configs: [{GCN}], label: GCN}}").path
    assert main([argument.format(sweep=sweep) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert re.match(message, said)
    assert said.count("\n") == 1


def test_jobs_are_counted_from_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["some.yaml", "--jobs", "0"])
    assert "argument --jobs: must be a whole number of at least 1, received 0" in capsys.readouterr().err


def test_a_search_is_announced_as_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = read(tmp_path, f"{{configs: [{GCN}], label: GCN, search: {{gnn.layers_mp: {{choices: [1, 2]}}}}}}")
    assert main([str(sweep.path), "--dry_run"]) == 0
    assert "search over gnn.layers_mp is not run (--trials); entries keep their own values." in capsys.readouterr().err


def test_a_worker_refuses_what_is_no_longer_what_was_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"_base_: {GCN}\n")
    checked = load_config(file)
    file.write_text(f"_base_: {GCN}\ngnn:\n  dim_inner: 8\n")
    spec = RunSpec(file, ("out_dir", str(tmp_path)), {}, 1, (123,), checked.hash, tmp_path / "sweep.log")
    result = spec.run()
    assert result.status == "failed"
    assert f"mine.yaml: hash {checked.hash} when the sweep began, {load_config(file).hash} now" in result.reason
    assert not (tmp_path / "mine").exists()


def test_a_log_that_cannot_be_written_is_a_failed_run(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("where the folder of the entry should be")
    result = execute(RunSpec(GCN, (), {}, 1, (123,), "", tmp_path / "mine/sweep.log"))
    assert result.status == "failed"
    assert result.reason.startswith(f"{tmp_path / 'mine'}: File exists. Choose another path")


def test_a_defect_is_a_failed_run_with_its_traceback_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def train() -> Never:
        raise OSError("a defect")

    result = capture_result(train, tmp_path / "sweep.log")
    assert result == RunResult("failed", f"OSError: a defect (traceback in {tmp_path / 'sweep.log'})")
    assert 'raise OSError("a defect")' in capsys.readouterr().err


def test_a_run_that_fails_in_a_plug_in_says_where(tmp_path: Path) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text(
        "from graphbench.layers.contract import GlobalAttention\nfrom graphbench.registry import register\n\n"
        '@register("Defect")\nclass Defect(GlobalAttention):\n'
        "    def __init__(self):\n        super().__init__()\n        raise OSError('a defect')\n"
        "    def forward(self, h, e, batch):\n        return h\n"
    )
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"_base_: {CONFIGS}/nodes/sgformer-cora.yaml\nplugins: [broken.py]\ngt: {{layer_type: GCN+Defect}}\n"
    )
    config = load_config(file)
    result = RunSpec(file, (), {}, 1, (123,), config.hash, tmp_path / "sweep.log").run()
    assert result.status == "failed"
    assert result.reason.startswith(f"{plugin}:8: in Defect.__init__: OSError: a defect.")


def test_a_terminal_shows_what_is_running_and_what_failed(tmp_path: Path) -> None:
    sweep = read(tmp_path, f"{{configs: [{GCN}], label: GCN}}")
    (planned,) = plan(sweep, sweep.entries)
    first, second = planned.missing
    screen = Console(file=io.StringIO(), force_terminal=True, width=120, height=30, color_system=None)
    with SweepProgress(2, 0, screen) as progress:
        progress.started(first)
        progress.started(second)
        assert "0 of 2 done, 2 running, 0 waiting, 0 failed" in screen.file.getvalue()
        line = {"metric": "accuracy", "test": {"accuracy": 0.815}, "val": {"accuracy": 0.79}}
        progress.ended(first, RunResult("finished", line=line))
        progress.ended(second, RunResult("failed", "no reason [bold]at all[/]"))
    shown = screen.file.getvalue()
    assert "1 of 2 done, 1 running, 0 waiting, 0 failed, about" in shown
    assert "best so far on Cora, validation accuracy: GCN 0.7900 (runs: 1)" in shown
    assert "[1/2] GCN / Cora (gcn-cora 123): test accuracy 0.8150 (0:00)" in shown
    assert "[2/2] GCN / Cora (gcn-cora 124): FAILED: no reason [bold]at all[/] (0:00)" in shown
    assert [(failure.item, failure.reason) for failure in progress.failures] == [(second, "no reason [bold]at all[/]")]


@pytest.mark.parametrize("num_examples", [101, 890, 2708])
def test_training_shares_lie_inside_each_other_and_leave_the_rest_alone(num_examples: int) -> None:
    for seed in (0, 123):
        whole = larger = make_splits("random", SplitRequest(num_examples, seed=seed, sizes=[0.5, 0.25, 0.25]))
        for share in (0.4, 0.3, 0.2, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01):
            split = make_splits("random", SplitRequest(num_examples, seed=seed, sizes=[share, 0.25, 0.25]))
            assert split.train.numel() == int(round(share * 100) * num_examples // 100)
            assert split.val.equal(whole.val)
            assert split.test.equal(whole.test)
            assert set(split.train.tolist()) <= set(larger.train.tolist())
            larger = split
    other = make_splits("random", SplitRequest(num_examples, seed=1, sizes=[0.5, 0.25, 0.25]))
    assert not other.test.equal(whole.test)


def test_a_share_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match=r"split_mode 'random': 0.001 of 100 examples is no training example at all\."):
        make_splits("random", SplitRequest(100, seed=0, sizes=[0.001, 0.25, 0.25]))
    with pytest.raises(UserError, match=r"must be positive and add up to 1 at most, received \[0.6, 0.25, 0.25\]"):
        make_splits("random", SplitRequest(100, seed=0, sizes=[0.6, 0.25, 0.25]))


@pytest.mark.parametrize("error", [BrokenPipeError(), SystemExit(1)])
def test_messages_that_nobody_reads_interrupt_a_sweep(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(*_: object, **__: object) -> None:
        raise error

    screen = Console(file=io.StringIO())
    monkeypatch.setattr(screen, "print", closed)
    with SweepProgress(1, 0, screen) as progress, pytest.raises(KeyboardInterrupt, match="a closed output pipe"):
        progress.note("done")
