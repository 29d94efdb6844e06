"""Guides: links lead somewhere, commands name what exists, generated pages are current, the site builds."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from graphbench import console, shipped
from graphbench.commands import train as cli
from graphbench.config import load_config
from graphbench.sweeps import cli as sweeps
from graphbench.sweeps import read_sweep
from tests.paths import ROOT

GUIDES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "configs/README.md", "study/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "results").glob("*/README.md")),
]
CREATED = ("results/", "your/", "path/to/", "my", "/")  # what a command makes, or the reader has


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", GUIDES, ids=_name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)\s#]*)(#[^)\s]*)?\)", text):
        if target.startswith(("http:", "https:")):
            continue
        found = (path.parent / target).resolve() if target else path
        assert found.exists(), f"{path.name} links to {target}"
        if anchor and found.suffix == ".md":
            assert anchor[1:] in _anchors(found), f"{path.name} links to {target}{anchor}"


@pytest.mark.parametrize("name", ["docs/ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_files_of_the_package_exist(name: str) -> None:
    paths = re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|json|yaml|md))`", (ROOT / name).read_text())
    assert paths
    missing = [path for path in paths if not (ROOT / path).exists() and not (ROOT / "graphbench" / path).exists()]
    assert not missing


def _anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def _commands() -> list[tuple[Path, list[str]]]:
    """Every line of a shell block, continuations joined, comments and variables in front left out."""
    found = []
    for path in GUIDES:
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE):
            for line in block.replace("\\\n", " ").splitlines() if language in ("bash", "sh") else ():
                words = list(itertools.dropwhile(_is_variable, _words(line)))
                if words[:1] == ["graphbench"] or (words[1:] and words[1].startswith(("main.py", "scripts/"))):
                    found.append((path, [expanded for word in words for expanded in _braces(word)]))
    return found


def _words(line: str) -> list[str]:
    return shlex.split(line, comments=True) if re.match(r"(\w+=\S+ )*(python|bash|graphbench) ", line) else []


def _is_variable(word: str) -> bool:
    return re.match(r"\w+=", word) is not None


def _braces(word: str) -> list[str]:
    """``a{b,c}d`` as a shell reads it."""
    parts = re.split(r"\{([^}]*,[^}]*)\}", word)
    choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


COMMANDS = _commands()


def test_commands_were_found() -> None:
    assert len(COMMANDS) > 50


@pytest.mark.parametrize(("path", "words"), COMMANDS, ids=[f"{p.name}:{' '.join(w[1:4])}" for p, w in COMMANDS])
def test_commands_name_what_exists(path: Path, words: list[str]) -> None:
    if words[0] == "graphbench":
        assert words[1] in (*console.COMMANDS, "completion"), words
        if words[1] in ("train", "check"):
            options = cli._parse([word for word in words[2:] if word not in ("--measure", "--contract")])
            for file in options.cfg:
                if "*" in file:
                    assert list(ROOT.glob(file)), words
                elif Path(file).is_absolute():  # shipped; others the reader has, or a block of the guide
                    load_config(file, options.overrides)
                else:
                    assert file.endswith(".yaml"), words
        for before, name in itertools.pairwise(words[1:]):
            if before in ("--sweep", "sweep"):
                assert shipped.configuration(name).is_absolute() or name.startswith(CREATED), words
        return
    files = [word for word in words[1:] if re.fullmatch(r"[\w./*-]+\.(yaml|py|sh)", word)]
    for word in files:
        if not word.startswith(CREATED) and "/" in word:
            assert list(ROOT.glob(word)), f"{path.name} names {word}"
    ours = [word for word in files if word.startswith("configs/") and "*" not in word]
    form = any(word == "..." or word.startswith("[") for word in words)  # a form, not a command
    if not ours or form or words[1] not in ("main.py", "scripts/sweep.py"):
        return
    arguments = [str(ROOT / word) if word in ours else word for word in words[2:]]
    if words[1] == "main.py":
        options = cli._parse(arguments)
        for file in options.cfg:
            load_config(file, options.overrides)
    else:
        options, _ = sweeps._parse(arguments)
        read_sweep(options.sweep, options.overrides)


@pytest.mark.slow
@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("material", "mkdocstrings"))), reason="pip install 'graphbench-gt[docs]'"
)
def test_the_site_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "graphbench" in (tmp_path / "index.html").read_text()
    assert (tmp_path / "docs" / "reproducing.html").is_file()
    operators = (tmp_path / "docs/api/operators.html").read_text()
    assert "softmax_attention" in operators
    assert ":class:" not in operators
