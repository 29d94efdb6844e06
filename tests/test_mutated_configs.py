"""300 damaged configurations: exit code 2 and one message each, never a traceback."""

from __future__ import annotations

import copy
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from graphbench.commands.train import main
from graphbench.config import load_config
from graphbench.config.schema import SCHEMA
from tests.paths import ROOT

SOURCES = sorted(path for path in (ROOT / "configs").rglob("*.yaml") if not {"_base_", "sweeps"} & {*path.parts})
Tree = dict[str, Any]
Mutation = Callable[[Tree, random.Random], bool]


def flat(path: Path) -> Tree:
    """A shipped file with its fragments merged: what a user of one long YAML has before him."""
    config = load_config(path)
    tree: Tree = {}
    for key in config.origin:
        put(tree, key, config.value(key))
    return tree


def put(tree: Tree, key: str, value: Any) -> None:
    """Sets a dotted key."""
    *groups, last = key.split(".")
    for group in groups:
        tree = tree.setdefault(group, {})
    tree[last] = value


def leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All dotted keys and their values."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def misspelt(word: str, dice: random.Random) -> str:
    """One letter dropped, doubled, exchanged or added."""
    at = dice.randrange(len(word))
    return dice.choice(
        [
            word[:at] + word[at + 1 :] + "q",
            word[:at] + word[at] + word[at:],
            word[:at] + dice.choice(string.ascii_lowercase) + word[at:],
            word[:at] + "zz" + word[at + 1 :],
        ]
    )


# --- ways to damage a configuration; each says whether it found something to damage --------------------------------


def typo_in_a_key(tree: Tree, dice: random.Random) -> bool:
    """A key that does not exist."""
    key, value = dice.choice(list(leaves(tree)))
    group, _, name = key.rpartition(".")
    wrong = f"{group}.{misspelt(name, dice)}".strip(".")
    if wrong in SCHEMA or any(other.startswith(wrong + ".") for other in SCHEMA):
        return False
    put(tree, wrong, value)
    return True


def typo_in_a_section(tree: Tree, dice: random.Random) -> bool:
    """A section that does not exist."""
    sections = [name for name, value in tree.items() if isinstance(value, dict)]
    name = dice.choice(sections)
    wrong = misspelt(name, dice)
    tree[wrong] = tree.pop(name)
    return wrong != name


def typo_in_a_name(tree: Tree, dice: random.Random) -> bool:
    """A component that does not exist."""
    named = [key for key, value in leaves(tree) if key in SCHEMA and SCHEMA[key].namespaces and isinstance(value, str)]
    key = dice.choice(named)
    value = dict(leaves(tree))[key]
    parts = [part for part in value.split("+") if part != "None"]
    part = dice.choice(parts)
    put(tree, key, value.replace(part, part + dice.choice("qxz") * 2, 1))
    return True


def wrong_type(tree: Tree, dice: random.Random) -> bool:
    """A value of another type than the key's."""
    keys = [key for key, _ in leaves(tree) if key in SCHEMA and SCHEMA[key].kind in (int, float, bool, list)]
    key = dice.choice(keys)
    wrong = {
        int: ["many", 2.5, True, [1], None],
        float: ["much", False, [0.1]],
        bool: ["perhaps", 1, 0.0, []],
        list: ["none of it", 3, True],
    }
    put(tree, key, dice.choice(wrong[SCHEMA[key].kind]))
    return True


def section_instead_of_value(tree: Tree, dice: random.Random) -> bool:
    """A mapping where a value belongs."""
    key = dice.choice([key for key, _ in leaves(tree) if key in SCHEMA])
    put(tree, key, {"value": 1})
    return True


def value_instead_of_section(tree: Tree, dice: random.Random) -> bool:
    """A value where a mapping belongs."""
    name = dice.choice([name for name, value in tree.items() if isinstance(value, dict)])
    tree[name] = dice.choice([3, "yes", [1, 2]])
    return True


def out_of_range(tree: Tree, dice: random.Random) -> bool:
    """A number below the smallest that is allowed."""
    bounded = [key for key, _ in leaves(tree) if key in SCHEMA and SCHEMA[key].minimum is not None]
    key = dice.choice(bounded)
    declared = SCHEMA[key]
    assert declared.minimum is not None
    low = declared.minimum - 1
    put(tree, key, [int(low)] if declared.kind is list else declared.kind(low))
    return True


def removed_dataset(tree: Tree, dice: random.Random) -> bool:
    """No data set."""
    del tree["dataset"]
    return True


