"""What goes wrong in code of users: one message with their file and line, their frames, and exit code 2."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench import plug_ins, registry
from graphbench.commands import list as catalogue
from graphbench.commands.train import main
from graphbench.config import load_config
from graphbench.encoders.compose import NodeEncoder
from graphbench.encoders.contract import FeatureEncoder
from graphbench.errors import ContractError, UserError
from graphbench.layers.contract import Block, GlobalAttention, GraphLayer, LocalLayer, StatefulAttention
from graphbench.layers.gps import SubLayer
from graphbench.structures import GraphBatch, Ragged
from graphbench.tasks.loss import Loss
from graphbench.tasks.metric import Metric
from tests.own_graphs import write_rings

ATTENTION = """
import sys
from torch import nn
from graphbench.layers.contract import GlobalAttention
from graphbench.registry import FromContext, register

@register("Hers")
class Hers(GlobalAttention):
    def __init__(self, dim: FromContext[int]):
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    def forward(self, h, e, batch):
        return self.lin(h)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    write_rings(tmp_path)
    yield tmp_path
    registry.forget("layers/attention", "Hers")


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ("import sys\n", "import sys\nsys.exit(5)\n", r"cannot be loaded: it ends the process \(SystemExit\(5\)\)\."),
        ("        super().__init__()\n", "", r"hers\.py:10: in Hers\.__init__: AttributeError: cannot assign module"),
        ("super().__init__()", "super().__init__(); {}['a']", r"hers\.py:10: in Hers\.__init__: KeyError: 'a'\."),
        ("nn.Linear(dim, dim)", "nn.Linear(9, dim)", r"hers\.py:14: in Hers\.forward: RuntimeError: mat1 and mat2"),
        ("return self.lin(h)", "assert h is None", r"hers\.py:14: in Hers\.forward: AssertionError\.$"),
        ('@register("Hers")', "", r"unknown name .*'Hers'.* [Pp]lug-ins?"),
        ("import sys", "import beside", r"No module named 'beside'\."),
        ("return self.lin(h)", "sys.exit()", r"hers\.py:14: in Hers\.forward: it ends the process"),
        ("return self.lin(h)", "self.lin(h)", r"hers\.py:13: Hers\.forward must return node states \(\d+, 8\); .*None"),
    ],
)  # fmt: skip
def test_code_of_users_is_blamed_with_its_own_frames_only(
    folder: Path, capsys: pytest.CaptureFixture[str], written: str, instead: str, message: str
) -> None:
    (folder / "hers.py").write_text(ATTENTION.replace(written, instead, 1))
    assert main(["--cfg", "rings.yaml", "plugins", "[hers.py]", "gt.layer_type", "GCN+Hers"]) == 2
    told = capsys.readouterr().err.partition("error: ")[2]
    assert re.search(message, told.splitlines()[0])
    shown = re.findall(r'^  File "(.*?)", line', told, re.MULTILINE)
    assert shown[:1] == ([] if re.search("must return|unknown name", told) else [str(folder / "hers.py")])
    assert not [file for file in shown if file.endswith(("graphbench/commands/train.py", "nn/modules/module.py"))]


def test_a_refusal_by_a_plug_in_has_key_and_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hers.py").write_text(ATTENTION.replace("super().__init__()", "raise ValueError('dim is odd')"))
    assert main(["--cfg", "rings.yaml", "plugins", "[hers.py]", "gt.layer_type", "GCN+Hers"]) == 2
    place = re.escape(str(folder / "hers.py"))
    assert re.search(rf": gt\.layer_type: dim is odd \({place}:10: in Hers\.__init__\)", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ('@register("Hers")', "", r"unknown configuration key 'gt\.Hers\.gain'.* [Pp]lug-ins?"),
        ("FromContext[int]", "FromContext[int], gain", r"'gain' of Hers is no key .*annotate it in .*hers\.py:\d+"),
    ],
)  # fmt: skip
def test_keys_of_a_plug_in_that_are_none(
    folder: Path, capsys: pytest.CaptureFixture[str], written: str, instead: str, message: str
) -> None:
    (folder / "hers.py").write_text(ATTENTION.replace(written, instead, 1))
    command = ["--cfg", "rings.yaml", "plugins", "[hers.py]", "gt.layer_type", "GCN+Hers", "gt.Hers.gain", "2.0"]
    assert main(command) == 2
    assert re.search(message, capsys.readouterr().err)


