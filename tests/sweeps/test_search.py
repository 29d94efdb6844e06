"""Searches: studies that several processes share and that survive them, trials that are ordinary runs."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.runs.identity import RunIdentity
from graphbench.sweeps import read_sweep
from graphbench.sweeps.cli import main
from graphbench.sweeps.plan import PlannedEntry, plan, search_status
from graphbench.sweeps.search import SearchDimension, SearchPlan
from graphbench.sweeps.study import Study
from graphbench.sweeps.trial import Pruning
from graphbench.train.reporter import EpochReport, StartReport
from tests.paths import ROOT

optuna = pytest.importorskip("optuna")

GCN = ROOT / "configs/nodes/gcn-cora.yaml"
SPACE = (
    SearchDimension("optim.base_lr", None, 1e-4, 0.1, True, "mine.yaml:1"),
    SearchDimension("gnn.layers_mp", None, 1, 4, False, "mine.yaml:2"),
    SearchDimension("gnn.dropout", ("0.0", "0.5"), None, None, False, "mine.yaml:3"),
)


def search(folder: Path, /, **changes: Any) -> SearchPlan:
    facts: dict[str, Any] = {"folder": folder, "name": "gcn", "name_tag": "", "config_hash": "a", "space": SPACE}
    facts |= {"metric": "accuracy", "maximize": True, "trials": 4, "pruner": "median", "seed": 0, "max_epoch": 100}
    return SearchPlan(**facts | changes)


def test_processes_get_different_trials_until_all_are_taken(tmp_path: Path) -> None:
    studies = [Study(search(tmp_path)) for _ in range(3)]
    trials = [studies[i % 3].claim() for i in range(4)]
    assert [trial.number for trial in trials] == [0, 1, 2, 3]
    assert studies[0].claim() is None
    for trial in trials:
        assert 1e-4 <= float(trial.parameters["optim.base_lr"]) <= 0.1
        assert trial.parameters["gnn.layers_mp"] in {"1", "2", "3", "4"}
        assert trial.parameters["gnn.dropout"] in {"0.0", "0.5"}
    trials[0].complete(0.5)
    trials[1].complete(0.7)
    trials[2].fail("a reason")
    trials[3].report(5, 0.1)
    trials[3].prune()
    now = Study(search(tmp_path)).status()
    assert (now.complete, now.pruned, now.failed, now.unfinished, now.ended) == (2, 1, 1, 0, 4)
    assert (now.best, now.value, dict(now.parameters)) == (1, 0.7, trials[1].parameters)
    worst = Study(search(tmp_path / "loss", maximize=False))
    for value in (0.5, 0.7):
        worst.claim().complete(value)
    assert worst.status().value == 0.5
    assert Study(search(tmp_path, trials=5)).claim().number == 4, "a search can be made longer"


@pytest.mark.parametrize("left", [b'{"op_code": 5, "worker_id": "ab', b"\0\0\0"])
def test_half_a_line_in_the_journal_is_taken_away_by_the_next_writer(tmp_path: Path, left: bytes) -> None:
    """A full disk, or a machine that died: the next line would have been appended to it."""
    plan = search(tmp_path)
    Study(plan).claim().complete(0.5)
    plan.journal.write_bytes(plan.journal.read_bytes() + left)
    assert Study(plan).status().complete == 1
    Study(plan).claim().complete(0.7)
    assert Study(plan).status().complete == 2
    lines = plan.journal.read_text().splitlines()
    plan.journal.write_text("\n".join([lines[0][:9], *lines[1:], ""]))
    with pytest.raises(UserError, match=r"study.journal: damaged .*Put back a copy"):
        Study(plan)


def test_the_same_values_are_proposed_however_often_it_is_started(tmp_path: Path) -> None:
    def walk(folder: Path, reopened: bool, seed: int = 0) -> list[dict[str, str]]:
        study, seen = Study(search(folder, trials=14, seed=seed)), []
        for _ in range(14):
            trial = study.claim()
            seen.append(trial.parameters)
            trial.complete(float(trial.parameters["gnn.layers_mp"]) - float(trial.parameters["gnn.dropout"]))
            study = Study(search(folder, trials=14, seed=seed)) if reopened else study
        return seen

    once = walk(tmp_path / "once", reopened=False)
    assert once == walk(tmp_path / "often", reopened=True)
    assert once != walk(tmp_path / "other", reopened=False, seed=1)
    assert len({json.dumps(parameters) for parameters in once}) == 14
    layers = [int(parameters["gnn.layers_mp"]) for parameters in once]
    assert sum(layers[10:]) / 4 > sum(layers[:10]) / 10, "after ten random trials it goes where the values are better"


def _claim_and_die(plan: SearchPlan) -> None:
    trial = Study(plan).claim()
    trial.report(trial.reported + 10, 0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_trial_whose_process_is_killed_goes_on_once_and_then_counts_as_failed(tmp_path: Path) -> None:
    plan = search(tmp_path, trials=2)
    seen = []
    for _ in range(2):
        child = multiprocessing.get_context("fork").Process(target=_claim_and_die, args=(plan,))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        study = Study(plan)
        (trial,) = study._study.get_trials()
        seen.append((trial.params, trial.user_attrs["attempts"], study.status().ended))
    assert seen == [(trial.params, 1, 0), (trial.params, 2, 1)], "the second end of trial 0 is its last"
    trial = study.claim()
    assert trial.number == 1
    assert study._study.trials[0].user_attrs["reason"] == "its process was killed, 2 times"

    for _ in range(3):  # interruptions do not count
        trial.report(trial.reported + 10, 0.5)
        trial.release()
        again = study.claim()
        assert (again.number, again.parameters, again.reported) == (1, trial.parameters, trial.reported)
        trial = again
    assert study.claim() is None


def test_a_study_goes_on_only_as_what_it_was(tmp_path: Path) -> None:
    Study(search(tmp_path))
    for change in ({"config_hash": "b"}, {"space": SPACE[:2]}, {"metric": "loss"}):
        with pytest.raises(UserError, match="holds a search over another space or another configuration"):
            Study(search(tmp_path, **change))
    Study(search(tmp_path, trials=9, pruner="halving"))


def test_trials_on_other_data_are_not_compared(tmp_path: Path) -> None:
    study = Study(search(tmp_path))
    study.check_inputs(RunIdentity("a", {"data": "d" * 64, "split of seed 0": "x"}))
    study.check_inputs(RunIdentity("b", {"data": "d" * 64, "split of seed 0": "y", "plug-in mine.py": "p"}))
    for changed in ({"data": "e" * 64}, {"plug-in mine.py": "q"}):
        with pytest.raises(UserError, match=r"its trials were made of another (data|plug-in mine.py) \("):
            Study(search(tmp_path)).check_inputs(RunIdentity("c", changed))


@pytest.fixture
def planned(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlannedEntry:
    """Three trials of two runs each, on Cora."""
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    monkeypatch.setenv("GRAPHBENCH_CACHE", str(tmp_path.parent / "cache"))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"""\
sweep: {{name: mine, seeds: 2, trials: 3}}
groups:
  - configs: [{GCN}]
    label: GCN
    common: {{num_threads: 1, print: file, optim.max_epoch: 20, train.early_stop_patience: 0, name_tag: short}}
    search:
      optim.base_lr: {{low: 0.005, high: 0.02, log: true}}
      gnn.dropout: {{choices: [0.2, 0.5]}}
