"""Shipped sweeps: every entry builds, and no two entries are the same run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from graphbench.config import Config, load_config
from graphbench.experiment import describe

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
SWEEPS = sorted((CONFIGS / "sweeps").glob("*.yaml"))


def entries(path: Path) -> Iterator[tuple[str, Path, Config]]:
    """Label, file and loaded configuration of every entry, as the first lines of the file say it is read."""
    for group in yaml.safe_load(path.read_text())["groups"]:
        for name in group["configs"]:
            for variant in group["variants"]:
                keys = {key: value for key, value in variant.items() if key != "label"}
                overrides = [
                    text for key, value in keys.items() for text in (key, yaml.safe_dump(value).split("\n")[0])
                ]
                yield variant["label"], path.parent / name, load_config(path.parent / name, overrides)


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_every_entry_builds_and_is_a_run_of_its_own(path: Path) -> None:
    sweep = yaml.safe_load(path.read_text())["sweep"]
    assert sweep["name"] == path.stem
    assert sweep["seeds"] >= 1
    found = list(entries(path))
    assert len({config.name for _, _, config in found}) == len(found), "two entries write into one folder"
    assert len({config.hash for _, _, config in found}) == len(found), "a key has no effect"
    assert len({(label, file) for label, file, _ in found}) == len(found), "a cell of the table has two entries"
    for _, _, config in found:
        assert describe(config)["params"] > 0


def test_the_ablation_is_table_3() -> None:
    """Ten rows on three data sets; only the one without flow is smaller: no queries, keys, friction and gamma."""
    found = {
        (label, file.stem.split("-", 1)[1]): config
        for label, file, config in entries(CONFIGS / "sweeps/sfi-ablation.yaml")
    }
    assert len(found) == 30
    count = {key: describe(config)["params"] for key, config in found.items() if key[1] == "pascal"}
    full = count["SFi-Former", "pascal"]
    assert count["SFi-Former-SP", "pascal"] == count["SFi-Former-lambda3", "pascal"] == full
    assert count["SFi-Former-A_tilde", "pascal"] == full - 8 * (4 * 4 * 68 * 69 + 2)


def test_the_overview_lists_every_sweep() -> None:
    listed = re.findall(r"\]\((sweeps/[\w.-]+)\)", (CONFIGS / "README.md").read_text())
    assert sorted(listed) == [str(path.relative_to(CONFIGS)) for path in SWEEPS]
