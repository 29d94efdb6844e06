from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from graphbench.data.builder import LoadedDataset
from graphbench.data.datasets.custom import CustomGraphs
from graphbench.data.files.roots import Roots
from graphbench.data.graph_forms import graph_list
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from graphbench.errors import ArgumentError, UserError
from tests.dataset_case import TrainingCase
from tests.paths import ROOT
from tests.raw_files import TOTAL, ring

NAN = float("nan")
DOCUMENT = ROOT / "docs" / "custom-data.md"


def _family(**changes: Any) -> CustomGraphs:
    given = {"name": "mine", "task": "graph", "task_type": "classification", "transductive": False} | changes
    return CustomGraphs(**given)


def _load(tmp_path: Path, content: Any, **changes: Any) -> LoadedDataset:
    file = tmp_path / "graphs.pt"
    torch.save(content, file)
    return _family(path=str(file), **changes).load(Roots(tmp_path, (), tmp_path / "cache"))


def _graph(y: Any, **more: Any) -> Data:
    return Data(x=torch.ones(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.tensor(y), **more)


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


def test_the_document_word_by_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = pytest.importorskip("yaml")
    monkeypatch.chdir(tmp_path)
    saving, function = _blocks("python")
    exec(compile(saving, "custom-data.md", "exec"), {})
    Path("my_graphs.py").write_text(function)
    Path("my_split.json").write_text(_blocks("json")[0])
    from_file, from_function = (yaml.safe_load(block)["dataset"] for block in _blocks("yaml")[:2])
    stores = []
    for dataset in (from_file, from_function):
        builder = CustomGraphs(
            dataset["name"], dataset["task"], dataset["task_type"], dataset["transductive"], **dataset["custom"]
        )
        loaded = builder.load(Roots(tmp_path, (), tmp_path / "cache"))
        made = make_splits(
            dataset["split_mode"],
            SplitRequest(
                loaded.num_examples,
                labels=loaded.store.y,
                split_file=dataset.get("split_file"),
                sizes=dataset.get("split"),
            ),
            allowed=loaded.card.split_modes,
        )
        assert min(len(part) for part in made.parts().values()) > 0
        stores.append(loaded.store)
    assert stores[0].num_graphs == stores[1].num_graphs == 60
    assert stores[0].fingerprint == stores[1].fingerprint


def test_everything_is_measured(tmp_path: Path) -> None:
    graphs = [_graph([c], edge_attr=torch.tensor([[1], [4]])) for c in (0, 2, 1)]
    card = _load(tmp_path, graphs).card
    assert (card.node_in, card.edge_in, card.out_dim) == (3, 1, 3)
    assert card.vocabularies == {"edge": (5,)}
    assert (card.metric, card.maximize) == ("accuracy", True)


@pytest.mark.parametrize(
    ("task_type", "y", "shape", "out_dim", "metric", "maximize"),
    [
        ("regression", [0.5], (2, 1), 1, "mae", False),
        ("classification_multilabel", [[0.0, 1.0, float("nan")]], (2, 3), 3, "ap", True),
        ("classification_binary", [1.0], (2,), 1, "accuracy", True),
        ("classification_multi", 1, (2,), 2, "accuracy", True),
    ],
)
def test_targets_by_task_type(
    tmp_path: Path, task_type: str, y: Any, shape: tuple[int, ...], out_dim: int, metric: str, maximize: bool
) -> None:
    loaded = _load(tmp_path, [_graph(y), _graph(y)], task_type=task_type)
    assert loaded.store.y.shape == shape
    assert (loaded.card.out_dim, loaded.card.metric, loaded.card.maximize) == (out_dim, metric, maximize)


def test_metric_and_vocabularies_can_be_given(tmp_path: Path) -> None:
    graph = {"x": torch.tensor([[1], [0]]), "edge_index": torch.tensor([[0], [1]]), "y": torch.tensor([1])}
    card = _load(tmp_path, [graph], metric="f1", node_types=[9]).card
    assert (card.metric, card.vocabularies) == ("f1", {"node": (9,)})
    with pytest.raises(UserError, match=r"node_types: \[1\] is too small; .* holds \[2\]"):
        _load(tmp_path, [graph], node_types=[1])
    with pytest.raises(UserError, match=r"unknown name in tasks/metrics 'acuracy'. Did you mean 'accuracy'"):
        _load(tmp_path, [graph], metric="acuracy")


@pytest.mark.parametrize("as_dict", [False, True])
def test_one_big_graph_with_masks(tmp_path: Path, as_dict: bool) -> None:
    masks = {f"{part}_mask": torch.arange(6) % 3 == i for i, part in enumerate(("train", "val", "test"))}
    edge_index = torch.tensor([[0], [1]])
    graph: Any = {"x": torch.ones(6, 2), "edge_index": edge_index, "y": torch.arange(6) % 2, **masks}
    loaded = _load(tmp_path, graph if as_dict else Data(**graph), task="node", transductive=True)
    assert loaded.num_examples == 6
    [standard] = loaded.published["standard"]
    assert standard.val.tolist() == [1, 4]


def test_masks_of_several_splits_may_share_a_column(tmp_path: Path) -> None:
    train, val = torch.eye(6, dtype=torch.bool)[:3].T, torch.eye(6, dtype=torch.bool)[3:].T
    masks = {"train_mask": train, "val_mask": val[:, [0, 0, 1]], "test_mask": val[:, 2]}
    graph = Data(x=torch.ones(6, 2), edge_index=torch.tensor([[0], [1]]), y=torch.arange(6) % 2, **masks)
    splits = _load(tmp_path, graph, task="node", transductive=True).published["standard"]
    assert [split.train.tolist() + split.val.tolist() + split.test.tolist() for split in splits] == [
        [0, 3, 5],
        [1, 3, 5],
        [2, 4, 5],
    ]
    graph.val_mask = val[:, :2]
    with pytest.raises(UserError, match=r"masks of train, val, test have 3, 2, 1 columns; they need as many"):
        _load(tmp_path, graph, task="node", transductive=True)


def test_objects_that_could_run_code_are_not_loaded(tmp_path: Path) -> None:
    import decimal

    with pytest.raises(UserError, match=r"was not loaded: it holds .*Decimal objects. Only tensors, plain Python"):
        _load(tmp_path, [decimal.Decimal(1)])


@pytest.mark.parametrize(
    ("content", "changes", "message"),
    [
        ([], {}, "expected a list of torch_geometric Data .*, received list of length 0"),
        (torch.ones(3), {}, "received Tensor"),
        ([_graph([0]), 3], {}, "entry 1 is int"),
        ([{"x": torch.ones(2, 1), "edge_index": torch.tensor([[0], [5]])}], {}, "graph 0 has 2 nodes, but an edge"),
        ([{"x": torch.ones(2, 1)}], {}, "the graphs have no targets 'y'"),
        ([_graph([0.5])], {}, "needs one whole number per example, 'y' is float32 of shape"),
        ([_graph([1]), _graph([-1])], {}, r"numbers its classes from 0, 'y' of graph 1 is -1\."),
        ([_graph([1]), _graph([99999999999])], {}, r"at most 999 here\), 'y' of graph 1 is 99999999999"),
        ([_graph([1]), _graph([2])], {"task_type": "classification_binary"}, r"at most 1 here\), 'y' of graph 1 is 2"),
        ([_graph([0.5]), _graph([NAN])], {"task_type": "regression"}, r"'y' of graph 1 is \[nan\]: leave such"),
        ([_graph([0.5, 1]), _graph([NAN, NAN])], {"task_type": "regression"}, r"graph 1 is \[nan, nan\]: leave such"),
        ([_graph([0.5, math.inf])], {"task_type": "regression"}, r"'y' of graph 0 is \[0.5, inf\]: leave such"),
        ([_graph([[0, 1]])], {}, "For columns of 0/1 use classification_multilabel"),
        ([{"x": torch.tensor([-1]), "y": torch.tensor(0)}], {}, "categories and must not be negative"),
        ([{"x": torch.tensor([2**33]), "y": torch.tensor(0)}], {}, "below 16,777,216; received 8589934592"),
        ([{"x": torch.ones(2, 1), "y": "cat"}], {}, "'y' of graph 0 cannot be made a tensor: .*'str'"),
        ([_graph([1]), _graph([0, 1])], {}, "'y' has 1 values in graph 0 and 2 in graph 1"),
        (
            [{"x": torch.ones(2, columns), "y": torch.tensor(0)} for columns in (1, 1, 3)],
            {},
            "'x' has 1 columns in graph 0 and 3 in graph 2",
        ),
        ([_graph([NAN])], {}, "'y' of graph 0 is nan, or missing: leave it out"),
        ([_graph([1])], {"task": "node"}, "y must have 2 rows, one per node, received 1"),
        ([{"x": torch.ones(2, 1) * 1j, "y": torch.tensor(0)}], {}, "'x' holds complex numbers"),
        ([{"x": torch.ones(2, 1), "edge_index": torch.full((2, 1), 0.5)}], {}, "must hold whole numbers, received fr"),
        ([{"x": torch.tensor([[1.0], [float("nan")]]), "y": torch.tensor(0)}], {}, "'x' of graph 0 has 1 values that"),
    ],
)
def test_what_is_no_graph_is_refused(tmp_path: Path, content: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _load(tmp_path, content, **changes)


def test_features_that_ask_for_gradients_are_data() -> None:
    graphs = [_graph([0]), _graph([1])]
    for graph in graphs:
        graph.x = torch.nn.Linear(3, 4)(graph.x)  # another model's output, as it came
    store = _family(path="unread.pt").measure(graphs).store
    assert torch.equal(store.gather([1, 0]).x, torch.cat([graphs[1].x, graphs[0].x]).detach())


@pytest.mark.parametrize("form", [dict, lambda fields: Data(**fields)], ids=["dict", "Data"])
def test_a_misspelt_field_is_told(form: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    fields = {"x": torch.ones(2, 3), "edge_index": edges, "edge_atr": torch.ones(2, 1), "pos": torch.ones(2, 2)}
    _load(tmp_path, [form(fields | {"y": torch.tensor([label])}) for label in (0, 1)])
    assert [record.message.partition(": ")[2] for record in caplog.records] == [
        "'edge_atr' of a graph is not read. Did you mean 'edge_attr'?"
    ]


def test_nodes_of_many_graphs_as_one_pool_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is meant most often is a split of the graphs, and a file that numbers them would be read as nodes."""
    graphs = [_graph([0, 1]), _graph([1, 0])]
    _load(tmp_path, graphs, task="node", transductive=False)
    _load(tmp_path, graphs[:1], task="node", transductive=True)
    assert not caplog.records
    _load(tmp_path, graphs, task="node", transductive=True)
    [record] = caplog.records
    assert "dataset.transductive is true, its default: the 4 nodes of all 2 graphs are the exam" in record.getMessage()


@pytest.mark.parametrize("more", [{}, {"edge_attr": torch.ones(2, 1)}])
def test_weights_of_edges_are_told(more: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _load(tmp_path, [_graph([label], edge_weight=torch.ones(2), **more) for label in (0, 1)])
    [record] = caplog.records
    assert record.getMessage().endswith("'edge_weight' of a graph is not read; make it a column of 'edge_attr'.")


@pytest.mark.parametrize(
    ("edges", "note"),
    [
        ([[0, 1], [1, 0]], None),
        (
            [[0], [1]],
            "no edge has its reverse: nodes receive along one direction only. Write both for undirected edges.",
        ),
        ([[], []], "no graph has an edge ('edge_index')."),
        ([[0, 1], [0, 1]], None),  # self loops alone have no other direction
    ],
)
def test_forgotten_edges_are_told(
    edges: list[list[int]], note: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    index = torch.tensor(edges, dtype=torch.int64)
    _load(tmp_path, [{"x": torch.ones(2, 3), "edge_index": index, "y": torch.tensor([label])} for label in (0, 1)])
    assert [record.message.partition(": ")[2] for record in caplog.records] == ([] if note is None else [note])


def test_some_targets_of_a_regression_may_be_unknown(tmp_path: Path) -> None:
    y = _load(tmp_path, [_graph([0.5, NAN]), _graph([NAN, 2.0])], task_type="regression").store.y
    assert y.nan_to_num(9).tolist() == [[0.5, 9], [9, 2.0]]


def test_classes_without_an_example_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert _load(tmp_path, [_graph([1]), _graph([3])]).card.out_dim == 4
    assert "no example has class 0, 2: " in caplog.text


PAIRS: dict[str, Any] = {
    "edge_label_index": torch.tensor([[0, 1, 0], [1, 1, 0]]),
    "edge_label": torch.tensor([1, 0, 2]),
}


def test_pairs_of_nodes_have_the_targets(tmp_path: Path) -> None:
    alone = _load(tmp_path, _graph([0], **PAIRS), task="edge", transductive=True)
    assert alone.num_examples == 3
    assert (alone.card.task, alone.card.out_dim, alone.card.metric) == ("edge", 3, "accuracy")
    asked = alone.store.edge_sets["label"]
    assert asked.index.tolist() == PAIRS["edge_label_index"].tolist()
    assert alone.store.y.tolist() == [1, 0, 2]
    regression = _load(tmp_path, [_graph([0], **PAIRS)] * 2, task="edge", task_type="regression")
    assert regression.num_examples == 2  # of several graphs, graphs are the examples
    assert regression.store.y.tolist() == [[1.0], [0.0], [2.0]] * 2
    assert regression.store.gather([1]).edge_sets["label"].index.tolist() == asked.index.tolist()
    graph = Data(x=torch.ones(3, 3), edge_index=torch.tensor([[0, 1], [1, 0]]))
    links = _load(tmp_path, graph, task="link_pred", transductive=True)
    assert (links.card.metric, links.card.out_dim, links.num_examples) == ("auc", 1, 2)
    assert links.store.y.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("fields", "changes", "message"),
    [
        ({}, {"task": "edge"}, r"the graphs ask about no pairs of nodes \('edge_label_index'\)"),
        ({"edge_label_index": PAIRS["edge_label_index"]}, {"task": "edge"}, r"the graphs have no targets 'edge_label'"),
        (PAIRS, {"task": "edge", "transductive": False}, r"the pairs of one graph: set dataset.transductive to true"),
        (PAIRS | {"edge_label": torch.ones(2)}, {"task": "link_pred"}, r"has 3 pairs .* and 'edge_label' of shape"),
        (PAIRS | {"edge_label": torch.tensor([1, 0, -2])}, {"task": "edge"}, r"'edge_label' of pair 2 is -2"),
        (PAIRS | {"edge_label": torch.ones(3) / 2}, {"task": "edge"}, r"one whole number per example, 'edge_label' is"),
        (
            PAIRS | {"edge_label_index": torch.tensor([[0, 1, 0], [1, 1, 2]])},
            {"task": "edge"},
            r"graph 0 has 2 nodes, but a pair \(edge_label_index\) \[0, 2\]",
        ),
        ({"edge_label": torch.ones(3)}, {"task": "link_pred"}, r"'edge_label' is of no use without 'edge_label_index'"),
        ({"pos_edge_label_index": torch.ones(2, 3)}, {"task": "link_pred"}, r"'pos_edge_label_index' is of no use"),
        (PAIRS | {"edge_label": torch.tensor([1, 0, -1])}, {"task": "edge"}, r"'edge_label' of pair 2 is -1"),
        (PAIRS | {"edge_label_index": torch.ones(3)}, {"task": "edge"}, r"edge_label_index of graph 0 must have shape"),
    ],
)  # fmt: skip
def test_pairs_that_do_not_fit(tmp_path: Path, fields: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        _load(tmp_path, _graph([0, 1], **fields), **({"transductive": True} | changes))


def test_answers_that_nothing_can_hide_are_refused_and_pairs_in_both_directions_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UserError, match=r"2 of the 6 pairs that are asked about are edges of their graphs"):
        _load(tmp_path, [_graph([0], **PAIRS)] * 2, task="link_pred", task_type="classification_multi")
    assert not caplog.records
    asked = {"edge_label_index": torch.tensor([[0, 1], [1, 0]]), "edge_label": torch.tensor([1, 1])}
    _load(tmp_path, _graph([0], **asked), task="link_pred", transductive=True)
    assert "1 pairs of edge_label_index are there twice, or in both directions" in caplog.text


def test_links_between_kinds_of_nodes_are_named() -> None:
    graph = HeteroData()
    graph["a"].num_nodes, graph["b"].num_nodes = 2, 2
    graph["a", "to", "b"].edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(UserError, match="of nodes of several kinds it is not known which can be linked"):
        _family(path="x", task="link_pred", transductive=True).measure(graph_list(graph))
    graph["a", "to", "b"].edge_label_index = torch.tensor([[0], [0]])
    with pytest.raises(TypeError, match="a heterogeneous graph with targets of pairs"):
        graph_list(graph)


def test_sources_that_are_not_there(tmp_path: Path) -> None:
    roots = Roots(tmp_path, (), tmp_path / "cache")
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(ArgumentError, match=r"there is no file .*txt\.pt\. Did you mean '.*/text\.pt'\?"):
        _family(path=str(tmp_path / "txt.pt")).load(roots)
    with pytest.raises(UserError, match=r"was not loaded: it is not a file written by torch.save"):
        _family(path=str(tmp_path / "text.pt")).load(roots)
    with pytest.raises(UserError, match=r"expected 'file.py:name' or 'module:name', received 'make'"):
        _family(function="make").load(roots)
    with pytest.raises(UserError, match=r"__main__:make lies in the running script or notebook"):
        _family(function="__main__:make").load(roots)
    with pytest.raises(UserError, match=r"plug-in .* cannot be loaded"):
        _family(function=f"{tmp_path}/none.py:make").load(roots)
    (tmp_path / "own_graphs.py").write_text("def build(size):\n    return []\n")
    with pytest.raises(UserError, match=r"has no function 'make'. Functions there: build"):
        _family(function=f"{tmp_path}/own_graphs.py:make").load(roots)
    with pytest.raises(UserError, match=r"own_graphs.py:build is called without arguments: missing .* 'size'"):
        _family(function=f"{tmp_path}/own_graphs.py:build").load(roots)


def test_arguments_that_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="received neither"):
        _family()
    with pytest.raises(ValueError, match="received both"):
        _family(path="a", function="b:c")
    with pytest.raises(ValueError, match="task must be one of graph, node, edge, link_pred; received"):
        _family(path="a", task="edges")
    assert _family(path="a", transductive=True).transductive is False  # graph tasks, as in GraphGPS


def test_split_file_of_the_document_is_valid() -> None:
    split = json.loads(_blocks("json")[0])
    assert sorted(split) == ["test", "train", "val"]


def write_training_files(root: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    graphs = [
        {"edge_index": ring(5), "x": torch.randn(5, 3, generator=generator), "y": torch.tensor(number % 2)}
        for number in range(TOTAL)
    ]
    torch.save(graphs, root / "graphs.pt")


TRAINING_CASES = {
    "custom": TrainingCase(
        "tu/gps-nci1.yaml",
        write=write_training_files,
        overrides={
            "dataset.format": "custom",
            "dataset.name": "mine",
            "dataset.custom.path": "{data}/graphs.pt",
        },
    )
}
