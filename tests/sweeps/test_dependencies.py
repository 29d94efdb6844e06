"""Entries that build on each other: what waits for what, and what fails with it."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import torch
import yaml

from graphbench.errors import UserError
from graphbench.experiment import run
from graphbench.preflight import check
from graphbench.runs.record import RunRecord
from graphbench.sweeps import read_sweep
from graphbench.sweeps.cli import main
from graphbench.sweeps.dependencies import WorkQueue, stages
from graphbench.sweeps.plan import plan, set_aside
from graphbench.sweeps.work_item import WorkItem
from tests.paths import ROOT

CORA = ROOT / "configs/nodes/gcn-cora.yaml"
SHORT = "optim.max_epoch: 2, num_threads: 1, print: file"


@dataclass(eq=False)
class Item:
    """What a queue reads of a work item."""

    key: tuple[str, str]
    needs: frozenset[tuple[str, str]] = frozenset()
    in_use: bool = False

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        return (self.key,)


def items() -> list[WorkItem]:
    """Run 0 and 1 of c on b, of b on a, in the order of no use."""
    made = [
        Item((name, run), frozenset({(base, run)} if base else ()))
        for name, base in (("c", "b"), ("b", "a"), ("a", ""))
        for run in "01"
    ]
    return cast("list[WorkItem]", made)


def write(path: Path, first: str, second: str) -> Path:
    """A sweep of two entries on Cora; their further settings."""
    entries = "".join(
        f"  - label: {name}\n    configs: [{CORA}]\n    variants: [{{name_tag: {name}, {SHORT}{settings}}}]\n"
        for name, settings in (("second", second), ("first", first))
    )
    path.write_text(f"sweep: {{name: two, seeds: 2}}\ngroups:\n{entries}")
    return path


def with_status(folder: Path, status: str) -> None:
    """Gives a run another status."""
    record = RunRecord.read(folder / "record.json")
    assert record is not None
    dataclasses.replace(record, status=status).write(folder / "record.json")


def _plain(folder: Path) -> Path:
    """The configuration on Cora without the keys of its architecture, which would win over adopted ones."""
    bases = [str(ROOT / "configs/_base_" / name) for name in ("data/medium-cora.yaml", "train/full-graph.yaml")]
    file = folder / CORA.name
    file.write_text(yaml.safe_dump({"_base_": bases}))
    return file


def test_a_run_is_handed_out_after_the_one_it_starts_from() -> None:
    queue = WorkQueue(items())
    order = []
    while (item := queue.take()) is not None:
        order.append(item.key)
        assert not list(queue.ended(item, finished=True))
    assert len(order) == 6
    for name, base in (("c", "b"), ("b", "a")):
        assert all(order.index((base, run)) < order.index((name, run)) for run in "01")


def test_what_builds_on_a_failure_fails_and_the_rest_goes_on() -> None:
    queue = WorkQueue(items())
    first = queue.take()
    assert first is not None
    assert first.key == ("a", "0")
    assert [orphan.key for orphan in queue.ended(first, finished=False)] == [("b", "0"), ("c", "0")]
    left = []
    while (item := queue.take()) is not None:
        left.append(item.key)
        list(queue.ended(item, finished=True))
    assert left == [("a", "1"), ("b", "1"), ("c", "1")]


def test_nothing_is_handed_out_while_what_it_needs_goes_on() -> None:
    queue = WorkQueue(items())
    assert {queue.take().key[0], queue.take().key[0]} == {"a"}  # type: ignore[union-attr]
    assert queue.take() is None
    assert len(queue) == 4


def test_what_another_process_trains_comes_after_it_has_ended() -> None:
    queue = WorkQueue(items())
    first, second = (cast("Item", queue.take()) for _ in "01")
    assert [first.key, second.key] == [("a", "0"), ("a", "1")]
    first.in_use = True
    queue.put_off(cast("WorkItem", first))
    for key in (("b", "1"), ("c", "1")):
        list(queue.ended(cast("WorkItem", second), finished=True))
        second = cast("Item", queue.take())
        assert second.key == key
    assert queue.take() is None, "b waits for a, which is trained elsewhere"
    first.in_use = False
    assert cast("Item", queue.take()) is first


def test_stages() -> None:
    assert [{item.key[0] for item in stage} for stage in stages(items())] == [{"a"}, {"b"}, {"c"}]


def test_the_folder_is_that_of_the_sweep(tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    second = ", pretrained.dir: results/gcn-cora-first, pretrained.adopt_architecture: false"
    sweep = read_sweep(write(tmp_path / "two.yaml", "", second), ["out_dir", str(tmp_path / "runs")])
    built, _ = sweep.entries
    assert built.base == tmp_path / "runs/gcn-cora-first"
    assert built.config.tree.pretrained.dir == str(tmp_path / "runs/gcn-cora-first")
    planned = plan(sweep, sweep.entries)  # its base need not exist yet
    assert [item.needs for item in planned[0].missing] == [frozenset(item.keys) for item in planned[1].missing]
    together = plan(sweep, sweep.entries, together=True)
    (waits,), (base,) = (entry.missing for entry in together)
    assert waits.needs == frozenset(base.keys)
    assert len(waits.runs) == 2
    with pytest.raises(UserError, match="gcn-cora-first"):
        plan(sweep, [built])


def test_circles_are_refused(tmp_path: Path) -> None:
    keys = ", pretrained.adopt_architecture: false, pretrained.dir: results/gcn-cora-"
    with pytest.raises(UserError, match=r"two.yaml:\d+: entries build on each other in a circle: gcn-cora-second -> "):
        read_sweep(write(tmp_path / "two.yaml", f"{keys}second", f"{keys}first"))


@pytest.mark.parametrize("directory", ["hf://me/gcn-cora-first", "/elsewhere/gcn-cora-first", "gcn-cora-first"])
def test_another_folder_of_the_same_name_is_no_entry(tmp_path: Path, directory: str) -> None:
    path = write(tmp_path / "two.yaml", "", f", pretrained.dir: '{directory}'")
    for overrides in ([], ["out_dir", str(tmp_path / "runs")]):
        second, _ = read_sweep(path, overrides).entries
        assert second.base is None
        assert second.config.tree.pretrained.dir == directory


def test_a_run_of_another_entry_is_what_all_wait_for(tmp_path: Path) -> None:
    path = write(tmp_path / "two.yaml", "", ", pretrained.dir: results/gcn-cora-first/124")
    sweep = read_sweep(path, ["out_dir", str(tmp_path / "runs")])
    assert sweep.entries[0].config.tree.pretrained.dir == str(tmp_path / "runs/gcn-cora-first/124")
    second, first = plan(sweep, sweep.entries)
    assert [item.needs for item in second.missing] == [frozenset(first.missing[1].keys)] * 2


def test_the_only_run_of_another_entry_is_what_all_wait_for(tmp_path: Path) -> None:
    one = ", run_multiple_splits: [0]"
    sweep = read_sweep(write(tmp_path / "two.yaml", one, ", pretrained.dir: results/gcn-cora-first"))
    second, first = plan(sweep, sweep.entries)
    assert [item.number for item in first.missing] == [0]
    assert [item.number for item in second.missing] == [123, 124]
    assert [item.needs for item in second.missing] == [frozenset(first.missing[0].keys)] * 2


def test_the_architecture_of_an_entry_is_adopted_before_it_is_trained(tmp_path: Path) -> None:
    path = write(tmp_path / "two.yaml", ", gnn.layers_mp: 5, gnn.act: elu", ", pretrained.dir: results/gcn-cora-first")
    path.write_text(path.read_text().replace(f"[{CORA}]", f"[{_plain(tmp_path)}]", 1))
    sweep = read_sweep(path, ["out_dir", str(tmp_path / "runs")])
    second, first = plan(sweep, sweep.entries)
    folder = first.checked.directory(first.checked.runs[0]).path
    (folder / "ckpt").mkdir(parents=True)
    (folder / "ckpt/best.ckpt").touch()
    (folder / "config.yaml").write_text(first.checked.config.of_run(123, 0).dump())
    as_trained = check(second.entry.config)  # as main.py does it, from the folder
    assert as_trained.config.tree.gnn.act == "elu"
    assert second.checked.config.hash == as_trained.config.hash
    assert second.checked.summary == as_trained.summary


@pytest.mark.parametrize("state", ["other weights", "other configuration", "unfinished"])
def test_a_run_is_not_finished_where_its_base_is_another(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    monkeypatch.chdir(tmp_path)
    keys = ", pretrained.adopt_architecture: false, pretrained.dir: results/gcn-cora-first"
    path = write(tmp_path / "two.yaml", "", keys)
    path.write_text(path.read_text().replace("seeds: 2", "seeds: 1"))
    sweep = read_sweep(path)
    for entry in reversed(sweep.entries):
        run(entry.config)
    assert [len(entry.missing) for entry in plan(sweep, sweep.entries)] == [0, 0]
    first, second = (tmp_path / f"results/gcn-cora-{name}/123" for name in ("first", "second"))
    if state == "other weights":
        best = torch.load(first / "ckpt/best.ckpt")
        best["model"] = {name: value + 1 for name, value in best["model"].items()}
        torch.save(best, first / "ckpt/best.ckpt")
        message = r"gcn-cora-second/123: holds a run \(finished\) of another weights of results/gcn-cora-first/123 \("
        with pytest.raises(UserError, match=message):
            plan(sweep, sweep.entries)
        capsys.readouterr()
        assert main([str(path), "--dry_run"]) == 2
        assert re.search(message, capsys.readouterr().err)
    elif state == "other configuration":
        path.write_text(path.read_text().replace("label: first", "label: first\n    common: {optim.base_lr: 0.5}"))
        sweep = read_sweep(path)
    else:
        with_status(first, "interrupted")
        assert [len(entry.missing) for entry in plan(sweep, sweep.entries)] == [1, 1]
    planned = plan(sweep, sweep.entries, overwrite=True)
    assert [len(entry.missing) for entry in planned] == [1, 0 if state == "other weights" else 1]
    moved = {folder.parent.name for folder in set_aside(planned)}
    assert moved == {"gcn-cora-second"} | ({"gcn-cora-first"} if state == "other configuration" else set())
    assert not second.exists()


def test_a_run_starts_from_the_run_that_was_planned_or_not_at_all(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two seeds of the base has finished, and the jobs that wait for both are started (a cluster does that)."""
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    monkeypatch.chdir(tmp_path)
    keys = ", pretrained.adopt_architecture: false, pretrained.dir: results/gcn-cora-first"
    sweep = read_sweep(write(tmp_path / "two.yaml", "", keys))
    waits, base = plan(sweep, sweep.entries)
    specs = [item.spec() for item in waits.missing]
    assert [Path(name).relative_to(tmp_path) for spec in specs for name in spec.bases] == [
        Path("results/gcn-cora-first/123"),
        Path("results/gcn-cora-first/124"),
    ]
    run(base.checked.config, repeat=2, only=[123])
    first = tmp_path / "results/gcn-cora-first"
    for copied in (False, True):
        if copied:  # the other seed has a checkpoint, and goes on
            shutil.copytree(first / "123", first / "124")
            with_status(first / "124", "running")
        with pytest.raises(UserError, match=f"has not finished: {first}/124 \\({'running' if copied else 'no record'}"):
            specs[1].load_config()
    assert specs[0].load_config().hash == waits.checked.config.hash
    shutil.move(first / "123/ckpt", tmp_path)
    with pytest.raises(UserError, match=f"has no checkpoint: {first}/123"):
        specs[0].load_config()
    (item,) = [item for item in plan(sweep, [waits.entry])[0].missing if item.number == 124]
    assert not item.needs, "nothing is waited for that is not trained with it"
    assert item.spec() == specs[1]


def test_a_trial_waits_for_all_runs_that_it_starts_from(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    keys = ", pretrained.adopt_architecture: false, pretrained.dir: results/gcn-cora-first"
    path = write(tmp_path / "two.yaml", "", keys)
    search = "label: second\n    search: {gnn.dropout: {low: 0.1, high: 0.5}}"
    path.write_text(path.read_text().replace("label: second", search))
    sweep = read_sweep(path)
    trials, base = plan(sweep, sweep.entries, trials=2)
    runs = frozenset(key for item in base.missing for key in item.keys)
    assert [item.needs for item in trials.missing] == [runs] * 2
    assert [len(item.spec().bases) for item in trials.missing] == [2, 2]


@pytest.mark.slow
def test_it_starts_from_the_run_with_its_number(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    monkeypatch.chdir(tmp_path)
    second = ", pretrained.dir: results/gcn-cora-first"
    sweep = write(tmp_path / "two.yaml", "", second)
    assert main([str(sweep), "--jobs", "2", "--out_dir", "runs"]) == 0
    for number in ("123", "124"):
        record = json.loads((tmp_path / "runs/gcn-cora-second" / number / "record.json").read_text())
        assert record["data"]["pretrained"]["run"].endswith(f"runs/gcn-cora-first/{number}")
