"""Graphs from tables: every form is read, trained and reported; what does not fit is one message."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import networkx
import pandas
import pytest

import graphbench
from graphbench.console import main
from graphbench.data.datasets.custom import CustomGraphs
from graphbench.data.files.roots import Roots
from graphbench.data.graph_tables import scaffold_splits
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.errors import UserError

NODES = "node,graph,y,split,a,b\n" + "".join(
    f"{node},{graph},{node % 2},{('train', 'val', 'test')[node % 3]},{node / 2},{len(graph)}\n"
    for graph in ("p", "q", "r", "s", "t", "u")
    for node in range(6)
)
EDGES = "source,target,graph,weight\n" + "".join(
    f"{node},{(node + 1) % 6},{graph},{1.5}\n" for graph in ("p", "q", "r", "s", "t", "u") for node in range(6)
)
GRAPHS = "graph,y,split\np,0,train\nq,1,train\nr,0,val\ns,1,val\nt,0,test\nu,1,test\n"
SMILES = "smiles,solubility,split\n" + "".join(
    f"{text},{len(text)}.5,{part}\n"
    for text, part in zip(
        ("CCO", "CCN", "c1ccccc1", "c1ccccc1C", "C1CCCCC1", "CC(=O)O", "CCC", "c1ccncc1", "CO", "CCCl"),
        ("train",) * 6 + ("val",) * 2 + ("test",) * 2,
    )
)


def _load(path: Path, task: str = "graph", task_type: str = "classification", transductive: bool = False):
    return CustomGraphs("mine", task, task_type, transductive, path=str(path)).load(Roots(path, (), path / "cache"))


def _folder(tmp_path: Path, **files: str) -> Path:
    for name, text in {"nodes": NODES, "edges": EDGES, "graphs": GRAPHS, **files}.items():
        if text:
            (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_folders_of_tables(tmp_path: Path) -> None:
    loaded = _load(_plain(tmp_path))
    store = loaded.store
    assert store.sizes.tolist() == [6] * 6
    assert store.x.tolist()[:2] == [[0.0], [0.5]]
    assert store.edge_attr.unique().tolist() == [1.5]
    assert store.y.tolist() == [0, 1] * 3
    [standard] = loaded.published["standard"]
    assert [part.tolist() for part in standard.parts().values()] == [[0, 1], [2, 3], [4, 5]]


def _plain(tmp_path: Path) -> Path:
    """Without targets and splits of nodes."""
    nodes = "node,graph,a\n" + "".join(f"{node},{graph},{node / 2}\n" for graph in "pqrstu" for node in range(6))
    return _folder(tmp_path, nodes=nodes)


def test_parquet_is_read_as_csv_is(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for name in ("text", "binary"):
        (tmp_path / name).mkdir()
        _plain(tmp_path / name)
    (tmp_path / "text" / "molecules.csv").write_text(SMILES)
    (tmp_path / "binary" / "molecules.csv").write_text(SMILES)
    for file in (tmp_path / "binary").glob("*.csv"):
        pandas.read_csv(file).to_parquet(file.with_suffix(".parquet"))
        file.unlink()
    text, binary = (_load(tmp_path / name) for name in ("text", "binary"))
    assert binary.store.fingerprint == text.store.fingerprint
    parts = [[part.tolist() for part in loaded.published["standard"][0].parts().values()] for loaded in (text, binary)]
    assert parts[0] == parts[1]
    files = (tmp_path / "text/molecules.csv", tmp_path / "binary/molecules.parquet")
    molecules = [_load(file, "graph", "regression") for file in files]
    assert molecules[0].store.fingerprint == molecules[1].store.fingerprint


def test_parquet_without_its_library_is_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    with pytest.raises(
        UserError, match=r"nodes\.parquet: Parquet needs pyarrow: pip install 'graphbench-gt\[parquet\]'"
    ):
        _load(tmp_path)


def test_one_graph_of_named_nodes_with_masks(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("node,y,split,a\nanna,0,train,1\nbob,1,val,2\ncarl,0,test,3\n")
    (tmp_path / "edges.csv").write_text("source,target\nanna,carl\ncarl,bob\n")
    loaded = _load(tmp_path, "node", transductive=True)
    assert loaded.store.edge_index.tolist() == [[0, 2], [2, 1]]
    assert loaded.card.vocabularies == {"node": (4,)}, "whole numbers are categories"
    [standard] = loaded.published["standard"]
    assert standard.test.tolist() == [2]


def test_names_are_taken_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("node,y,a\nNA,0,1\n1,1,2\nNone,,3\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,1\n1,1\n")
    assert _load(tmp_path, "node", "regression", transductive=True).store.edge_index.tolist() == [[1, 1], [1, 1]]
    (tmp_path / "edges.csv").write_text("source,target\nNA,None\nNone,1\n")
    store = _load(tmp_path, "node", "regression", transductive=True).store
    assert store.edge_index.tolist() == [[0, 2], [2, 1]]
    assert store.y.isnan().flatten().tolist() == [False, False, True], "a target may be missing"
    (tmp_path / "edges.csv").write_text("source,target\nNA,\n")
    with pytest.raises(UserError, match=r"edges\.csv:2: column 'target' is empty"):
        _load(tmp_path, "node", "regression", transductive=True)


def test_masks_that_are_not_read_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _load(_folder(tmp_path, graphs=""), "node")
    assert "Masks of nodes are read with dataset.transductive true" in caplog.text
    (tmp_path / "nodes.csv").write_text(NODES.replace("0,p,0,train", "0,p,,train"))
    with pytest.raises(UserError, match=r"'y' of node 0 is \[nan\]: leave such examples out\. Masks of nodes are read"):
        _load(tmp_path, "node", "regression")


def test_molecules(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    file = tmp_path / "molecules.csv"
    file.write_text(SMILES)
    loaded = _load(file, task_type="regression")
    assert loaded.store.sizes.tolist()[:3] == [3, 3, 6]
    assert loaded.store.x.shape[1] == 9
    assert loaded.store.y[:2].tolist() == [[3.5], [3.5]]
    [standard] = loaded.published["standard"]
    assert standard.val.tolist() == [6, 7]
    splits = make_splits("scaffold", SplitRequest(10, sizes=[0.6, 0.2, 0.2], published=loaded.published, seed=7))
    assert (splits.seed, splits.count) == (None, 1), "nothing is drawn"
    parts = splits.parts()
    assert sum(map(len, parts.values())) == 10
    assert parts["train"].tolist() == [0, 1, 5, 6, 8, 9], "six molecules without a ring share the empty scaffold"
    benzene = scaffold_splits(["c1ccccc1", "c1ccccc1C", "CC"]).cut(SplitRequest(3, sizes=[0.7, 0.0, 0.3]))
    assert benzene.train.tolist() == [0, 1]


RINGS = ["c1ccccc1", "c1ccccc1C", "c1ccncc1", "c1ccncc1C", "C1CC1", "C1CC1C", "CC", "CCC"]


def test_of_scaffolds_with_as_many_molecules_the_last_trains_first() -> None:
    """As DeepChem 2.8's ``ScaffoldSplitter`` orders them."""
    pytest.importorskip("rdkit")
    parts = scaffold_splits(RINGS).cut(SplitRequest(8, sizes=[0.5, 0.25, 0.25])).parts()
    assert {name: part.tolist() for name, part in parts.items()} == {
        "train": [6, 7, 4, 5],
        "val": [2, 3],
        "test": [0, 1],
    }


