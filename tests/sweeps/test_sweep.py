"""Sweep files: what they expand to, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.published.table import read_published
from graphbench.sweeps import Sweep, read_sweep
from tests.paths import ROOT

GCN = ROOT / "configs/nodes/gcn-cora.yaml"
SGFORMER = ROOT / "configs/nodes/sgformer-cora.yaml"


def read(tmp_path: Path, groups: str, *overrides: str, head: str = "{name: mine, seeds: 3}") -> Sweep:
    path = tmp_path / "mine.yaml"
    path.write_text(f"sweep: {head}\ngroups:\n{groups}")
    return read_sweep(path, overrides)


def test_an_entry_is_what_main_would_load(tmp_path: Path) -> None:
    sweep = read(
        tmp_path,
        f"""\
  - configs: [{GCN}]
    label: GCN
    common: {{optim.max_epoch: 7, gnn.dropout: 0.1}}
    variants:
      - {{}}
      - {{label: other, column: half, published: "a=b", name_tag: h, dataset.split: [0.5, 0.25, 0.25],
         dataset.split_mode: random, dataset.split_seed: null, gnn.dropout: 0.2}}
""",
        head="{name: mine, seeds: 3, published: sgformer_table2}",
    )
    assert (sweep.name, sweep.seeds, sweep.path) == ("mine", 3, tmp_path / "mine.yaml")
    assert sweep.published == read_published("sgformer_table2")
    plain, other = sweep.entries
    assert (plain.label, plain.column, plain.published, plain.file) == ("GCN", None, None, GCN)
    assert (other.label, other.column, other.published, other.cell) == ("other", "half", "a=b", "other, half")
    assert other.config.name == "gcn-cora-h"
    assert other.config.tree.gnn.dropout == 0.2
    assert other.config.tree.dataset.split_seed is None
    for entry in sweep.entries:
        assert entry.config.hash == load_config(entry.file, entry.overrides).hash
    assert other.where == f"{tmp_path / 'mine.yaml'}:8"
    assert other.config.where("dataset.split_mode") == f"{tmp_path / 'mine.yaml'}:9"
    assert other.config.where("optim.max_epoch") == f"{tmp_path / 'mine.yaml'}:5"


@pytest.mark.parametrize("name", ["sgformer-cora", "nodes/sgformer-cora.yaml", "configs/nodes/sgformer-cora.yaml"])
def test_shipped_files_are_found_from_anywhere(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (entry,) = read(tmp_path / "mine", f"  - {{configs: [{name}], label: SGFormer}}\n").entries
    assert (entry.file, entry.config.name) == (SGFORMER, "sgformer-cora")
    assert read_sweep("quick-sgformer").path == ROOT / "configs/sweeps/quick-sgformer.yaml"


def test_overrides_of_the_command_line_win(tmp_path: Path) -> None:
    group = f"  - {{configs: [{GCN}], label: GCN, common: {{optim.max_epoch: 7}}}}\n"
    (entry,) = read(tmp_path, group, "optim.max_epoch", "2", "out_dir", "elsewhere").entries
    assert entry.config.tree.optim.max_epoch == 2
    assert entry.config.where("optim.max_epoch") == "command line"
    assert entry.config.tree.out_dir == "elsewhere"


def test_a_grid_is_a_product_whose_runs_are_kept_apart(tmp_path: Path) -> None:
    sweep = read(
        tmp_path,
        f"""\
  - configs: [{GCN}]
    label: GCN
    variants: [{{}}, {{label: wide, name_tag: w, gnn.dim_inner: 128}}]
    grid: {{optim.base_lr: [0.01, 1e-3], gnn.layers_mp: [1, 2, 3]}}
""",
    )
    assert len(sweep.entries) == 12
    labels = [entry.label for entry in sweep.entries]
    assert labels[:2] == ["GCN (base_lr=0.01, layers_mp=1)", "GCN (base_lr=0.01, layers_mp=2)"]
    assert sweep.entries[-1].config.name == "gcn-cora-w_base_lr-1e-3_layers_mp-3"
    assert sweep.entries[-1].config.tree.optim.base_lr == 1e-3
    assert sweep.entries[-1].config.tree.gnn.dim_inner == 128
    assert len({entry.config.hash for entry in sweep.entries}) == 12


def test_keys_of_a_grid_with_one_last_part_stay_apart(tmp_path: Path) -> None:
    group = f"  - {{configs: [{SGFORMER}], label: a, grid: {{gt.dropout: [0.1], gnn.dropout: [0.2]}}}}\n"
    (entry,) = read(tmp_path, group).entries
    assert entry.label == "a (gt.dropout=0.1, gnn.dropout=0.2)"
    assert entry.config.name == "sgformer-cora-gt.dropout-0.1_gnn.dropout-0.2"


def test_files_are_relative_to_the_sweep_and_lists_of_splits_replace_seeds(tmp_path: Path) -> None:
    (tmp_path / "mine-too.yaml").write_text(f"_base_: {GCN}\nrun_multiple_splits: [0, 1]\n")
    group = f"  - {{configs: [mine-too.yaml, {GCN}], label: GCN}}\n"
    sweep = read(tmp_path, group)
    assert [entry.file for entry in sweep.entries] == [tmp_path / "mine-too.yaml", GCN]
    assert [sweep.repeat(entry) for entry in sweep.entries] == [1, 3]


def test_a_search_space_is_data(tmp_path: Path) -> None:
    group = f"""\
  - configs: [{GCN}]
    label: GCN
    search:
      optim.base_lr: {{low: 1e-4, high: 0.01, log: true}}
      gnn.layers_mp: {{low: 1, high: 4}}
      gnn.act: {{choices: [relu, gelu]}}
