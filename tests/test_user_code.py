"""Which texts of users a component, or a plug-in, depends on."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphbench
from graphbench import plug_ins, registry, user_code
from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.layers.attention.transformer import Transformer
from graphbench.predict.export import export
from tests.own_graphs import write_rings

COMPONENT = """
from torch import nn
from graphbench.layers.contract import GlobalAttention
from graphbench.registry import FromContext, register

GAIN, UNUSED = 1.0, 1.0

def scaled(h):
    return GAIN * h

@register("Hers")
class Hers(GlobalAttention):
    def __init__(self, dim: FromContext[int]):
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    def forward(self, h, e, batch):
        return scaled(self.lin(h))
"""

SCRIPT = (
    COMPONENT
    + """
import hashlib
import graphbench

config = graphbench.load_config("rings.yaml", {"gt.layer_type": "GCN+Hers"})
for name, source in config.component_code.items():
    print(name, hashlib.sha256(source).hexdigest())
"""
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    write_rings(tmp_path)
    loaded = set(sys.modules)
    yield tmp_path
    registry.forget("layers/attention", "Hers")
    for name in set(sys.modules) - loaded:
        if user_code._files_of(name):
            del sys.modules[name]


def test_what_a_text_imports_of_the_users(folder: Path) -> None:
    (folder / "parts").mkdir()
    (folder / "parts/__init__.py").write_text("")
    (folder / "parts/one.py").write_text("from . import two\nfrom torch import nn\nimport graphbench.nn\n")
    (folder / "parts/two.py").write_text("import json, added_later\n")
    (folder / "parts/unused.py").write_text("")
    (folder / "plugin.py").write_text("def late():\n    import parts.one\nimport re, numpy.linalg\n")
    (folder / "alone.py").write_text("import torch, graphbench.layers.contract\n")
    imported = user_code.imported_by(plug_ins.load_plugin("plugin.py").__name__)
    assert list(imported) == ["parts/__init__.py", "parts/one.py", "parts/two.py"]
    assert imported["parts/two.py"] == b"import json, added_later\n"
    assert user_code.imported_by(plug_ins.load_plugin("alone.py").__name__) == {}
    package = plug_ins.load_plugin("parts")
    assert user_code.imported_by(package.__name__) == {}, "its own files are its source"


def test_a_module_counts_as_it_was_imported_until_it_is_reloaded(folder: Path) -> None:
    file = folder / "beside_hers.py"
    file.write_text("GAIN = 1\n")
    plugin = folder / "hers.py"
    plugin.write_text("from beside_hers import GAIN\n")
    name = plug_ins.load_plugin(str(plugin)).__name__
    assert user_code.imported_by(name) == {"beside_hers.py": b"GAIN = 1\n"}
    file.write_text("GAIN = 22\n")
    assert user_code.imported_by(name) == {"beside_hers.py": b"GAIN = 1\n"}, "which is what the process still runs"
    importlib.reload(sys.modules["beside_hers"])
    assert user_code.imported_by(name) == {"beside_hers.py": b"GAIN = 22\n"}


def test_a_registered_component_counts_unless_a_listed_plug_in_brings_it(folder: Path) -> None:
    (folder / "own_layers.py").write_text(COMPONENT)
    own = {"gt.layer_type": "GCN+Hers"}
    importlib.import_module("own_layers")
    imported = load_config("rings.yaml", own)
    assert imported.component_code == {"Hers": COMPONENT.encode()}
    assert imported.code == {}
    listed = load_config("rings.yaml", {**own, "plugins": "[own_layers]"})
    assert listed.code == {"own_layers": COMPONENT.encode()}
    assert listed.component_code == {}
    assert imported.component_code == {"Hers": COMPONENT.encode()}, "whatever else the process has loaded"
    assert load_config("rings.yaml").component_code == {}, "which does not name it"
    assert user_code.of_component(Transformer) == {}


def test_a_component_without_source_is_like_no_other(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    exec(compile(COMPONENT, "<nowhere>", "exec"), {"__name__": "nowhere"})
    config = load_config("rings.yaml", {"gt.layer_type": "GCN+Hers"})
    first = config.component_code["Hers"]
    assert config.component_code == {"Hers": first}
    registry.forget("layers/attention", "Hers")
    exec(compile(COMPONENT, "<nowhere>", "exec"), {"__name__": "nowhere"})
    assert config.component_code["Hers"] != first
    assert caplog.text.count("Hers: its source cannot be read: its runs are never skipped or resumed by another") == 2


@pytest.mark.parametrize(
    ("written", "instead", "changes"),
    [
        ("GAIN, UNUSED = 1.0", "GAIN, UNUSED = 77.0", True),
        ("GAIN * h", "GAIN + h", True),
        ("nn.Linear(dim, dim)", "nn.Linear(dim, dim, bias=False)", True),
        ("= 1.0, 1.0", "= 1.0, 2.0", False),
        ("import graphbench\n", "import graphbench\nprint('edited')\n", False),
    ],
)
def test_a_component_of_the_script_counts_with_what_it_names(
    folder: Path, monkeypatch: pytest.MonkeyPatch, written: str, instead: str, changes: bool
) -> None:
    import __main__

    def code(text: str) -> dict[str, bytes]:
        (folder / "script.py").write_text(text)
        monkeypatch.setattr(__main__, "__file__", str(folder / "script.py"), raising=False)
        user_code.linecache.checkcache()
        before = set(vars(__main__))
        exec(compile(text, str(folder / "script.py"), "exec"), vars(__main__))
        found: dict[str, bytes] = vars(__main__)["config"].component_code
        for name in set(vars(__main__)) - before:
            delattr(__main__, name)
        return found

    text = SCRIPT.replace("    print(name", "    (name")
    assert text.count(written) == 1
    first = code(text)
    assert (code(text.replace(written, instead)) != first) is changes


def test_what_a_script_registered_is_named_where_its_run_is_opened_without_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the run's folder, and in what is exported, which cannot have it."""
    (folder / "own_layers.py").write_text(COMPONENT)
    importlib.import_module("own_layers")
    changes = {"gt.layer_type": "GCN+Hers", "optim.max_epoch": 1, "out_dir": "results"}
    run = graphbench.run(load_config("rings.yaml", changes))["run_dir"]
    for out, installed, told in ("of_package", True, "of an installed package"), ("model", False, "registered by a "):
        monkeypatch.setattr(plug_ins, "of_installed", lambda module, found=installed: {"a": b""} if found else {})
        export(run, out)
        assert f"{out}: without Hers: {told}" in capsys.readouterr().out
        assert f"Needs Hers: {told}" in Path(out, "README.md").read_text()
    assert graphbench.load_run("model").models
    registry.forget("layers/attention", "Hers")
    for opened in (run, "model"):
        with pytest.raises(UserError, match="components that no plug-in of its configuration registered: Hers"):
            graphbench.load_run(opened)


@pytest.mark.slow
def test_two_processes_find_the_same(folder: Path) -> None:
    (folder / "script.py").write_text(SCRIPT)
    first, second = (
        subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first == second
    assert first.startswith("Hers ")