def removed_encoding(tree: Tree, dice: random.Random) -> bool:
    """The settings of an encoding that the encoder's name asks for."""
    sections = [name for name in tree if name.startswith("posenc_") and tree[name].get("enable")]
    used = [
        name
        for name in sections
        if name.removeprefix("posenc_") in tree["dataset"].get("node_encoder_name", "").split("+")
    ]
    if not used or not tree["dataset"].get("node_encoder"):
        return False
    del tree[dice.choice(used)]
    return True


def removed_width(tree: Tree, dice: random.Random) -> bool:
    """One of two keys that say the same width."""
    if tree["model"]["type"] != "GPSModel" or tree["gt"].get("dim_hidden", 64) in (16, 64):
        return False
    del tree[dice.choice(["gt", "gnn"])]
    return True


def contradiction(tree: Tree, dice: random.Random) -> bool:
    """Values that are valid alone and impossible together."""
    gps, width = tree["model"]["type"] == "GPSModel", tree["gnn"].get("dim_inner", 16)
    encoder = tree["dataset"].get("node_encoder_name", "LinearNode")
    choices: list[dict[str, Any]] = [
        {
            "dataset.task_type": "regression"
            if "class" in tree["dataset"].get("task_type", "class")
            else "classification"
        },
        {"dataset.node_encoder": True, "dataset.node_encoder_name": encoder.split("+")[0] + "+Atom+LinearNode"},
        {"dataset.node_encoder": True, "dataset.node_encoder_name": "RWSE", "posenc_RWSE.enable": False},
        {
            "dataset.node_encoder": True,
            "dataset.node_encoder_name": "LapPE",
            "posenc_LapPE": {"enable": True, "dim_pe": 5000},
        },
        {"metric_agg": "argmax" if tree["dataset"].get("task_type") == "regression" else "argmin"},
        {"dataset.split": [0.9, 0.9, 0.9], "dataset.split_mode": "randon"},
        {"model.graph_pooling": "median"},
        {
            "posenc_RWSE.kernel.times_func": "exec(1)",
            "posenc_RWSE.enable": True,
            "dataset.node_encoder": True,
            "dataset.node_encoder_name": "LinearNode+RWSE",
        },
    ]
    if "compat" not in tree:
        choices.append({"gt.dim_edge": 8, "train.eval_smoothing_metrics": True})
    if gps:
        choices += [
            {"gt.layer_norm": True, "gt.batch_norm": True},
            {"gt.dim_hidden": width + 1},
            {"gt.layer_type": "None+None"},
            {"gt.layer_type": "GCN+Transformer", "gt.n_heads": width + 1},
            {"gt.layer_type": "GINE+Transformer", "dataset.edge_encoder": False},
        ]
    for key, value in dice.choice(choices).items():
        put(tree, key, value)
    return True


MUTATIONS: list[Mutation] = [
    typo_in_a_key,
    typo_in_a_section,
    typo_in_a_name,
    wrong_type,
    section_instead_of_value,
    value_instead_of_section,
    out_of_range,
    removed_dataset,
    removed_encoding,
    removed_width,
    contradiction,
]


@pytest.fixture(scope="module")
def trees() -> list[Tree]:
    return [flat(path) for path in SOURCES]


@pytest.mark.slow
def test_every_damaged_configuration_ends_with_one_message(
    trees: list[Tree], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(300):
        dice = random.Random(number)
        tree = copy.deepcopy(dice.choice(trees))
        while not (mutate := dice.choice(MUTATIONS))(tree, dice):
            pass
        check(tree, f"{number}, {mutate.__name__}", tmp_path / "damaged.yaml", capsys)


def check(tree: Tree, damage: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    capsys.readouterr()
    code = main(["--cfg", str(path), "--dry_run"])  # a traceback would fail the test here
    out, err = capsys.readouterr()
    told = f"{damage}:\n{path.read_text()}\n{out}{err}"
    assert code == 2, told
    assert not out, told
    notices = err.partition("error: ")[0].splitlines()
    assert all(line.startswith(f"{path}:") for line in notices), told
    assert err.count("error: ") == 1, told
    assert "Traceback" not in err, told


@pytest.mark.slow
def test_what_is_damaged_was_whole(trees: list[Tree], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, tree in enumerate(trees[::4]):
        path = tmp_path / f"whole{number}.yaml"
        path.write_text(yaml.safe_dump(tree, sort_keys=False))
        assert main(["--cfg", str(path), "--dry_run"]) == 0, capsys.readouterr().err