def test_the_layer_that_a_loss_that_is_nan_comes_from(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hers.py").write_text(ATTENTION.replace("self.lin(h)", "self.lin(h) / (h - h)"))
    assert main(["--cfg", "rings.yaml", "plugins", "[hers.py]", "gt.layer_type", "GCN+Hers"]) == 3
    module, place = r"layers\.0\.\S+ \(Hers", re.escape(str(folder / "hers.py"))
    told = rf"epoch 0, batch 0: the training loss is nan\. .* {module}, {place}:7\) is the first module whose output"
    assert re.search(told, capsys.readouterr().err)


def test_a_loss_that_is_nan_may_come_from_a_plug_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = "seen.extend([0] * self.training); return self.lin(h) / (not self.training or len(seen) != 3)"
    (folder / "hers.py").write_text(ATTENTION.replace("return self.lin(h)", once).replace("import sys", "seen = []"))
    assert main(["--cfg", "rings.yaml", "plugins", "[hers.py]", "gt.layer_type", "GCN+Hers"]) == 3
    assert re.search(r"the training loss is .* It may come from .*hers\.py", capsys.readouterr().err)


@pytest.mark.parametrize("detached", [False, True])
def test_parameters_that_no_gradient_reaches_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], detached: bool
) -> None:
    (folder / "hers.py").write_text(ATTENTION.replace("self.lin(h)", "self.lin(h).detach()") if detached else ATTENTION)
    assert main(["--cfg", "rings.yaml", "plugins", "[hers.py]", "gt.layer_type", "GCN+Hers"]) == 0
    told = re.findall("the loss does not depend on .*", capsys.readouterr().err)
    assert bool(told) is detached
    assert all(re.search(r"on \S+\.lin\.weight, \S+\.lin\.bias, which no gradient reaches", line) for line in told)


def test_every_file_of_a_package_is_the_users(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "hers_package").mkdir()
    (folder / "hers_package/__init__.py").write_text("from hers_package import layers\n")
    (folder / "hers_package/layers.py").write_text(ATTENTION.replace("return self.lin(h)", "{}['a']"))
    monkeypatch.syspath_prepend(folder)
    assert main(["--cfg", "rings.yaml", "plugins", "[hers_package]", "gt.layer_type", "GCN+Hers"]) == 2
    assert "hers_package/layers.py:14: in Hers.forward: KeyError: 'a'." in capsys.readouterr().err


def test_defects_of_ours_are_nobody_elses() -> None:
    with pytest.raises(KeyError) as caught:
        registry.construct(lambda: {}["a"], {})
    assert plug_ins.failure(caught.value) is None


class Returns:
    """A layer whose forward pass returns what it was given."""

    def __init__(self, returned: object) -> None:
        super().__init__()
        self.returned = returned

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> object:
        return self.returned


H = torch.ones(3, 4)
RETURNED = [None, H[:1], H[:, :1], H.double(), H.long(), (H[:1], None), (H, None, None, None), H.numpy(), "h"]


@pytest.mark.parametrize("base", [GlobalAttention, LocalLayer, StatefulAttention, Block])
@pytest.mark.parametrize("returned", RETURNED)
def test_what_a_layer_returns_is_looked_at(base: type[GraphLayer], returned: object) -> None:
    layer = type("Hers", (Returns, base), {})(returned)
    with pytest.raises(ContractError, match=r"test_plug_ins\.py:\d+: Returns\.forward must return .*; received "):
        layer.step(H, None, None)


def test_one_column_is_not_added_to_all() -> None:
    """A layer may change the width; a sublayer with a residual may not."""
    layer = type("Hers", (Returns, LocalLayer), {})((H[:, :1], None))
    assert layer.step(H, None, None)[0].shape == (3, 1)
    with pytest.raises(ContractError, match=r"Returns\.forward must return node states \(3, 4\); received "):
        SubLayer(layer, nn.Identity(), dropout=0.0)(H, None, None)


