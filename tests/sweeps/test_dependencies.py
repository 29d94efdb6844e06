"""Entries that build on each other: what waits for what, and what fails with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from graphbench.errors import UserError
from graphbench.sweeps import read_sweep
from graphbench.sweeps.cli import main
from graphbench.sweeps.dependencies import WorkQueue, stages
from graphbench.sweeps.plan import WorkItem, plan
from tests.paths import ROOT

CORA = ROOT / "configs/nodes/gcn-cora.yaml"
SHORT = "optim.max_epoch: 2, num_threads: 1, print: file"


@dataclass(eq=False)
class Item:
    """What a queue reads of a work item."""

    key: tuple[str, str]
    needs: tuple[str, str] | None = None


def items() -> list[WorkItem]:
    """Run 0 and 1 of c on b, of b on a, in the order of no use."""
    made = [
        Item((name, run), (base, run) if base else None)
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


def test_stages() -> None:
    assert [{item.key[0] for item in stage} for stage in stages(items())] == [{"a"}, {"b"}, {"c"}]


def test_the_folder_is_that_of_the_sweep(tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    second = ", pretrained.dir: results/gcn-cora-first, pretrained.adopt_architecture: false"
    sweep = read_sweep(write(tmp_path / "two.yaml", "", second), ["out_dir", str(tmp_path / "runs")])
    built, _ = sweep.entries
    assert built.base == "gcn-cora-first"
    assert built.config.tree.pretrained.dir == str(tmp_path / "runs/gcn-cora-first")
    planned = plan(sweep, sweep.entries)  # its base need not exist yet
    assert [item.needs for item in planned[0].missing] == [item.key for item in planned[1].missing]
    with pytest.raises(UserError, match="gcn-cora-first"):
        plan(sweep, [built])


def test_circles_are_refused(tmp_path: Path) -> None:
    keys = ", pretrained.adopt_architecture: false, pretrained.dir: results/gcn-cora-"
    with pytest.raises(UserError, match=r"two.yaml:\d+: entries build on each other in a circle: gcn-cora-second -> "):
        read_sweep(write(tmp_path / "two.yaml", f"{keys}second", f"{keys}first"))


@pytest.mark.slow
def test_it_starts_from_the_run_with_its_number(
    tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHBENCH_DATA", str(data_root))
    monkeypatch.chdir(tmp_path)
    second = ", pretrained.dir: elsewhere/gcn-cora-first, pretrained.adopt_architecture: false"
    sweep = write(tmp_path / "two.yaml", "", second)
    assert main([str(sweep), "--jobs", "2"]) == 0
    for run in ("123", "124"):
        record = json.loads((tmp_path / "results/gcn-cora-second" / run / "record.json").read_text())
        assert record["data"]["pretrained"]["run"].endswith(f"results/gcn-cora-first/{run}")
