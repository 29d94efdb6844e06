"""``plots.py flows``: molecules as RDKit lays them out, arrows of the strongest weights, shares that add up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from graphbench.commands.train import main
from graphbench.data.files.molecules import molecules, rebuilt
from graphbench.plots import attention, canvas, flows
from graphbench.plots.cli import main as plots
from graphbench.plots.trained import read_trained
from tests.plots.quickstart_runs import refused

SMILES = ("CC(=O)Oc1ccccc1C(=O)O", "c1ccc2[nH]ccc2c1", "[O-][N+](=O)c1ccccc1", "CCO", "C#N", "CC(C)Cc1ccccc1")
YAML = """\
_base_: configs/quickstart.yaml
dataset:
  {format: custom, name: drugs, task: graph, task_type: regression, transductive: False, node_encoder: True,
   node_encoder_name: Atom, edge_encoder: True, edge_encoder_name: Bond, split_mode: random, split: [0.5, 0.25, 0.25],
   custom: {path: drugs.csv}}
posenc_LapPE: {enable: False}
posenc_RWSE: {enable: False}
model: {loss_fun: l1}
gnn: {head: default, dim_inner: 16}
gt: {layer_type: GINE+SFi, dim_hidden: 16, layers: 2}
optim: {max_epoch: 2, num_warmup_epochs: 0}
print: file
"""


@pytest.fixture(scope="module")
def drugs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on molecules."""
    pytest.importorskip("rdkit")
    folder = tmp_path_factory.mktemp("drugs")
    (folder / "drugs.csv").write_text("smiles,y\n" + "".join(f"{text},{len(text)}\n" for text in 2 * SMILES))
    (folder / "drugs.yaml").write_text(YAML)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["--cfg", "drugs.yaml"]) == 0
        yield folder / "results/drugs/0"


@pytest.mark.parametrize("text", SMILES)
def test_a_molecule_is_rebuilt_from_its_columns(text: str) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    arrays = molecules([text], "test")
    again = rebuilt(arrays["x"], arrays["edge_index"], arrays["edge_attr"])
    original = chem.MolFromSmiles(text)
    assert [(a.GetSymbol(), a.GetFormalCharge()) for a in again.GetAtoms()] == [
        (a.GetSymbol(), a.GetFormalCharge()) for a in original.GetAtoms()
    ]
    assert [(b.GetBeginAtomIdx(), b.GetEndAtomIdx(), b.GetBondType()) for b in again.GetBonds()] == [
        (b.GetBeginAtomIdx(), b.GetEndAtomIdx(), b.GetBondType()) for b in original.GetBonds()
    ]
    assert rebuilt(arrays["x"][:, :3], arrays["edge_index"], arrays["edge_attr"]) is None


def test_a_molecule_has_its_symbols_and_bonds_and_arrows_of_the_strongest(drugs: Path) -> None:
    run = read_trained(drugs, "train", 0)
    drawing = flows.layout(run)
    assert len(drawing.labels) == run.num_nodes == len(drawing.positions)
    assert 2 * len(drawing.bonds) == run.edge_index.shape[1]
    lengths = np.linalg.norm(np.subtract(*drawing.positions[drawing.bonds.T]), axis=1)
    np.testing.assert_allclose(lengths, 1.5, rtol=0.2)  # bonds of one length: coordinates of a molecule
    patterns = attention.read_patterns(run.model, run.batch)
    with canvas.style():
        figure = flows.draw(patterns, [0, 1], 1, drawing, None, 3)
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels[:2]] == [
        "layer 0, head 1\nbefore: softmax(s)",
        "layer 0, head 1\nafter: sparse flow",
    ]
    weights = patterns[0].weights["before: softmax(s)"][1] * (1 - np.eye(run.num_nodes))
    drawn = {tuple(map(tuple, np.round(arrow._posA_posB, 6))) for arrow in panels[0].patches}
    strongest = np.argsort(-weights, axis=None, kind="stable")[:3]
    ends = [
        (drawing.positions[key], drawing.positions[query])
        for query, key in (divmod(i, len(weights)) for i in strongest)
    ]
    assert drawn == {tuple(map(tuple, np.round(pair, 6))) for pair in ends}


def test_shares_add_up(drugs: Path) -> None:
    run = read_trained(drugs, "train", 0)
    patterns = attention.read_patterns(run.model, run.batch)
    rows = [row.split("|") for row in flows.table(patterns, run.edge_index).splitlines()[2:]]
    assert len(rows) == 4
    assert all(abs(sum(map(float, row[3:6])) - 1) < 2e-3 for row in rows)
    assert all(row[2].strip() != "before: softmax(s)" or float(row[6]) == 0 for row in rows)


def test_the_figure_from_the_command_line(
    drugs: Path, sfi: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.svg"
    assert plots(["flows", str(drugs), "--split", "train", "--node", "1", "--out", str(out)]) == 0
    assert "weight of node 1" in out.read_text()
    assert plots(["flows", str(sfi / "0"), "--layer", "0", "--arrows", "5", "--out", str(out)]) == 0  # no molecule
    assert "mean weight of its readers" in out.read_text()
    assert "exact zeros" in capsys.readouterr().out
    assert "--node must lie in 0" in refused(capsys, "flows", drugs, "--node", 999)
    assert "--arrows must not be negative" in refused(capsys, "flows", drugs, "--arrows", -1)