def test_a_block_returns_a_batch() -> None:
    layer = type("Hers", (Returns, Block), {})((H, None, None))
    with pytest.raises(ContractError, match=r"Returns\.forward must return .*batch\); received "):
        layer.step(H, None, None)


def test_what_an_encoder_returns_is_looked_at() -> None:
    class Hers(FeatureEncoder):
        def forward(self, batch: GraphBatch) -> Tensor:
            return H

    batch = GraphBatch(Ragged.from_sizes([5]), torch.empty(2, 0, dtype=torch.int64), x=torch.ones(5, 4))
    with pytest.raises(
        ContractError, match=r"Hers\.forward must return \(5, columns\).*received float32 of .*\(3, 4\)"
    ):
        NodeEncoder(Hers(), {}, 4, batch_norm=False)(batch)


@pytest.mark.parametrize("returned", [None, 0.5, torch.ones(3)])
def test_what_a_loss_returns_is_looked_at(returned: object) -> None:
    class Hers(Loss):
        kinds = ("binary",)

        def value(self, pred: Tensor, true: Tensor, real: object = None) -> Any:
            return returned

    with pytest.raises(ContractError, match=r"Hers\.value must return a scalar tensor"):
        Hers("classification_binary", 1)(torch.ones(3, 1), torch.ones(3))


@pytest.mark.parametrize("returned", [None, "0.5", torch.ones(3)])
def test_what_a_metric_returns_is_looked_at(returned: object) -> None:
    class Hers(Metric):
        maximize = True
        kinds = ("binary",)

        def value(self, pred: Tensor, true: Tensor) -> Any:
            return returned

    with pytest.raises(ContractError, match=r"Hers\.value must return one number"):
        Hers("classification_binary", 1)(torch.ones(3, 1), torch.ones(3))


@pytest.mark.parametrize("base", [Loss, Metric])
@pytest.mark.parametrize("changed", ["pred", "true"])
def test_what_others_score_after_it_is_not_changed_in_place(base: type, changed: str) -> None:
    """A metric that zeroes the predictions gave all metrics after it another value."""

    class Hers(base):
        maximize = True
        kinds = ("binary",)

        def value(self, pred: Tensor, true: Tensor, real: object = None) -> Any:
            {"pred": pred, "true": true}[changed].zero_()
            return pred.mean()

    with pytest.raises(ContractError, match=r"Hers\.value changes predictions or targets in place, which others read"):
        Hers("classification_binary", 1)(torch.ones(3, 1), torch.ones(3))


@pytest.mark.parametrize("name", ["h", "e"])
def test_a_layer_does_not_write_onto_the_states_that_it_is_given(name: str) -> None:
    class Hers(GlobalAttention):
        def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
            {"h": h, "e": e}[name].add_(1)
            return h.clone()

    with pytest.raises(ContractError, match=r"test_plug_ins\.py:\d+: .*Hers\.forward changes the states that it is"):
        Hers().step(torch.ones(3, 4), torch.ones(2, 4), None)
    with torch.inference_mode():  # tensors made here count no changes
        assert Hers().step(torch.ones(3, 4), torch.ones(2, 4), None)[0].shape == (3, 4)


def test_a_module_that_was_never_initialised() -> None:
    class Hers(nn.Module):
        def __init__(self) -> None:
            self.scale = 1.0

    with pytest.raises(
        ContractError, match=r"test_plug_ins\.py:\d+: .*Hers\.__init__ must call super\(\)\.__init__\(\)"
    ):
        registry.construct(Hers, {})


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (lambda: [nn.Linear(2, 2)], r"'parts' of \S*Hers is a list of modules, .*; make it an nn\.ModuleList"),
        (lambda: {"a": nn.Linear(2, 2)}, r"is a dict of modules, .* make it an nn\.ModuleDict"),
        (lambda: (nn.Parameter(torch.ones(2)),), r"is a tuple of parameters, .* make it an nn\.ParameterList"),
    ],
)
def test_modules_that_pytorch_does_not_know(kept: Callable[[], object], message: str) -> None:
    """They were never trained, and the trained model predicted by what the generator gave them."""

    class Hers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = kept()

    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Hers()

    for component in (Hers, Holder):
        with pytest.raises(ContractError, match=r"test_plug_ins\.py:\d+: .*" + message):
            registry.construct(component, {})


