"""Settings and hashes: what they count, and how they age when keys and defaults come and change."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from graphbench import registry
from graphbench.config import Config, load_config
from graphbench.config.config import flat
from graphbench.config.key import Key
from graphbench.config.schema import SCHEMA
from graphbench.config.settings import differences, settings_of
from graphbench.layers.contract import GlobalAttention
from tests.paths import ROOT

GPS = ROOT / "configs/gnnbench/gps-zinc.yaml"
SFI = ROOT / "configs/lrgb/sfi-pascal.yaml"


def load(*overrides: str, path: Path = SFI) -> Config:
    return load_config(path, overrides)


def test_a_key_that_is_added_leaves_older_configurations_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = load()
    monkeypatch.setitem(SCHEMA, "optim.momentum_of_tomorrow", Key(0.5, "new"))
    assert load().hash == before.hash
    assert load("optim.momentum_of_tomorrow", "0.5").hash == before.hash
    assert load("optim.momentum_of_tomorrow", "0.6").settings == {
        **before.settings,
        "optim.momentum_of_tomorrow": 0.6,
    }
    assert load("optim.momentum_of_tomorrow", "0.6").hash != before.hash


def test_a_default_that_is_changed_changes_what_leaves_the_key_out(monkeypatch: pytest.MonkeyPatch) -> None:
    before, released = load(), SCHEMA["optim.lr_decay"]
    assert not before.is_set("optim.lr_decay")
    monkeypatch.setitem(SCHEMA, "optim.lr_decay", dataclasses.replace(released, default=0.7))
    after = load()
    assert after.hash != before.hash
    assert differences(after.settings, before.settings) == {"optim.lr_decay": (0.7, released.default)}
    assert load("optim.lr_decay", str(released.default)).hash == before.hash


def with_argument(default: Any) -> type:
    """An attention as it may look in two versions: without and with a further argument."""

    class Before(GlobalAttention):
        def __init__(self, *, gain: float = 1.0) -> None:
            super().__init__()

        def forward(self, h: Any, e: Any, batch: Any) -> Any:
            return h

    class After(Before):
        def __init__(self, *, gain: float = 1.0, further: float = default) -> None:
            super().__init__(gain=gain)

    return Before if default is None else After


def test_an_argument_that_is_added_to_a_component_leaves_older_configurations_alone() -> None:
    def hash_of(default: float | None, *overrides: str) -> str:
        registry.register("Versioned", namespace="layers/attention")(with_argument(default))
        try:
            return load("gt.layer_type", "None+Versioned", *overrides).hash
        finally:
            registry.forget("layers/attention", "Versioned")

    before = hash_of(None)
    assert hash_of(3.0) == before
    assert hash_of(3.0, "gt.Versioned.further", "4") != before


@pytest.mark.parametrize(
    "overrides",
    [
        ("out_dir", "elsewhere"),
        ("seed", "7"),
        ("wandb.use", "true"),
        ("dataset.shuffle_split", "false"),
        ("gt.SGFormer.norm", "l2"),
    ],
    ids=lambda pair: pair[0],
)
def test_what_has_no_influence_does_not_count(overrides: tuple[str, str]) -> None:
    assert load(*overrides).hash == load().hash


def test_a_section_that_is_not_in_use_is_said_to_have_no_effect() -> None:
    config = load("gt.SGFormer.norm", "l2")
    assert "command line: gt.SGFormer.norm has no effect: SGFormer is not in use." in config.notices
    told = "model.LINKX.nodes has no effect: LINKX is not in use there; did you mean 'gt.LINKX.nodes'?"
    assert f"command line: {told}" in load("model.type", "LINKX", "model.LINKX.nodes", "5").notices
    assert config.hash == load().hash


def test_an_encoding_that_is_switched_on_and_not_named_is_told() -> None:
    told = "command line: posenc_RWSE.enable has no effect: no encoder (dataset.node_encoder_name) is RWSE."
    on = ["posenc_RWSE.enable", "True"]
    assert told in load_config(ROOT / "configs/nodes/gcn-cora.yaml", on).notices
    assert told in load_config(ROOT / "configs/quickstart.yaml", [*on, "dataset.node_encoder", "False"]).notices
    assert told not in load_config(ROOT / "configs/quickstart.yaml", on).notices


def test_an_encoding_is_told_where_its_file_switches_it_on_or_its_encoder_is_replaced(tmp_path: Path) -> None:
    def told(path: Path, *overrides: str) -> bool:
        return any("posenc_RWSE.enable has no effect" in each for each in load_config(path, overrides).notices)

    other = ["dataset.node_encoder_name", "TypeDictNode"]
    assert told(GPS, *other)
    own = tmp_path / "own.yaml"
    own.write_text(f"_base_: {ROOT / 'configs/nodes/gcn-cora.yaml'}\nposenc_RWSE: {{enable: true}}\n")
    assert told(own)
    child = tmp_path / "child.yaml"
    child.write_text("_base_: own.yaml\n")
    assert not told(child)  # base files switch on what a file that builds on them need not name


def test_a_warm_up_that_outlasts_the_training_is_told() -> None:
    def told(*overrides: str) -> list[str]:
        given = ["optim.scheduler", "cosine_with_warmup", *overrides]
        return [each for each in load_config(ROOT / "configs/quickstart.yaml", given).notices if "warm-up" in each]

    short = ["optim.max_epoch", "20"]
    warm = ["optim.num_warmup_epochs", "20"]
    assert told(*short, *warm) == [
        "command line: the warm-up (optim.num_warmup_epochs 20) is not shorter than the training (optim.max_epoch 20): "
        "the learning rate never reaches optim.base_lr."
    ]
    assert not told("optim.max_epoch", "21", *warm)
    assert not told(*short, *warm, "optim.scheduler", "cos")
    assert not told(*short, *warm, "optim.cosine_with_warmup.num_warmup_epochs", "5")


@pytest.mark.parametrize(
    "key", ["gt.SFi.lam", "gt.layers", "optim.base_lr", "dataset.split_mode", "posenc_LapPE.layers"]
)
def test_what_has_influence_counts(key: str) -> None:
    value = load().value(key)
    other = {"standard": "random"}.get(value, str(value * 2) if not isinstance(value, str) else "")
    assert load(key, other).hash != load().hash


def reloaded(config: Config, folder: Path) -> Config:
    (folder / "dumped.yaml").write_text(config.dump())
    return load_config(folder / "dumped.yaml")


@pytest.mark.slow
def test_a_dumped_configuration_is_the_same_configuration(tmp_path: Path) -> None:
    """Of every fifth shipped file: each value, and with it the hash."""
    files = [path for path in (ROOT / "configs").rglob("*.yaml") if not {"_base_", "sweeps"} & {*path.parts}][::5]
    assert len(files) > 100
    for config in map(load_config, files):
        again = reloaded(config, tmp_path)
        assert again.plain() == config.plain(), config.name
        assert again.hash == config.hash
    assert again.settings == config.settings == settings_of(flat(config.plain()))


AMAZON = """
dataset:
  {{format: {family}, name: {name}, split_mode: {mode}{split}, node_encoder: true, node_encoder_name: LinearNode}}
