"""Every message a configuration can cause, and what loads without one."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphbench import registry
from graphbench.config import load_config
from graphbench.config.schema import SCHEMA
from graphbench.errors import UserError
from tests.paths import ROOT

BASE = "gt:\n  layers: 4\n"


@pytest.fixture
def write(tmp_path: Path):
    def write_file(text: str, name: str = "x.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write_file


MESSAGES = {
    "unknown key": (
        "gt:\n  layrs: 4\n",
        r"x\.yaml:2: unknown configuration key 'gt.layrs'. Did you mean 'gt.layers'\?",
    ),
    "unknown group": ("optm:\n  base_lr: 1\n", r"x\.yaml:2: unknown configuration key 'optm.base_lr'.*optim.base_lr"),
    "unknown top key": ("sed: 4\n", r"x\.yaml:1: unknown configuration key 'sed'. Did you mean 'seed'\?"),
    "wrong type": ("gt:\n  layers: four\n", r"x\.yaml:2: gt.layers must be an integer, received 'four' \(str\)"),
    "float for int": ("gt:\n  layers: 2.5\n", r"x\.yaml:2: gt.layers must be an integer, received 2.5 \(float\)"),
    "bool for int": ("gt:\n  layers: true\n", r"gt.layers must be an integer, received True \(bool\)"),
    "int for bool": ("gt:\n  layer_norm: 1\n", r"gt.layer_norm must be true or false, received 1 \(int\)"),
    "nothing": ("gt:\n  layers:\n", r"gt.layers must be an integer, received nothing"),
    "too small": ("optim:\n  max_epoch: 0\n", r"x\.yaml:2: optim.max_epoch must be at least 1, received 0"),
    "nan": ("optim:\n  base_lr: .nan\n", r"optim.base_lr must be a finite number, received nan"),
    "not allowed": ("model:\n  size_average: meen\n", r"received 'meen'. Did you mean 'mean'\? Allowed: mean, sum"),
    "no device": ("accelerator: gpuu\n", r"x\.yaml:1: accelerator received 'gpuu'. Did you mean 'gpu'\? Allowed"),
    "list element": ("optim:\n  steps: [1, a]\n", r"optim.steps\[1\] must be an integer, received 'a'"),
    "section for value": ("optim:\n  max_epoch: {a: 1}\n", r"x\.yaml:2: optim.max_epoch is not a section"),
    "value for section": ("optim: 3\n", r"x\.yaml:1: optim is a section of keys, received 3"),
    "set twice": ("seed: 1\nseed: 2\n", r"x\.yaml:2: 'seed' is set twice in this file \(first in line 1\)"),
    "bad yaml": ("gt: [1,\n", r"x\.yaml:2: not valid YAML"),
    "not a mapping": ("- 1\n- 2\n", r"x\.yaml:1: a configuration is a mapping"),
    "unknown component": (
        "gt:\n  layer_type: GCN+Transfromer\n",
        r"x\.yaml:2: unknown name in gt.layer_type 'Transfromer'. Did you mean 'Transformer'\?",
    ),
    "unknown encoder": (
        "dataset:\n  node_encoder_name: LinearNod+LapPE\n",
        r"x\.yaml:2: unknown name in dataset.node_encoder_name 'LinearNod'. Did you mean 'LinearNode'\?",
    ),
    "unknown own argument": (
        "gt:\n  SGFormer:\n    nrom: l2\n",
        r"x\.yaml:3: unknown argument of SGFormer 'nrom'. Did you mean 'norm'\?",
    ),
    "own argument of wrong type": ("gt:\n  SGFormer:\n    norm: l3\n", r"gt.SGFormer.norm received 'l3'.*frobenius"),
    "missing base": ("_base_: no/such.yaml\n", r"x\.yaml:1: no such configuration file: '.*no/such.yaml'"),
    "base is no name": ("_base_: [1]\n", r"x\.yaml:1: _base_ takes file names, received 1"),
    "base is a number": ("_base_: 3\n", r"x\.yaml:1: _base_ takes file names, received 3"),
    "base is a truth value": ("_base_: true\n", r"x\.yaml:1: _base_ takes file names, received True"),
    "values inside each other": (
        "print: " + "[" * 3000 + "]" * 3000 + "\n",
        r"x\.yaml:1: .*(more than 100 values lie inside|maximum nesting depth)",  # the second by PyYAML 6.0.4
    ),
    "brackets that end libyaml": (
        "print: " + "[" * 200_000 + "]" * 200_000 + "\n",
        r"x\.yaml:1: .*(more than 100 values lie inside|maximum nesting depth)",  # the second by PyYAML 6.0.4
    ),
    "dashes that end libyaml": ("print:\n" + "- " * 200_000 + "1\n", r"x\.yaml:2: .*more than 100 values lie inside"),
    "a merged mapping": ("gt: &a {layers: 2}\ngnn:\n  <<: *a\n", r"x\.yaml:3: '<<' .* is not read\. .*_base_"),
    "no finite number": (
        "optim:\n  base_lr: .inf\n",
        r"x\.yaml:2: optim\.base_lr must be a finite number, received inf",
    ),
    "no finite number for a component": (
        "gt:\n  layer_type: GCN+SFi\n  SFi: {lam: .inf}\n",
        r"x\.yaml:3: gt\.SFi\.lam must be a finite number, received inf",
    ),
    "the key without its section": ("lr: 0.1\n", r"unknown configuration key 'lr'\. Did you mean 'optim\.base_lr'\?"),
    "the key of another section": ("train:\n  max_epoch: 3\n", r"x\.yaml:2: .*Did you mean 'optim\.max_epoch'\?"),
    "misspelt without its section": ("batchsize: 3\n", r"x\.yaml:1: .*Did you mean 'train\.batch_size'\?"),
    "text where a list is": ("plugins: mine.py\n", r"must be a list, received 'mine.py' \(str\). Write \[mine.py\]"),
    "a path as a tag": ("name_tag: a/b\n", r"x\.yaml:1: name_tag is a part of the run folder's name, not a path"),
    "lines as a tag": ('name_tag: "a\\nb"\n', r"x\.yaml:1: name_tag is a .*, not a path or several lines"),
    "a split twice": ("run_multiple_splits: [0, 1, 0]\n", r"x\.yaml:1: run_multiple_splits names a split twice: \[0"),
    "an empty file": ("# nothing\n", r"x\.yaml: names no key: is the file empty\?"),
    "an anchor in itself": ("print: &a [*a]\n", r"x\.yaml:1: contains itself: is an anchor"),
    "a section in itself": ("gt: &a {gt: *a}\n", r"x\.yaml:1: contains itself: is an anchor"),
    "a billion values": (
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{b}: &{b} [{', '.join(['*' + a] * 10)}]\n" for a, b in pairwise("abcdefghi")),
        r"x\.yaml:\d+: has more than 100,000 values",
    ),
    "base 60": ("optim:\n  max_epoch: 1:30\n", r"x\.yaml:2: received 1:30, which YAML reads as 90"),
    "base 8": ("train:\n  batch_size: 010\n", r"x\.yaml:2: received 010, which YAML reads as 8"),
    "base 8 in a list": ("optim:\n  steps: [1, 020]\n", r"x\.yaml:2: received 020, which YAML reads as 16"),
    "a day that is none": ("name_tag: 2026-02-30\n", r"x\.yaml:1: day .*\."),
    "nothing where there is no default": ("out_dir:\n", r"x\.yaml:1: out_dir must be a string, received nothing"),
    "base includes itself": ("_base_: x.yaml\n", r"x\.yaml:1: '.*x.yaml' includes itself"),
    "a file of sweeps": ("sweep: {name: a}\n", r"x\.yaml:1: this file names several .* graphbench sweep"),
    "missing plug-in": ("plugins: [nowhere.py]\n", r"x\.yaml:1: plug-in 'nowhere.py' cannot be loaded: FileNotFound"),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_message(case: str, write) -> None:
    text, pattern = MESSAGES[case]
    with pytest.raises(UserError, match=pattern):
        load_config(write(text))


@pytest.mark.parametrize("base", ["quickstart", "quickstart.yaml", "configs/quickstart.yaml"])
def test_a_shipped_configuration_is_a_base_from_anywhere(base: str, write) -> None:
    config = load_config(write(f"_base_: {base}\nseed: 7\n"))
    assert (config.tree.seed, config.tree.model.type) == (7, "GPSModel")
    assert load_config(base).tree.model.type == "GPSModel", "and a file from Python"
    write("seed: 3\nmodel: {type: gnn}\ngnn: {layer_type: gcnconv}\n", "quickstart.yaml")
    assert load_config(write("_base_: quickstart.yaml\n")).tree.seed == 3, "the neighbour comes first"


def test_missing_file_names_its_neighbour(write) -> None:
    path = write(BASE, "sgformer-cora.yaml")
    with pytest.raises(UserError, match=r"no such configuration file.*Did you mean '.*sgformer-cora.yaml'"):
        load_config(path.with_name("sgformer-coar.yaml"))


def test_infinity_where_a_component_asks_for_it(write) -> None:
    assert load_config(write("gt: {layer_type: GCN+SFi, SFi: {alpha: .inf}}\n")).value("gt.SFi.alpha") == math.inf


def test_odd_overrides(write) -> None:
    with pytest.raises(UserError, match="overrides come in pairs KEY VALUE; 'seed' has no value"):
        load_config(write(BASE), ["gt.layers", "2", "seed"])


def test_overrides_of_python(write) -> None:
    words = [
        "gt.layers",
        3,
        "optim.base_lr",
        1e-05,
        "optim.steps",
        [3, 4],
        "dataset.split_seed",
        None,
        "wandb.use",
        True,
    ]
    tree = load_config(write(BASE), words).tree
    assert (tree.gt.layers, tree.optim.base_lr, list(tree.optim.steps)) == (3, 1e-05, [3, 4])
    assert tree.dataset.split_seed is None
    assert tree.wandb.use is True
    assert load_config(write(BASE), dict(zip(words[::2], words[1::2], strict=True))).tree == tree
    with pytest.raises(UserError, match=r"overrides are a mapping or \[key, value, .*, received a text"):
        load_config(write(BASE), "gt.layers 3")


@pytest.mark.parametrize("text", ["50", "off", "1.50", "2026-11-28"])
def test_texts_of_the_command_line_are_taken_as_typed(write, text: str) -> None:
    path = write(BASE + "dataset: {format: custom}\n")
    config = load_config(path, ["name_tag", text, "dataset.custom.path", text, "optim.base_lr", "50"])
    assert (config.tree.name_tag, config.tree.dataset.custom.path, config.tree.optim.base_lr) == (text, text, 50.0)
    assert load_config(path, ["name_tag", f"'{text}'"]).tree.name_tag == text
    with pytest.raises(UserError, match=r"x\.yaml:1: name_tag must be a string, received "):
        load_config(write(f"name_tag: {text}\n"))
    with pytest.raises(UserError, match=r"command line: name_tag must be a string, received \[1\] \(list\)"):
        load_config(path, ["name_tag", "[1]"])


def test_overrides_with_an_equals_sign(write) -> None:
    with pytest.raises(UserError, match=r"received 'optim.base_lr=0.1'\. Write optim.base_lr 0.1\."):
        load_config(write(BASE), ["optim.base_lr=0.1"])


def test_override_errors_name_the_command_line(write) -> None:
    with pytest.raises(UserError, match=r"command line: unknown configuration key 'gt.layer'"):
        load_config(write(BASE), ["gt.layer", "2"])


def test_order_base_then_file_then_command_line(write) -> None:
    write("seed: 1\ngt:\n  layers: 1\n  n_heads: 1\noptim:\n  base_lr: 1\n", "fragments/a.yaml")
    write("_base_: a.yaml\ngt:\n  layers: 2\n", "fragments/b.yaml")
    config = load_config(write("_base_: [fragments/b.yaml]\ngt:\n  n_heads: 3\n"), ["seed", "7"])
    assert (config.tree.seed, config.tree.gt.layers, config.tree.gt.n_heads) == (7, 2, 3)
    assert config.where("seed") == "command line"
    assert config.where("gt.layers").endswith("b.yaml:3")
    assert config.where("gt.dropout") == "gt.dropout (default)"


def test_a_file_is_read_anew_and_its_values_belong_to_one_configuration(write) -> None:
    first = load_config(write("run_multiple_splits: [0, 1]\n"))
    first.tree.run_multiple_splits.append(2)
    assert load_config(write("run_multiple_splits: [0, 1]\n")).tree.run_multiple_splits == [0, 1]
    assert load_config(write("run_multiple_splits: [3]\n")).tree.run_multiple_splits == [3]


def test_numbers_written_as_text_become_numbers(write) -> None:
    tree = load_config(write("optim:\n  base_lr: 1e-3\n  weight_decay: 0\n  max_epoch: '12'\n")).tree
    assert tree.optim.base_lr == 0.001
    assert isinstance(tree.optim.weight_decay, float)
    assert tree.optim.max_epoch == 12


@pytest.mark.parametrize("number", ["9" * 400, "'" + "9" * 5000 + "'", "-" + "9" * 301])
@pytest.mark.parametrize("key", ["base_lr", "max_epoch"])
def test_numbers_of_many_digits_are_one_message(write, key: str, number: str) -> None:
    with pytest.raises(UserError, match=rf"x\.yaml:2: optim.{key} received a number of more than 300 digits"):
        load_config(write(f"optim:\n  {key}: {number}\n"))


@pytest.mark.parametrize(
    ("name", "words"), [("x.yaml", ["name_tag", "a.old-1"]), (".x.yaml", []), ("x.old-2.yaml", [])]
)
def test_names_that_tables_do_not_look_into_are_refused(write, name: str, words: list[str]) -> None:
    path = write(BASE)
    other = path.with_name(name)
    other.write_text(path.read_text())
    with pytest.raises(UserError, match=r"the runs would be called .*Choose another name"):
        load_config(other, words)


def test_a_mapping_is_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    split = {"train": [0], "val": [1], "test": [2]}
    Path("split.json").write_text(json.dumps(split))
    settings: dict[str, Any] = {
        "_base_": "quickstart",
        "gt": {"layer_type": "GCN+SFi", "SFi": {"alpha": 1}, "layers": 3},
        "posenc_RWSE.kernel.times": (1, 2),
        "out_dir": tmp_path / "runs",
        "name_tag": "a",
    }
    config = load_config(settings, {"gt.layers": 4}, name="mine")
    words = f"gt.layer_type GCN+SFi gt.SFi.alpha 1 gt.layers 4 out_dir {tmp_path}/runs name_tag a".split()
    written = load_config("quickstart", [*words, "posenc_RWSE.kernel.times", [1, 2]])
    assert config.tree == written.tree
    assert (config.name, config.folder) == ("mine-a", tmp_path / "runs" / "mine-a")
    assert [config.is_own(key) for key in ("gt.layers", "gt.SFi.alpha", "optim.base_lr")] == [True, True, False]
    assert config.beside("split.json").is_file()
    assert settings["gt"] == {"layer_type": "GCN+SFi", "SFi": {"alpha": 1}, "layers": 3}


@pytest.mark.parametrize(
    ("settings", "name", "message"),
    [
        ({"seed": 1}, None, r"a mapping needs the name of its runs"),
        ({"seed": 1}, "a/b", r"name: it is the run folder's name, not a path"),
        ({"seed": 1}, "", r"name: the runs would be called ''"),
        ({}, "a", r"a\.yaml: names no key"),
        ({"gt": {"layerz": 1}}, "a", r"settings: unknown configuration key 'gt\.layerz'. Did you mean 'gt\.layers'"),
        ({"gt": {"layers": 1}, "gt.layers": 2}, "a", r"settings: gt\.layers is set twice"),
        ({1: 2}, "a", r"settings: 1 is no key"),
        ({"gt": {1: 2}}, "a", r"settings: 1 is no key"),
        ({"_base_": "quickstrat"}, "a", r"settings: no such configuration file: 'quickstrat'.* Did you mean"),
        ({"optim": 3}, "a", r"settings: optim is a section of keys, received 3"),
        ({"seed": {1, 2}}, "a", r"settings: seed takes numbers, texts, lists and mappings, received set"),
        ({"plugins": [print]}, "a", r"settings: plugins takes numbers, .* received builtin_function_or_method"),
        ({"seed": 1}, 3, r"name: it is the run folder's name, a text, received 3"),
        ({"seed": 1}, "x" * 300, r"name: a run folder's name has at most 240 bytes, received 'xxx"),
    ],
)
def test_mappings_are_checked_as_files(settings: dict[Any, Any], name: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_config(settings, name=name)


def test_mappings_that_contain_themselves_and_what_is_none() -> None:
    endless: dict[str, Any] = {}
    endless["gt"] = endless
    values: list[Any] = []
    values.append(values)
    for settings in (endless, {"run_multiple_splits": values}):
        with pytest.raises(UserError, match=r"settings: .*more than 100 .* lie inside each other"):
            load_config(settings, name="a")
    for wrong in (None, ["seed", 1], load_config("quickstart")):
        with pytest.raises(TypeError, match="load_config takes a file, a shipped name or a mapping, received "):
            load_config(wrong)  # type: ignore[arg-type]


def test_numbers_of_numpy_and_pytorch_are_numbers() -> None:
    settings = {
        "_base_": "quickstart",
        "seed": np.int64(7),
        "optim.base_lr": torch.tensor(0.5),
        "gt.dropout": np.float32(0.25),
    }
    tree = load_config(settings, name="a").tree
    assert (tree.seed, tree.optim.base_lr, tree.gt.dropout) == (7, 0.5, 0.25)


def test_own_sections_are_completed_from_the_signature(write) -> None:
    config = load_config(write("gt:\n  layer_type: GCN+SGFormer\n  SGFormer:\n    norm: l2\n"))
    own = config.component_args("gt", "SGFormer")
    assert own["norm"] == "l2"
    assert own["use_weight"] is True  # a default of the constructor, visible in the dump and in the hash


def test_dump_loads_to_the_same_configuration(write, tmp_path: Path) -> None:
    text = "gt:\n  layer_type: GCN+SGFormer\nposenc_RWSE:\n  kernel:\n    times_func: range(1,5)\n"
    config = load_config(write(text))
    again = tmp_path / "again.yaml"
    again.write_text(config.dump())
    assert load_config(again).hash == config.hash


def test_hash_follows_what_matters_and_ignores_what_does_not(write) -> None:
    path = write(BASE)
    same = load_config(path, ["seed", "9", "out_dir", "elsewhere", "wandb.use", "true"])
    assert same.hash == load_config(path).hash
    assert load_config(path, ["gt.layers", "5"]).hash != load_config(path).hash
    assert load_config(path, ["gt.layer_type", "GCN+SGFormer"]).hash != load_config(path).hash


def test_keys_without_effect_say_so(write) -> None:
    (notice,) = load_config(write("gnn:\n  keep_edge: 0.1\n")).notices
    assert "x.yaml:2: gnn.keep_edge" in notice
    assert "no effect" in notice


def test_empty_sections_are_fine(write) -> None:
    assert load_config(write("gt: {}\noptim:\n")).tree.gt.layers == SCHEMA["gt.layers"].default


def test_plugin_beside_the_file_opens_its_own_keys(write) -> None:
    write(
        "from graphbench.layers.contract import GlobalAttention\n"
        "from graphbench.registry import register\n"
        "@register('PluginForTest')\n"
        "class PluginForTest(GlobalAttention):\n"
        "    def __init__(self, *, sharpness: float = 1.0):\n"
        "        super().__init__()\n"
        "    def forward(self, h, e, batch):\n"
        "        return h\n",
        "mine.py",
    )
    text = "plugins: [mine.py]\ngt:\n  layer_type: None+PluginForTest\n  PluginForTest:\n    sharpness: 2\n"
    try:
        assert load_config(write(text)).component_args("gt", "PluginForTest") == {"sharpness": 2.0}
    finally:
        registry.forget("layers/attention", "PluginForTest")


def test_every_key_explains_itself() -> None:
    assert not [name for name, key in SCHEMA.items() if not (key.help or key.inert)]


@pytest.mark.parametrize("text", ["", "null", "~"])
def test_nothing_is_not_set(write, text: str) -> None:
    path = write(f"pretrained: {{dir: {text}}}\nname_tag: {text}\nposenc_RWSE: {{kernel: {{times_func: {text}}}}}\n")
    for config in (load_config(path), load_config(path, ["pretrained.dir", text, "name_tag", text])):
        assert (config.name, config.tree.pretrained.dir) == ("x", "")
        assert config.tree.posenc_RWSE.kernel.times_func == ""
    assert load_config(path, ["optim.scheduler", text]).tree.optim.scheduler == "none"
    for key in ("out_dir", "gt.layer_type", "model.type"):
        with pytest.raises(UserError, match=f"command line: {key} must be a string, received nothing"):
            load_config(path, [key, text])


@pytest.mark.parametrize("text", ["none", "None", "null", ""])
def test_none_is_written_in_many_ways(write, text: str) -> None:
    assert load_config(write("optim: {filter_lr: 1.0}\n"), ["optim.filter_lr", text]).tree.optim.filter_lr is None


@pytest.mark.parametrize(
    "key", ["round", "cfg_dest", "gnn.skip_every", "gnn.att_heads",
            "gnn.att_final_linear", "gnn.att_final_linear_bn"]
)  # fmt: skip
def test_what_nothing_reads_says_so_and_does_not_count(write, key: str) -> None:
    value = {int: "9", bool: "true", str: "other.yaml"}[SCHEMA[key].kind]
    config = load_config(write(BASE), [key, value])
    assert any(notice.startswith(f"command line: {key}: ") for notice in config.notices)
    assert config.hash == load_config(write(BASE)).hash


def test_every_other_key_is_read_somewhere() -> None:
    sources = [path for path in (ROOT / "graphbench").rglob("*.py") if not path.name.endswith("_keys.py")]
    text = "\n".join(path.read_text() for path in sources)
    words = set(re.findall(r"\.(\w+)|[\"'](\w+)[\"']|(\w+):", text))
    read = {word for groups in words for word in groups if word}
    effective = [name for name, key in SCHEMA.items() if not key.inert]
    assert [name for name in effective if name.rpartition(".")[2] not in read] == []


def test_a_component_of_another_key_is_said_so() -> None:
    with pytest.raises(UserError, match=r"name in model.type 'SGFormer'.* 'SGFormer' is a name for gt.layer_type\."):
        load_config(ROOT / "configs/quickstart.yaml", ["model.type", "SGFormer"])


def test_names_stand_once_in_a_message_and_a_configuration_prints_short() -> None:
    with pytest.raises(UserError) as refused:
        load_config(ROOT / "configs/quickstart.yaml", ["optim.stepss", "3"])
    assert str(refused.value).count("optim.steps,") == 1
    assert re.fullmatch(
        r"Config\('quickstart', hash \w{12}, \d+ keys set\)", repr(load_config(ROOT / "configs/quickstart.yaml"))
    )


@pytest.mark.parametrize("count", [1, 3, 12])
def test_all_unknown_keys_are_one_message(tmp_path: Path, count: int) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("gt:\n" + "".join(f"  layrs{number}: 3\n" for number in range(count)) + "seed: text\n")
    with pytest.raises(UserError) as error:
        load_config(file)
    lines = str(error.value).splitlines()
    found = [
        re.match(r".*x\.yaml:(\d+): unknown configuration key 'gt\.layrs(\d+)'\. Did you mean", line) for line in lines
    ]
    shown = min(count, 8)
    assert [(each[1], each[2]) for each in found[:shown] if each] == [(str(k + 2), str(k)) for k in range(shown)]
    assert lines[shown:] == (["... (12 keys in all)"] if count > 8 else [])


@pytest.mark.parametrize(
    ("config", "run_id", "text", "name"),
    [
        ("gcn-custom", "3", "train: {mode: custom}\n", "gcn-custom"),
        ("gcn-wide-inference-only", "3", "train: {mode: inference-only}\nname_tag: wide\n", "gcn-wide"),
        ("gcn", "7", "seed: 3\n", "gcn-split7"),
    ],
)
def test_a_runs_own_file_has_the_name_of_the_run(
    config: str, run_id: str, text: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert load_config(tmp_path / "config.yaml").name.startswith("config")
    (tmp_path / "record.json").write_text(json.dumps({"config": config, "run_id": run_id, "seed": 3}))
    assert load_config(tmp_path / "config.yaml").name == name