def test_lists_of_what_pytorch_knows_are_views() -> None:
    class Hers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(2, 2)
            self.parts, self.widths, self.names = [self.first, self.first.weight, None], [2, 2], {"a": torch.ones(2)}

    registry.construct(Hers, {})


class Short(GlobalAttention):
    def forward(self, h: Tensor) -> Tensor:  # type: ignore[override]
        return h


class Encoder(FeatureEncoder):
    def forward(self, batch: GraphBatch) -> Tensor:
        return H


@pytest.mark.parametrize(
    ("component", "namespace", "message"),
    [
        (Short, None, r"test_plug_ins\.py:\d+: Short .* must take \(self, h, e, batch\)"),
        (Encoder, None, r"Encoder fits encoders/node and encoders/edge: say which, namespace='encoders/node'"),
        (Encoder, "encoders/nodes", r"unknown namespace 'encoders/nodes'. Did you mean 'encoders/node'"),
        (nn.Linear, None, r"finds no namespace: derive the class from one of (?!.*FeatureEncoder.*FeatureEncoder)"),
    ],
)
def test_what_cannot_be_registered(component: type, namespace: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        registry.register("X", namespace=namespace)(component)


LOSS = """
import torch
from graphbench.tasks.loss import Loss

@register("her_loss")
class HerLoss(Loss):
    kinds = ("binary",)

    def value(self, pred, true, real=None):
        return (pred - true).square().mean()
"""
OWN_PARAMETER = """kinds = ("binary",)

    def __init__(self, task_type: FromContext[str], out_dim: FromContext[int]):
        super().__init__(task_type, out_dim)
        self.learnt = nn.Parameter(torch.ones(()))
"""
IN_PLACE = r"changes a tensor in place that the backward pass needs"
NO_GRADIENT = r"no gradient leads through this call, and the loss has none left"


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ("return self.lin(h)", "h = self.lin(h).exp(); h += 1; return h", rf":14: in Hers\.forward: add_: {IN_PLACE}"),
        ("return self.lin(h)", "h[0].zero_(); return self.lin(h)", r":13: Hers\.forward changes the states that it "),
        ("return self.lin(h)", "h = self.lin(h).exp(); return nn.Dropout(0.5, inplace=True)(h)", rf":14: .*{IN_PLACE}"),
        ("return self.lin(h)", "seen.append(self.lin(h)); return seen[0]", r"(; .*)?: uses a tensor that was"),
        ("return self.lin(h)", "seen.append(self.lin(h)); return 2 * seen[0]", r":14: .*mul: uses a tensor that was"),
        ('kinds = ("binary",)', OWN_PARAMETER, r":\d+: 'learnt' of HerLoss would be trained by nobody: a loss"),
        ("(pred - true)", "(pred - true).detach()", rf":24: in HerLoss\.value: detach: {NO_GRADIENT}"),
        ("(pred - true)", "(pred.sigmoid().round() > true).float()", rf":24: in HerLoss\.value: gt: {NO_GRADIENT}"),
        ("(pred - true)", "torch.tensor(pred.sum().item(), requires_grad=True)", rf":24: .*: item: {NO_GRADIENT}"),
    ],
)  # fmt: skip
def test_what_a_backward_pass_fails_for_is_found(
    folder: Path, capsys: pytest.CaptureFixture[str], written: str, instead: str, message: str
) -> None:
    (folder / "hers.py").write_text((ATTENTION + LOSS).replace("import sys", "seen = []").replace(written, instead, 1))
    command = ["plugins", "[hers.py]", "gt.layer_type", "GCN+Hers", "model.loss_fun", "her_loss"]
    try:
        assert main(["--cfg", "rings.yaml", *command]) == 2
    finally:
        registry.forget("tasks/losses", "her_loss")
    told = capsys.readouterr().err.partition("error: ")[2]
    assert re.search(rf"{re.escape(str(folder))}/hers\.py{message}", told), told
    assert "Traceback" not in told