model: {{type: gnn}}
gnn: {{head: node}}
"""


@pytest.mark.parametrize(
    ("family", "name", "mode", "default"),
    [
        ("PyG-Amazon", "photo", "standard", [0.6, 0.2, 0.2]),
        ("PyG", "AmazonPhoto", "standard", [0.6, 0.2, 0.2]),
        ("PyG-Coauthor", "cs", "standard", [0.6, 0.2, 0.2]),
        ("PyG-CitationFull", "dblp", "standard", [0.6, 0.2, 0.2]),
        ("PyG-Amazon", "photo", "random", [0.8, 0.1, 0.1]),
        ("PyG-Amazon", "photo", "random-class", [20, 500, 1000]),
        ("PyG-Planetoid", "Cora", "standard", [0.8, 0.1, 0.1]),
    ],
)
def test_a_split_that_is_not_written_is_the_one_that_is_dumped(
    family: str, name: str, mode: str, default: list[float], tmp_path: Path
) -> None:
    """One configuration, one hash, one split: whether ``dataset.split`` was written makes no difference."""

    def load_split(split: str) -> Config:
        (tmp_path / "a.yaml").write_text(AMAZON.format(family=family, name=name, mode=mode, split=split))
        return load_config(tmp_path / "a.yaml")

    left_out = load_split("")
    assert left_out.tree.dataset.split == default
    assert reloaded(left_out, tmp_path).hash == left_out.hash == load_split(f", split: {default}").hash
    assert load_split(", split: [0.7, 0.1, 0.2]").hash != left_out.hash


def test_the_configuration_of_one_run_is_that_run(tmp_path: Path) -> None:
    config = load("run_multiple_splits", "[0, 4]")
    again = reloaded(config.of_run(7, 4), tmp_path)
    assert (again.tree.seed, again.tree.dataset.split_index, again.tree.run_multiple_splits) == (7, 4, [])
    assert again.hash == load("dataset.split_index", "4").hash
