"""Shipped sweeps: every entry builds, is a run of its own, and stands beside the number it is to be compared with."""

from __future__ import annotations

import re
from functools import cache

import pytest

from graphbench.preflight import describe
from graphbench.published.table import read_published
from graphbench.sweeps import Sweep, read_sweep
from graphbench.sweeps.plan import PlannedEntry, plan
from graphbench.tables.cell_specs import cell_specs
from tests.paths import ROOT

CONFIGS = ROOT / "configs"
SWEEPS = sorted((CONFIGS / "sweeps").glob("*.yaml"))
LARGE = {
    *("sgformer-table3", "sgformer-table5", "sgformer-table6", "sgformer-table7", "sgformer-figures"),
    *("sgformer-table2-competitors", "sgformer-table5-competitors", "sgformer-table7-competitors"),
    *("sgformer-table5-papers", "sgformer-table7-text", "gradformer-table1", "gradformer-table1-competitors"),
    *("gradformer-ablation", "gradformer-decay", "gradformer-depth", "geco-table1-baselines", "geco-table4"),
    *("geco-table12-competitors", "geco-table13-competitors", "geco-filters", "ffgt-table2"),
    *("sfi-fair", "sfi-table1", "sfi-table1-baselines", "sfi-table2-baselines"),
}
"""Sweeps of some twenty entries and more, mostly the same models with other settings: building all takes a while."""
EACH = [pytest.param(path.stem, marks=pytest.mark.slow if path.stem in LARGE else ()) for path in SWEEPS]
NOT_PUBLISHED = {("sgformer-table2", "MLP"), ("quick-sgformer", "MLP")}
"""Rows of ours that the paper's table has not, or not under that name."""


@cache
def shipped(name: str) -> Sweep:
    return read_sweep(CONFIGS / f"sweeps/{name}.yaml", ["out_dir", "no-such-folder"])


@cache
def planned(name: str) -> list[PlannedEntry]:
    sweep = shipped(name)
    return plan(sweep, sweep.entries)


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_every_entry_builds_and_is_a_run_of_its_own(name: str) -> None:
    sweep, entries = shipped(name), planned(name)  # refuses shared folders and cells
    assert sweep.name == name
    assert len({planned_entry.entry.config.hash for planned_entry in entries}) == len(entries), "a key has no effect"
    for planned_entry in entries:
        assert planned_entry.checked.summary.params > 0
        assert not planned_entry.finished


@pytest.mark.parametrize("name", [path.stem for path in SWEEPS])
def test_published_values_are_found(name: str) -> None:
    sweep = shipped(name)
    if sweep.published is None:
        assert not any(entry.published for entry in sweep.entries)
        return
    cells = cell_specs(sweep)
    assert len({(cell.label, cell.column) for cell in cells}) == len(cells), "two entries for a cell"
    for cell in cells:
        row = sweep.published.find(cell.label, cell.dataset, cell.selector)
        assert (row is not None) == ((name, cell.label) not in NOT_PUBLISHED), cell.name


@pytest.mark.slow
def test_training_ratios_are_compared_with_their_own_column() -> None:
    for name, dataset in (("5", "Cora"), ("6", "PubMed"), ("7", "Chameleon_filtered")):
        table = read_published(f"sgformer_table{name}")
        assert len(shipped(f"sgformer-table{name}").entries) == 110
        for entry in shipped(f"sgformer-table{name}").entries:
            row = table.find(entry.label, dataset, entry.published)
            assert row.settings["train_ratio"] == entry.column.replace(" ", "")
            train, val, test = entry.config.tree.dataset.split
            assert f"{train:.0%}" == row.settings["train_ratio"]
            assert (val, test) == (0.25, pytest.approx(0.75 - train))  # as released: all that is left for testing
            assert entry.config.tree.dataset.split_seed == 123
            assert entry.config.tree.run_multiple_splits == ([0, 1, 2, 3, 4] if name == "7" else [])


def test_sgformer_s_table_2_has_its_seven_graphs_for_every_model() -> None:
    columns = {planned_entry.column for planned_entry in planned("sgformer-table2")}
    rows: dict[str, set[str]] = {}
    for planned_entry in planned("sgformer-table2"):
        rows.setdefault(planned_entry.entry.label, set()).add(planned_entry.column)
    public = {"Cora, public", "CiteSeer, public", "PubMed, public", "Deezer-Europe, epoch by accuracy"}
    assert len(columns) == 11
    assert rows.pop("SGFormer") == columns
    assert set(map(frozenset, rows.values())) == {frozenset(columns - public)}
    runs = {planned_entry.column: len(planned_entry.checked.runs) for planned_entry in planned("sgformer-table2")}
    assert runs == dict.fromkeys(columns, 5) | dict.fromkeys(("Actor", "Squirrel_filtered", "Chameleon_filtered"), 10)


def test_the_ablation_is_table_3() -> None:
    """Ten rows on three data sets; only the one without flow is smaller: no queries, keys, friction and gamma."""
    found = {(entry.label, entry.file.stem.split("-", 1)[1]): entry.config for entry in shipped("sfi-ablation").entries}
    assert len(found) == 30
    count = {key: describe(config).params for key, config in found.items() if key[1] == "pascal"}
    full = count["SFi-Former", "pascal"]
    assert count["SFi-Former-SP", "pascal"] == count["SFi-Former-lambda3", "pascal"] == full
    assert count["SFi-Former-A_tilde", "pascal"] == full - 8 * (4 * 4 * 68 * 69 + 2)


@pytest.mark.slow
def test_the_overview_lists_every_sweep_with_its_size() -> None:
    text = (CONFIGS / "README.md").read_text()
    listed = {
        name: (int(entries), int(runs))
        for name, entries, runs in re.findall(r"\]\(sweeps/([\w-]+)\.yaml\) \|.*\| (\d+) \| (\d+) \|", text)
    }
    assert sorted(listed) == sorted(path.stem for path in SWEEPS)
    for name, size in listed.items():
        sweep = shipped(name)
        splits = [len(entry.config.tree.run_multiple_splits) for entry in sweep.entries]
        assert size == (len(sweep.entries), sum(count or sweep.seeds for count in splits)), name