"""
    (entry,) = read(tmp_path, group).entries
    rate, layers, act = entry.search
    assert (rate.key, rate.low, rate.high, rate.log, rate.choices) == ("optim.base_lr", 1e-4, 0.01, True, None)
    assert (type(layers.low), layers.high, layers.log) == (int, 4, False)
    assert (act.choices, act.low, act.where) == (("relu", "gelu"), None, f"{tmp_path / 'mine.yaml'}:8")
    (entry,) = read(tmp_path, group, "gnn.act", "prelu").entries
    assert [dimension.key for dimension in entry.search] == ["optim.base_lr", "gnn.layers_mp"], (
        "the command line fixes a key"
    )


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ("{configs: [GCN], labl: a}", r"mine.yaml:3: unknown key of a group 'labl'. Did you mean 'label'\?"),
        ("{label: a}", r"mine.yaml:3: a group needs the key 'configs', received label\."),
        ("{configs: GCN, label: a}", r"mine.yaml:3: configs is a list with at least one entry, received '.*'\."),
        ("{configs: [GCN]}", r"mine.yaml:3: a variant needs a label \(its row\), or its group does\."),
        ("{configs: [GCN], label: 5}", r"mine.yaml:3: label is a text, received 5\."),
        ("{configs: [gcn-nowhere.yaml], label: a}", r"mine.yaml:3: no such configuration file: '.*gcn-nowhere.yaml'"),
        (
            "{configs: [GCN], label: a, variants: [{colum: x}]}",
            r"mine.yaml:3: unknown key of a variant 'colum'. Did you mean 'column'\?",
        ),
        (
            "{configs: [GCN], label: a, variants: [\n    {},\n    {name_tag: x, optim.base_Ir: 1}]}",
            r"mine.yaml:5: unknown configuration key 'optim.base_Ir'. Did you mean 'optim.base_lr'\?",
        ),
        (
            "{configs: [GCN], label: a, common: {optim.max_epoch: many}}",
            r"mine.yaml:3: optim.max_epoch .*many",
        ),
        ("{configs: [GCN], label: a, common: {optim: {lr: 1}}}", r"dotted keys \(optim.KEY: VALUE\), received a map"),
        ("{configs: [GCN], label: a, common: {optin: 1}}", r"mine.yaml:3: unknown key of common 'optin'"),
        ("{configs: [GCN], label: a, grid: {lr: [1, 2]}}", r"mine.yaml:3: unknown key of grid 'lr'.* 'optim.base_lr'"),
        (
            "{configs: [GCN], label: a, common: {gt.SGFormer: {lr: 1}}}",
            r"mine.yaml:3: common has dotted keys \(gt.SGFormer.KEY: VALUE\), received a mapping",
        ),
        ("{configs: [GCN], label: a, grid: {gnn.layers_mp: 3}}", r"mine.yaml:3: grid over gnn.layers_mp is a list"),
        ("{configs: [GCN], label: a, grid: {gnn.layers_mp: [3, 3]}}", r"mine.yaml:3: .* has a value twice"),
        (
            "{configs: [GCN], label: a, common: {gnn.layers_mp: 1},\n     grid: {gnn.layers_mp: [1, 2]}}",
            r"mine.yaml:4: gnn.layers_mp is in the grid and at .*mine.yaml:3; it can be in one only\.",
        ),
        (
            "{configs: [GCN], variants: [{label: a}, {label: b}]}",
            r"mine.yaml:3: the entries 'a' and 'b' share the run folder results/gcn-cora",
        ),
        (
            "{configs: [GCN], label: a, common: {name_tag: off}}",
            "mine.yaml:3: name_tag must be a string, received False",
        ),
        ("{configs: [GCN], label: a, common: {name_tag: 50}}", "mine.yaml:3: name_tag must be a string, received 50"),
        ("{configs: [GCN], label: a, common: {name_tag: 2020-01-02}}", "mine.yaml:3: name_tag must be a string, rec"),
        ("{configs: [GCN], label: a, common: {name_tag: on}, grid: {seed: [1]}}", "mine.yaml:3: name_tag must be a st"),
        (
            "{configs: [GCN], label: a, grid: {optim.optimizer: [adam, off]}}",
            "mine.yaml:3: optim.optimizer must be a s",
        ),
        (
            "{configs: [GCN], label: a, common: {gnn.layers_mp: 010}}",
            "mine.yaml:3: received 010, which YAML reads as 8",
        ),
        ("{configs: [GCN], label: a, common: {name_tag: 2020-02-30}}", "mine.yaml:3: day is out of range for month"),
        ("{configs: [GCN], label: a, label: b}", r"mine.yaml:3: 'label' is set twice \(first at .*mine.yaml:3\)"),
        ("{configs: [GCN], label: a, search: {optim.base_lr: {low: 1}}}", r"mine.yaml:3: .* needs choices, or low and"),
        (
            "{configs: [GCN], label: a, search: {optim.base_lr: {low: 2, high: 1}}}",
            r"mine.yaml:3: search over optim.base_lr needs low < high",
        ),
        (
            "{configs: [GCN], label: a, search: {optim.base_lr: {low: 0, high: 1, choices: [1]}}}",
            r"mine.yaml:3: .* either choices or low and high",
        ),
        ("{configs: [GCN], label: a, search: {optim.baselr: {choices: [1]}}}", r"mine.yaml:3: .*'optim.base_lr'\?"),
        ("{configs: [GCN], label: a, search: {optim.base_lr: {lo: 1}}}", r"mine.yaml:3: .*'lo'. Did you mean 'low'"),
        ("[]", r"mine.yaml:3: a group is a mapping of keys to values, received \[\]\."),
    ],
)
def test_wrong_groups_are_named_with_their_line(tmp_path: Path, group: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(tmp_path, f"  - {group.replace('GCN', str(GCN))}\n")


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("{name: mine}", r"mine.yaml:1: sweep needs the key 'seeds', received name\."),
        ("{name: mine, seeds: 0}", r"mine.yaml:1: seeds is a whole number from 1 on, received 0\."),
        ("{name: mine, seeds: true}", r"mine.yaml:1: seeds is a whole number from 1 on, received True\."),
        (
            "{name: mine, seeds: 1, publish: x}",
            r"mine.yaml:1: unknown key of sweep 'publish'. Did you mean 'published'",
        ),
        ("{name: mine, seeds: 1, trials: 0}", r"mine.yaml:1: trials is a whole number from 1 on, received 0\."),
        (
            "{name: mine, seeds: 1, pruner: best}",
            r"mine.yaml:1: unknown pruner 'best'\..* Allowed: halving, median, none",
        ),
        ("{name: '', seeds: 1}", r"mine.yaml:1: name is a text, received ''\."),
        ("{name: mine, seeds: 1", r"mine.yaml:\d: not valid YAML"),
        ("&a {name: mine, seeds: *a}", r"mine.yaml:1: contains itself: is an anchor"),
        ("{name: mine, seeds: 1}\nextra: 1", r"mine.yaml:2: unknown key of a sweep file 'extra'"),
    ],
)
def test_wrong_heads_are_named_with_their_line(tmp_path: Path, head: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(tmp_path, f"  - {{configs: [{GCN}], label: a}}\n", head=head)


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'.*nowhere.yaml' cannot be read: No such file or directory\."):
        read_sweep(tmp_path / "nowhere.yaml")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    with pytest.raises(UserError, match=r"empty.yaml:1: a sweep file is a mapping of keys to values, received None\."):
        read_sweep(tmp_path / "empty.yaml")


def test_a_configuration_and_a_sweep_point_to_the_command_of_each(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gcn-cora.yaml:\d+: .*it is one for graphbench train\.$"):
        read_sweep(GCN)
    file = tmp_path / "mine.yaml"
    file.write_text(f"sweep: {{name: mine, seeds: 1}}\ngroups: [{{configs: [{GCN}], label: a}}]\n")
    with pytest.raises(UserError, match=r"mine.yaml:1: .*it is one for graphbench sweep\.$"):
        load_config(file)


def test_a_wrong_key_of_the_command_line_is_blamed_on_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^command line: unknown configuration key 'optim.epochs'"):
        read(tmp_path, f"  - {{configs: [{GCN}], label: a, common: {{optim.max_epoch: 2}}}}\n", "optim.epochs", "2")


@pytest.mark.parametrize("value", [[0.5, 0.25, 0.25], 1e-05, "1e-5", True, None, "a: b", [], "x" * 200, ["a, b"] * 40])
def test_values_arrive_as_they_are_written(tmp_path: Path, value: object) -> None:
    from graphbench.sweeps.document import LocatedValue, read_document

    text = read_document(_file(tmp_path, {"key": value})).value["key"].as_override()
    assert "\n" not in text
    assert yaml.safe_load(text) == value
    assert isinstance(read_document(_file(tmp_path, {"key": value})), LocatedValue)


def _file(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "value.yaml"
    path.write_text(yaml.safe_dump(content))
    return path
