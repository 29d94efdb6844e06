"""Programs of torch.export: equal to the model on graphs of other sizes, refused where a model cannot be traced."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import graphbench
from graphbench.errors import UserError
from graphbench.predict.program import inputs_of, write_compiled, write_program
from graphbench.predict.trained import TrainedModel
from graphbench.structures import DataInfo
from tests.paths import ROOT

INFO = DataInfo("rings", "graph", "classification", 3, 2, 3, "accuracy", True, max_nodes=40)
OVERRIDES = (
    "dataset.node_encoder_name LinearNode+RWSE dataset.edge_encoder_name LinearEdge posenc_LapPE.enable False "
    "gnn.head default model.loss_fun cross_entropy"
).split()
WITHOUT_GRAPHBENCH = """\
import sys
import torch

inputs, expected = torch.load("graphs.pt")
program = torch.export.load("model.pt2").module()
for each, output in zip(inputs, expected):
    torch.testing.assert_close(program(each), output, rtol=1e-4, atol=1e-5)
assert not any(name.startswith("graphbench") for name in sys.modules)
print("equal on", len(inputs))
"""


def _model(layers: str, *overrides: str) -> TrainedModel:
    config = graphbench.load_config(ROOT / "configs/quickstart.yaml", [*OVERRIDES, "gt.layer_type", layers, *overrides])
    torch.manual_seed(0)
    return TrainedModel(config, INFO, [graphbench.build_model(config, INFO).eval()], [Path("nowhere")])


def _graph(size: int) -> dict[str, Tensor]:
    draw, here = torch.Generator().manual_seed(size), torch.arange(size)
    edges = torch.cat([torch.stack([here, here.roll(1)]), torch.stack([here.roll(1), here])], 1)
    x, edge_attr = torch.randn(size, 3, generator=draw), torch.randn(2 * size, 2, generator=draw)
    return {"x": x, "edge_index": edges, "edge_attr": edge_attr}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "layers",
    [
        "CustomGatedGCN+SFi",
        *(
            pytest.param(layers, marks=pytest.mark.exhaustive)
            for layers in ("GINE+Transformer", "GAT+SGFormer", "GCN+Performer", "GENConv+DFi")
        ),
    ],
)
def test_a_program_is_the_model_for_graphs_of_any_size(layers: str, tmp_path: Path) -> None:
    trained = _model(layers)
    assert write_program(trained, tmp_path / "model.pt2") < 1e-4
    batches = [trained.batch_of([_graph(size)]) for size in (3, 5, 17, 64, 700)]
    with torch.no_grad():
        expected = [trained.models[0](batch) for batch in batches]
    assert expected[0].shape == (1, 3)
    assert (expected[0] - expected[3]).abs().max() > 1e-3, "the graphs must not be all the same to it"
    torch.save(([inputs_of(batch) for batch in batches], expected), tmp_path / "graphs.pt")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_GRAPHBENCH], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "equal on 5\n", done.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a C++ compiler")
def test_a_compiled_program_is_the_model_for_graphs_of_any_size(tmp_path: Path) -> None:
    trained = _model("GCN+SFi", "gt.layers", "1")
    write_program(trained, tmp_path / "model.pt2")
    assert write_compiled(trained, tmp_path / "model.pt2", tmp_path / "model.aoti.pt2") < 1e-4
    compiled = torch._inductor.aoti_load_package(str(tmp_path / "model.aoti.pt2"))
    for size in (3, 5, 64, 700):  # others than those that it is compared on
        batch = trained.batch_of([_graph(size)])
        with torch.no_grad():
            torch.testing.assert_close(compiled(inputs_of(batch)), trained.models[0](batch), rtol=1e-4, atol=1e-5)


def test_a_compiler_that_fails_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_text("no program")
    with pytest.raises(UserError, match=r"^no compiled program: PyTorch's compiler failed"):
        write_compiled(_model("GCN+SFi"), tmp_path / "model.pt2", tmp_path / "model.aoti.pt2")


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ("None+GECO", r"^no program: this model cannot be traced for graphs of any size \("),
        ("GCN+Gradformer", "^no program: the model reads distances, which have no input"),
    ],
)
def test_what_cannot_be_traced_is_refused_and_writes_nothing(layers: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=reason):
        write_program(_model(layers), tmp_path / "model.pt2")
    assert not list(tmp_path.iterdir())