@pytest.mark.parametrize(
    ("sizes", "index", "told"),
    [
        ([0.2, 0.2, 0.2], 0, r"ratios must add up to 1, received \[0\.2, 0\.2, 0\.2\]"),
        ([0.8, 0.1], 0, r"must be three ratios, e\.g\. \[0\.8, 0\.1, 0\.1\], received \[0\.8, 0\.1\]"),
        (["a", "b", "c"], 0, "must be three ratios"),
        ([10, 10, 10], 0, "ratios must add up to 1"),
        ([0.5, 0.25, 0.25], 1, "split_index 1 does not exist. Allowed: 0 .. 0"),
    ],
)
def test_wrong_requests_of_a_scaffold_split(sizes: list[Any], index: int, told: str) -> None:
    published = {"scaffold": scaffold_splits(RINGS)}
    with pytest.raises(UserError, match=told):
        make_splits("scaffold", SplitRequest(8, sizes=sizes, index=index, published=published))


def test_networkx_json(tmp_path: Path) -> None:
    graph = networkx.cycle_graph(4)
    networkx.set_node_attributes(graph, [1.0, 2.0], "x")
    graph.graph["y"] = 1
    file = tmp_path / "graphs.json"
    documents = [networkx.node_link_data(graph, edges="links") for _ in range(3)]
    file.write_text(json.dumps(documents))
    store = _load(file).store
    assert (store.num_graphs, store.num_edges, store.y.tolist()) == (3, 24, [1, 1, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": EDGES.replace("0,1,p", "0,77,p")}, "an edge of graph p joins"),
        (
            {"nodes": NODES.replace("0,p,0,train,0.0", "0,p,0,train,much")},
            r"nodes.csv:2: column 'a' takes numbers, received 'much'",
        ),
        (
            {"nodes": NODES.replace("1,p,1,val,0.5", "1,p,1,val,")},
            r"nodes.csv:3: column 'a' takes numbers, received an empty cell",
        ),
        (
            {"nodes": NODES.replace("1,p,1,val", "1,p,red,val")},
            r"nodes.csv:3: column 'y' takes numbers, received 'red'",
        ),
        ({"graphs": GRAPHS.replace("q,1", "q,red")}, r"graphs.csv:3: column 'y' takes numbers, received 'red'"),
        ({"nodes": NODES.splitlines()[0] + "\n"}, "nodes.csv: has no line below the names"),
        ({"nodes": NODES.replace(",", ";")}, r"nodes.csv:1: no column 'node', received .* are separated by commas"),
        ({"nodes": NODES.replace("1,p,", "0,p,")}, "graph p has a node twice"),
        ({"nodes": NODES.replace("0,p,0,train", "0,p,0,trian")}, "Did you mean 'train'"),
        ({"nodes": NODES.replace("node,", "nodes,")}, "nodes.csv:1: no column 'node', received nodes, graph"),
        ({"graphs": "graph,y\np,0\n"}, "has no line for graph q"),
        ({"graphs": GRAPHS + "q,0,test\n"}, r"graphs.csv:8: has a graph a second time\."),
        ({"graphs": GRAPHS + "x,0,test\n"}, r"graphs.csv: graph x has no nodes in nodes.csv\."),
        ({"edges": EDGES.replace("5,0,u", "5,0,x")}, "graph x has no nodes"),
        ({"edges": ""}, "edges.csv: there is no such file"),
    ],
)
def test_what_does_not_fit(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _load(_folder(tmp_path, **change))


def test_columns_without_a_name_are_no_features_and_no_targets(tmp_path: Path) -> None:
    frames = {"nodes": NODES, "edges": EDGES, "graphs": GRAPHS, "molecules": SMILES}
    for name, text in frames.items():
        folder = _folder(tmp_path)
        table = folder / f"{name}.csv"
        pandas.read_csv(io.StringIO(text)).to_csv(table)
        with pytest.raises(UserError, match=rf"{name}.csv:1: column 1 has no name; an index .* by index=False\.$"):
            _load(table if name == "molecules" else folder)
        pandas.read_csv(table).to_csv(table, index=False)  # which makes a name of what pandas calls it
        with pytest.raises(UserError, match=rf"{name}.csv:1: column 1 has no name"):
            _load(table if name == "molecules" else folder)
    nodes = NODES.replace("\n", ",\n").replace(",\n", "\n", 1)
    with pytest.raises(UserError, match=r"nodes.csv: no table \(its lines have more values than line 1 has names"):
        _load(_folder(tmp_path, nodes=nodes))


def test_a_csv_file_alone_is_a_table_of_molecules(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="needs a column 'smiles'; it has a, b"):
        _load(tmp_path / "a.csv")


def test_molecules_without_smiles_or_with_words_for_targets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "a.csv"
    for text, message in (
        ("smiles,y\nCCO,1\n,0\n", "a.csv:3: there is no SMILES"),
        ("smiles,y\n", "a.csv:2: there is no SMILES"),
        ("smiles,y\nCCO,active\n", "a.csv:2: column 'y' takes numbers, received 'active'"),
    ):
        file.write_text(text)
        with pytest.raises(UserError, match=message):
            _load(file)
    pytest.importorskip("rdkit")
    file.write_text("smiles,name,active,weight\nCCO,ethanol,True,1.5\nCC,ethane,False,2\n")
    assert _load(file, task_type="regression").store.y.tolist() == [[1.0, 1.5], [0.0, 2.0]]
    assert f"{file}:2: column 'name' is no target, it holds text: 'ethanol'." in caplog.text
    file.write_text("smiles,active,day,mp,b\nCCO,True,2020-01-02,1.5,1\nCC,,2020-01-03,,1\nC,False,2020-01-04,n.d.,1\n")
    y = _load(file, task_type="regression").store.y
    assert y.nan_to_num(-1).tolist() == [[1.0, 1.0], [-1.0, 1.0], [0.0, 1.0]], "booleans with an empty cell, and no mp"
    assert f"{file}:4: column 'mp' is no target, it holds text: 'n.d.'." in caplog.text, "half of its values are texts"
    file.write_text("smiles,logP,mp\nCCO,1,2.5\nCC,2,3.5\nC,3,n.d.\n")
    with pytest.raises(UserError, match=r"a.csv:4: column 'mp' takes numbers, received 'n.d.'\.$"):
        _load(file, task_type="regression")


def test_targets_of_graphs_have_any_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = GRAPHS.replace("graph,y,split", "graph,y_a,split,y_log P,label").splitlines()
    graphs = "\n".join([lines[0], *(f"{line},{number}.5,7" for number, line in enumerate(lines[1:]))])
    folder = _plain(tmp_path)
    (folder / "graphs.csv").write_text(graphs)
    assert _load(folder, task_type="regression").store.y[:3].tolist() == [[0.0, 0.5], [1.0, 1.5], [0.0, 2.5]]
    assert f"{folder / 'graphs.csv'}: not read: label. Targets are called y, or y_<name>." in caplog.text


TRAINED = {
    "PyG-KarateClub": "{format: PyG-KarateClub, name: karate, task: node, task_type: classification,"
    " transductive: True, split_mode: random, split: [0.5, 0.25, 0.25]}",
    "PyG-FakeDataset": "{format: PyG-FakeDataset, name: fake, task: graph, task_type: classification,"
    " split_mode: random, split: [0.6, 0.2, 0.2],"
    " PyG-FakeDataset: {num_graphs: 20, avg_num_nodes: 8, num_channels: 4, num_classes: 2}}",
    "CSV": "{format: custom, name: tables, task: graph, task_type: classification, split_mode: standard,"
    " custom: {path: tables}}",
    "SMILES": "{format: custom, name: molecules, task: graph, task_type: regression, split_mode: scaffold,"
    " node_encoder_name: Atom, custom: {path: molecules.csv}}",
    "networkx": "{format: custom, name: cycles, task: graph, task_type: classification, split_mode: random,"
    " split: [0.6, 0.2, 0.2], custom: {path: cycles.json}}",
}


def write_everything(folder: Path) -> list[str]:
    """Data in every form and a configuration for each; the names of these files."""
    (folder / "tables").mkdir()
    _plain(folder / "tables")
    (folder / "molecules.csv").write_text(SMILES)
    cycles = [networkx.cycle_graph(3 + number % 5) for number in range(20)]
    for number, graph in enumerate(cycles):
        networkx.set_node_attributes(graph, [1.0], "x")
        graph.graph["y"] = number % 2
    documents = [networkx.node_link_data(graph, edges="edges") for graph in cycles]
    (folder / "cycles.json").write_text(json.dumps(documents))
    for name, dataset in TRAINED.items():
        head = "node" if "task: node" in dataset else "default"
        loss = "l1" if "regression" in dataset else "cross_entropy"
        encoder = "" if "encoder_name" in dataset else "dataset.node_encoder_name: LinearNode\n"
        (folder / f"{name}.yaml").write_text(
            f"_base_: configs/quickstart.yaml\ndataset: {dataset}\n{encoder}dataset.edge_encoder: False\n"
            f"posenc_LapPE.enable: False\nposenc_RWSE.enable: False\nmodel.loss_fun: {loss}\ngnn: {{head: {head}}}\n"
            "gt: {layer_type: GIN+SGFormer}\noptim: {max_epoch: 1, num_warmup_epochs: 0}\nprint: file\n"
        )
    return [f"{name}.yaml" for name in TRAINED]


@pytest.mark.slow
def test_everything_is_trained_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    for file in write_everything(tmp_path):
        assert graphbench.run(graphbench.load_config(file)) is not None
    capsys.readouterr()
    assert main(["tables", "results"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert {row.split("|")[1].strip() for row in rows[2:]} == set(TRAINED)
    assert main(["report", "results"]) == 0