"""
    )
    sweep = read_sweep(file)
    return plan(sweep, sweep.entries, trials=sweep.trials)[0]


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "record.json").read_text())


def test_a_trial_is_a_run_and_the_best_one_a_configuration(
    planned: PlannedEntry, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (planned.total, planned.done, len(planned.missing)) == (3, 0, 3)
    assert not Path("results").exists()
    results = [item.spec().run() for item in planned.missing[:2]]
    assert [(result.status, result.trial) for result in results] == [("finished", 0), ("finished", 1)]
    folder = Path("results/gcn-cora-short-search")
    values = []
    for number in range(2):
        runs = [record(folder / f"gcn-cora-short-trial-{number:03d}/{seed}") for seed in (123, 124)]
        assert {run["status"] for run in runs} == {"finished"}
        scores = [s["value"] for run in runs for s in run["scores"] if (s["split"], s["name"]) == ("val", "accuracy")]
        values.append(sum(scores) / 2)
    now = search_status(planned.search)
    assert now.value == pytest.approx(max(values))
    assert values[now.best] == max(values)

    capsys.readouterr()
    assert main(["mine.yaml", "--trials", "2"]) == 0, "nothing is missing"
    assert set(Study(planned.search)._study.user_attrs["inputs"]) == {"data"}
    said = capsys.readouterr().err
    assert "mine: 1 entries, 2 trials, 2 finished already." in said
    assert f"gcn-cora-short: best of 2 trials (2 complete, 0 pruned, 0 failed) is trial {now.best}, validation" in said
    assert f"  with more seeds: graphbench train --cfg {folder}/gcn-cora-short-best.yaml --repeat 5" in said
    assert f"  all trials: graphbench tables {folder}/gcn-cora-short-trial-*" in said

    best = load_config(folder / "gcn-cora-short-best.yaml")
    trial = record(folder / f"gcn-cora-short-trial-00{now.best}/123")
    assert best.hash == trial["config_hash"], "the same run, but for its name and place"
    assert (best.name, best.tree.out_dir) == ("gcn-cora-short-best", "results")
    assert best.tree.optim.base_lr == float(dict(now.parameters)["optim.base_lr"])


def test_the_pruner_compares_the_metric_of_the_search(tmp_path: Path) -> None:
    study = Study(search(tmp_path, pruner="none"))
    trial = study.claim()
    assert trial is not None
    pruning = Pruning(trial, "accuracy", "123", max_epoch=4, same_data=True)
    pruning.start(StartReport(tmp_path / "123", 0, None, 4, "loss", 1, {}))
    best = {"val": {"loss": 0.7, "accuracy": 0.4}}
    pruning.epoch(EpochReport(0, 4, "loss", best, 0, best, True, 1.0, 1.0, 3.0))
    [recorded] = study._study.get_trials()
    assert recorded.intermediate_values == {1: 0.4}


def test_a_run_that_is_worse_than_others_is_given_up(planned: PlannedEntry) -> None:
    study = Study(planned.search)._study
    distributions = {"optim.base_lr": optuna.distributions.FloatDistribution(0.005, 0.02, log=True)}
    for _ in range(5):
        seen = {step: 0.99 for step in range(1, 21)}
        facts = {"params": {"optim.base_lr": 0.01}, "distributions": distributions, "intermediate_values": seen}
        study.add_trial(optuna.create_trial(value=0.99, **facts))
    search = dataclasses.replace(planned.search, trials=6)
    result = dataclasses.replace(planned.missing[0].spec(), search=search).run()
    assert (result.status, result.trial) == ("pruned", 5)
    assert result.reason.startswith("given up after 2 of 20 epochs: the best validation accuracy so far is 0.")
    run = record(search.folder / "gcn-cora-short-trial-005/123")
    assert (run["status"], run["reason"]) == ("pruned", result.reason)
    assert not (search.folder / "gcn-cora-short-trial-005/124").exists()
    assert study.get_trials()[5].state == optuna.trial.TrialState.PRUNED
    assert sorted(study.get_trials()[5].intermediate_values) == [1, 2]
    head = (search.folder / "gcn-cora-short-best.yaml").read_text().splitlines()[0]
    assert "best of 6 trials (5 complete, 1 pruned, 0 failed)" in head


def test_what_cannot_be_trained_is_a_failed_trial(planned: PlannedEntry, capsys: pytest.CaptureFixture[str]) -> None:
    space = (dataclasses.replace(planned.search.space[0], key="optim.base_lr", low=1e29, high=1e30),)
    search = dataclasses.replace(planned.search, space=space)
    result = dataclasses.replace(planned.missing[0].spec(), search=search).run()
    assert (result.status, result.trial) == ("failed", 0)
    assert "the training loss is" in result.reason
    assert (search_status(search).failed, search_status(search).ended) == (1, 1)
    assert Study(search)._study.trials[0].user_attrs["reason"] == result.reason


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_command_runs_a_search_and_does_what_is_missing(
    planned: PlannedEntry, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["mine.yaml", "optim.max_epoch", "3", "gnn.dropout", "0.1"]
    assert main([*command, "--dry_run"]) == 0
    said = capfd.readouterr()
    assert "GCN | Cora | gcn-cora-short | 3 trials, 0 finished" in said.out
    assert not Path("results").exists()
    assert main([*command, "--trials", "2"]) == 0
    said = capfd.readouterr().err
    assert "mine: 1 entries, 2 trials, 0 finished already." in said
    for number in range(2):
        assert f"GCN / Cora (gcn-cora-short search, trial {number}): validation accuracy 0." in said
    assert "gcn-cora-short: best of 2 trials (2 complete, 0 pruned, 0 failed) is trial " in said
    assert "  with more seeds: graphbench train --cfg results/gcn-cora-short-search/gcn-cora-short-best.yaml" in said
    assert "\n  optim.base_lr 0.0" in said, "without gnn.dropout: the command line has settled it"
    assert "gnn.dropout" not in said
    assert main([*command, "--trials", "2"]) == 0
    assert "2 trials, 2 finished already." in capfd.readouterr().err


def test_wrong_input_is_one_message(
    planned: PlannedEntry, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: str) -> str:
        assert main([str(argument) for argument in arguments]) == 2
        return capsys.readouterr().err

    nothing = Path("nothing.yaml")
    nothing.write_text(f"sweep: {{name: a, seeds: 1}}\ngroups: [{{configs: [{GCN}], label: a}}]\n")
    assert (
        refused("nothing.yaml", "--trials", "3")
        == "error: nothing.yaml: 3 trials are asked for, but no entry has a search.\n"
    )
    monkeypatch.setitem(sys.modules, "optuna", None)
    said = refused("mine.yaml")
    assert said == "error: a search needs Optuna, which is not installed: pip install 'graphbench-gt[sweeps]'.\n"
