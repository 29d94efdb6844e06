"""``graphbench check FILE --contract``: what a configuration takes from plug-ins, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from graphbench import console, registry
from tests.paths import ROOT
from tests.test_main import TINY

ADDITIONS = ROOT / "tests/additions"

PLUG_IN = """
import torch
from torch import nn
from graphbench.layers.contract import GlobalAttention
from graphbench.registry import FromContext, register


@register("Mine")
class Mine(GlobalAttention):
    def __init__(self, dim: FromContext[int], *, scale: float = 1.0):
        super().__init__()
        self.scale, self.lin = scale, nn.Linear(dim, dim)

    def forward(self, h, e, batch):
        return {returned}
"""
CASES = [
    ("self.scale * self.lin(h)", 0, "contract: Mine passes outputs, batch_independence, permutation, gradients"),
    ("self.lin(h) @ torch.eye(24, dtype=h.dtype)", 0, "(with dim 24, dim_in 24, dim_out 24, dim_edge 24, heads 2)"),
    ("self.lin(h) - (h.mean(0) if h.shape[1] == 24 else 0)", 2, "batch_independence: h of graph 0 depends on its"),
    ("self.lin(torch.softmax(h @ h.T, 1) @ h)", 2, "mine.py:8: Mine breaks the contract of layers:\n  batch_independ"),
]


@pytest.mark.parametrize(("returned", "code", "expected"), CASES)
def test_the_layers_of_a_plug_in_are_checked(
    returned: str, code: int, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(PLUG_IN.format(returned=returned))
    yaml = tmp_path / "mine.yaml"
    yaml.write_text(
        f"_base_: {ROOT}/configs/quickstart.yaml\nplugins: [mine.py]\n"
        "gt: {layer_type: CustomGatedGCN+Mine, Mine: {scale: 0.5}}\n"
    )
    try:
        assert console.main(["check", str(yaml), *TINY, "--contract"]) == code
    finally:
        registry.forget("layers/attention", "Mine")
    told = capsys.readouterr()
    assert expected in (told.err if code else told.out)


LOCAL = """
from graphbench.layers.contract import LocalLayer


@register("Beside")
class Beside(LocalLayer):
    def forward(self, h, e, batch):
        return h - h.mean(0), e
"""


def test_every_layer_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(PLUG_IN.format(returned="self.lin(h) - h.mean(0)") + LOCAL)
    override = ["plugins", f"[{tmp_path / 'mine.py'}]", "gt.layer_type", "Beside+Mine"]
    try:
        assert console.main(["check", "quickstart", *TINY, *override, "--contract"]) == 2
    finally:
        registry.forget("layers/attention", "Mine")
        registry.forget("layers/local", "Beside")
    told = capsys.readouterr().err
    assert "Mine breaks the contract of layers" in told
    assert "Beside breaks the contract of layers" in told


WHOLE = """
import torch
from torch import nn
from graphbench.encoders.contract import ColumnEncoder
from graphbench.models.contract import Frame, Model
from graphbench.registry import register
from graphbench.tasks.metric import Metric
from graphbench.transforms.base import Transform


@register("Whole")
class Whole(Model):
    def __init__(self, frame: Frame):
        super().__init__()
        self.encoder, self.head = frame.encoder, frame.head(frame.dim_encoded)

    def forward(self, batch):
        h, batch = self.encoder(batch)
        return self.head({states}, batch)


@register("DegreeOf")
class DegreeOf(Transform):
    version = 1
    outputs = ("degree",)

    def __call__(self, store):
        first = torch.repeat_interleave(store.node_ptr[:-1], store.edge_ptr.diff())
        degree = torch.bincount(store.edge_index[1] + first, minlength=store.num_nodes).float()
        return {{"degree": ({degree}).unsqueeze(1)}}


@register("DegreeOfSE")
class DegreeOfSE(ColumnEncoder):
    transform = "DegreeOf"

    def __init__(self, dim_pe: int = 4):
        super().__init__()
        self.lin = nn.Linear(1, dim_pe)

    def forward(self, batch):
        return self.lin(self.encoding(batch, "degree", columns=1))


@register("hit")
class Hit(Metric):
    kinds = ("binary", "multiclass")
    maximize = {maximize}

    def value(self, pred, true):
        return (self.predicted(pred) == true).double().mean()