def test_a_module_beside_a_plug_in_makes_a_package(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "near_hers.py").touch()
    (folder / "hers.py").write_text(ATTENTION.replace("import sys", "import near_hers"))
    assert main(["--cfg", "rings.yaml", "plugins", "[hers.py]"]) == 2
    told = capsys.readouterr().err
    assert "put an empty __init__.py beside them, import with 'from . import near_hers', and name the folder: " in told
    assert f"plugins: [{folder.name}], with the command started in {folder.parent}." in told


def test_the_line_at_fault_may_lie_beside_the_plug_in(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    (folder / "helper_of_hers.py").write_text("def scaled(h):\n    return h * {}['scale']\n")
    used = ATTENTION.replace("import sys", "from helper_of_hers import scaled").replace("self.lin(h)", "scaled(h)")
    (folder / "hers.py").write_text(used)
    assert main(["--cfg", "rings.yaml", "plugins", "[hers.py]", "gt.layer_type", "GCN+Hers"]) == 2
    told = capsys.readouterr().err.partition("error: ")[2]
    assert told.startswith(f"{folder}/helper_of_hers.py:2: in scaled: KeyError: 'scale'.\n")
    assert re.findall(r'^  File "(.*?)", line', told, re.MULTILINE)[0] == str(folder / "hers.py")


@pytest.fixture
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with an entry point, and one whose entry point fails, as pip leaves them."""
    site = folder / "site-packages"
    for name, text in {"hers_installed": ATTENTION, "broken_installed": "raise RuntimeError('on purpose')\n"}.items():
        facts = site / f"{name}-1.0.dist-info"
        facts.mkdir(parents=True)
        (site / f"{name}.py").write_text(text)
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[graphbench.plugins]\n{name} = {name}\n")
    monkeypatch.syspath_prepend(site)
    plug_ins.load_installed.cache_clear()
    yield site
    plug_ins.load_installed.cache_clear()
    for name in ("hers_installed", "broken_installed"):
        sys.modules.pop(name, None)


def test_components_of_installed_packages_are_known_without_being_named(
    installed: Path, folder: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "mine.yaml").write_text("dataset: {format: SBM, name: SBM-PATTERN}\ngt: {layer_type: GCN+Hers}\n")
    loaded = load_config(folder / "mine.yaml")
    assert loaded.component_code["Hers"] == (installed / "hers_installed.py").read_bytes()
    assert "the installed plug-in broken_installed (broken_installed) cannot be loaded: " in caplog.text
    assert "RuntimeError: on purpose" in caplog.text
    assert catalogue.main(["layers", "Hers"]) == 0
    assert capsys.readouterr().out.startswith("Hers")


def test_of_an_installed_package_every_module_counts(installed: Path, folder: Path) -> None:
    (folder / "mine.yaml").write_text("dataset: {format: SBM, name: SBM-PATTERN}\ngt: {layer_type: GCN+Hers}\n")
    (installed / "hers_installed").mkdir()
    (installed / "hers_installed.py").rename(installed / "hers_installed/__init__.py")
    codes = []
    for helper in ("SCALE = 1\n", "SCALE = 2\n"):
        (installed / "hers_installed/helper.py").write_text(helper)
        plug_ins.load_installed.cache_clear()
        registry.forget("layers/attention", "Hers")
        sys.modules.pop("hers_installed", None)
        codes.append(load_config(folder / "mine.yaml").component_code["Hers"])
    assert codes[0] != codes[1]
    assert plug_ins.of_installed("hers_installed.helper").keys() == {
        "hers_installed/__init__.py",
        "hers_installed/helper.py",
    }
    assert not plug_ins.of_installed("torch.nn")


def test_nothing_installed_is_looked_for_where_all_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plug_ins, "load_installed", lambda: pytest.fail("reads a file of every package"))
    load_config("sgformer-cora")
    load_config("sfi-pascal")
