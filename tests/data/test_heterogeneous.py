"""Several kinds of nodes as one graph: features, relations, targets; a training on one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.datasets import FakeHeteroDataset

from graphbench.console import main
from graphbench.data.graph_forms import graph_list
from graphbench.data.heterogeneous import homogeneous


def _films() -> HeteroData:
    data = HeteroData()
    data["film"].x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    data["film"].y = torch.tensor([2, 0, 1])
    data["film"].train_mask = torch.tensor([True, False, False])
    data["director"].num_nodes = 2
    data["film", "by", "director"].edge_index = torch.tensor([[0, 2], [1, 0]])
    data["film", "follows", "film"].edge_index = torch.tensor([[1], [0]])
    return data


def test_features_relations_and_targets() -> None:
    [graph] = graph_list(_films())
    assert graph["x"].tolist() == [[1, 0, 1, 2], [1, 0, 3, 4], [1, 0, 5, 6], [0, 1, 0, 0], [0, 1, 0, 0]]
    assert graph["y"].tolist() == [2, 0, 1, -1, -1]
    assert graph["train_mask"].tolist() == [True, False, False, False, False]
    edges = {
        (*edge, *kind) for edge, kind in zip(graph["edge_index"].T.tolist(), graph["edge_attr"].tolist(), strict=True)
    }
    assert edges == {(0, 4, 0), (2, 3, 0), (4, 0, 1), (3, 2, 1), (1, 0, 2), (0, 1, 3)}


def test_without_relations_it_has_no_edges() -> None:
    data = _films()
    for name in data.edge_types:
        del data[name]
    graph = homogeneous(data)
    assert graph["edge_index"].shape == (2, 0)
    assert (graph["edge_attr"].shape, graph["edge_attr"].dtype) == ((0, 1), torch.int64)


def test_a_reverse_relation_that_is_there_is_not_added_again() -> None:
    data = _films()
    data["director", "of", "film"].edge_index = data["film", "by", "director"].edge_index.flip(0)
    del data["film", "follows", "film"]
    assert homogeneous(data)["edge_index"].shape == (2, 4)
    data["film", "like", "film"].edge_index = torch.tensor([[0, 1], [1, 0]])  # both directions already
    assert homogeneous(data)["edge_attr"].reshape(-1).tolist() == [0, 0, 1, 1, 2, 2]


def test_features_of_different_widths_have_columns_of_their_own() -> None:
    data = _films()
    data["director"].x = torch.tensor([[7.0], [8.0]])
    assert homogeneous(data)["x"].tolist()[2:4] == [[1, 0, 5, 6, 0], [0, 1, 0, 0, 7]]
    data["director"].y = torch.tensor([0, 1])
    with pytest.raises(TypeError, match="targets of several kinds of nodes: film, director"):
        homogeneous(data)
    del data["director"].y
    data["film"].y = torch.rand(3)
    with pytest.raises(TypeError, match="not one class per node"):
        homogeneous(data)


def test_many_graphs_of_several_kinds() -> None:
    dataset = FakeHeteroDataset(num_graphs=3, num_node_types=2, num_edge_types=3, avg_num_nodes=10)
    graphs = graph_list(dataset)
    assert len(graphs) == 3
    assert [graph["num_nodes"] for graph in graphs] == [
        sum(each.num_nodes for each in data.node_stores) for data in dataset
    ]


def test_a_training_on_its_labelled_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films.py").write_text(
        "import torch\nfrom torch_geometric.data import HeteroData\n\ndef films():\n"
        "    data, draw = HeteroData(), torch.Generator().manual_seed(0)\n"
        "    data['film'].x = torch.randn(30, 3, generator=draw)\n"
        "    data['film'].y = (data['film'].x[:, 0] > 0).long()\n"
        "    data['director'].num_nodes = 6\n"
        "    data['film', 'by', 'director'].edge_index = torch.stack([torch.arange(30), torch.arange(30) % 6])\n"
        "    for number, part in enumerate(('train', 'val', 'test')):\n"
        "        data['film'][f'{part}_mask'] = torch.arange(30) % 3 == number\n"
        "    return data\n"
    )
    (tmp_path / "films.yaml").write_text(
        "_base_: configs/quickstart.yaml\n"
        "dataset: {format: custom, name: films, task: node, task_type: classification, transductive: True,\n"
        "          split_mode: standard, node_encoder: True, node_encoder_name: LinearNode, edge_encoder: True,\n"
        "          edge_encoder_name: TypeDictEdge, custom: {function: 'films.py:films'}}\n"
        "posenc_LapPE.enable: False\nposenc_RWSE.enable: False\nmodel.loss_fun: cross_entropy\n"
        "gnn: {head: node, dim_inner: 16}\ngt: {layer_type: GINE+SGFormer, layers: 1, dim_hidden: 16}\n"
        "optim: {max_epoch: 2, num_warmup_epochs: 0}\nprint: file\n"
    )
    assert main(["train", "films.yaml"]) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert line["metric"] == "accuracy"
    assert 0 <= line["test"]["accuracy"] <= 1
    assert main(["train", "films.yaml", "dataset.split_mode", "random", "name_tag", "drawn"]) == 0