"""
REGISTERED = {
    "models": ["Whole"],
    "transforms": ["DegreeOf"],
    "encoders/positional": ["DegreeOfSE"],
    "tasks/metrics": ["hit"],
    "layers/attention": ["Mine"],
    "heads": ["cosine_node"],
    "tasks/losses": ["focal_loss"],
    "train/schedules": ["inverse_sqrt"],
}


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Path]:
    """A configuration with a component of every kind from plug-ins, and a layer that its model does not have."""
    files = ("head/graphbench/heads/cosine_node.py", "loss/graphbench/tasks/losses/focal_loss.py")
    texts = {"mine.py": PLUG_IN.format(returned="self.lin(h)")}
    for each in (*files, "schedule/graphbench/train/schedules/inverse_sqrt.py"):
        texts[Path(each).name] = (ADDITIONS / each).read_text()
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\n# of {tmp_path}: a plug-in that no test before has loaded\n")
    plug_ins = "mine.py, whole.py, cosine_node.py, focal_loss.py, inverse_sqrt.py"
    yaml = tmp_path / "whole.yaml"
    yaml.write_text(
        f"_base_: {ROOT}/configs/quickstart.yaml\nplugins: [{plug_ins}]\n"
        "dataset: {node_encoder_name: LinearNode+DegreeOfSE}\nposenc_DegreeOfSE: {enable: true}\n"
        "model: {type: Whole, loss_fun: focal_loss}\ngt: {layer_type: GIN+Mine}\ngnn: {head: cosine_node}\n"
        "custom_metrics: [hit]\noptim: {scheduler: inverse_sqrt}\n"
    )
    yield yaml
    for namespace, names in REGISTERED.items():
        registry.forget(namespace, *names)


def test_all_that_is_in_use_is_checked_and_nothing_else(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (whole.parent / "whole.py").write_text(WHOLE.format(states="h", degree="degree", maximize=True))
    assert console.main(["check", str(whole), *TINY, "--contract"]) == 0
    told = capsys.readouterr().out
    for name in ("Whole", "DegreeOf", "DegreeOfSE", "hit", "cosine_node", "focal_loss"):
        assert f"contract: {name} passes " in told
    assert "Mine passes" not in told
    assert "contract: inverse_sqrt is in use; there are no checks for what it is\n" in told
    assert "contract: named, but not in use: Mine\n" in told


def test_what_fails_is_told_of_every_kind(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (whole.parent / "whole.py").write_text(WHOLE.format(states="h - h.mean(0)", degree="degree", maximize=False))
    assert console.main(["check", str(whole), *TINY, "--contract"]) == 2
    told = capsys.readouterr()
    assert "Whole breaks the contract of models:\n  batch_independence: prediction of graph 0" in told.err
    assert "Hit breaks the contract of metrics:\n  direction: binary: " in told.err
    assert "contract: DegreeOfSE passes " in told.out


def test_without_its_encodings_nothing_that_reads_graphs_is_checked(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    standardised = "(degree - degree.mean()) / degree.std(unbiased=False)"
    (whole.parent / "whole.py").write_text(WHOLE.format(states="h", degree=standardised, maximize=True))
    assert console.main(["check", str(whole), *TINY, "--contract"]) == 2
    told = capsys.readouterr()
    assert "DegreeOf breaks the contract of transforms:\n  graph_independence: " in told.err
    assert "breaks" not in told.err.replace("DegreeOf breaks", "")
    assert "not checked, since there are no graphs for it (the encodings fail): " in told.out
    assert "contract: focal_loss passes " in told.out


def test_graphs_that_a_table_is_too_small_for_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(PLUG_IN.format(returned="self.lin(h) + 0"))
    override = [
        "plugins",
        f"[{tmp_path / 'mine.py'}]",
        "gt.layer_type",
        "BiasedTransformer+Mine",
        "graphormer.num_heads",
        "2",
    ]
    override += ["dataset.node_encoder_name", "LinearNode+GraphormerBias", "posenc_GraphormerBias.enable", "true"]
    for name, size in (("num_spatial_types", 4), ("num_in_degrees", 2), ("num_out_degrees", 2)):
        override += [f"posenc_GraphormerBias.{name}", str(size)]
    override += ["graphormer.use_graph_token", "false"]
    try:
        assert console.main(["check", "quickstart", *TINY, *override, "--contract"]) == 0
    finally:
        registry.forget("layers/attention", "Mine")
    told = capsys.readouterr().out
    assert "contract: not checked, since there are no graphs for it (" in told
    assert told.endswith("): Mine\n")


def test_without_plug_ins_there_is_nothing_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.main(["check", "quickstart", "--contract"]) == 0
    assert "contract: nothing in use comes from a plug-in" in capsys.readouterr().out
