"""Files that other programs read: they parse, and name what exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from graphbench import __version__
from tests.paths import ROOT

YAML = [
    *(ROOT / ".github").rglob("*.yml"),
    *(ROOT / name for name in ("CITATION.cff", ".pre-commit-config.yaml")),
]


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(ROOT)))
def test_yaml_parses_and_names_what_exists(path: Path) -> None:
    text = path.read_text()
    assert isinstance(yaml.safe_load(text), dict)
    for script in re.findall(r"(?:bash |-m )(scripts[/.][\w./]+)", text):
        file = script if script.endswith(".sh") else script.replace(".", "/") + ".py"
        assert (ROOT / file).is_file(), script


def test_versions_agree() -> None:
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
