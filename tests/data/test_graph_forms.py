"""Graphs of other libraries, and data sets of PyG, which answer to the attributes of one graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import pytest
import scipy.sparse
import torch
from torch.utils.data import Subset
from torch_geometric.data import Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader

from graphbench.data.datasets.custom import CustomGraphs
from graphbench.data.files.roots import Roots
from graphbench.data.graph_forms import graph_list
from graphbench.data.graph_records import GraphRecord
from graphbench.data.store import GraphStore

SIZES = (4, 3, 5)


def _ring(nodes: int, label: int) -> Data:
    here = torch.arange(nodes)
    return Data(x=torch.ones(nodes, 2), edge_index=torch.stack([here, here.roll(-1)]), y=torch.tensor([label]))


class Rings(InMemoryDataset):
    """A data set as users write it: everything collated into ``processed/data.pt``."""

    processed_file_names = "data.pt"

    def __init__(self, root: Path, sizes: tuple[int, ...] = SIZES) -> None:
        self.ring_sizes = sizes
        super().__init__(str(root))
        self.load(self.processed_paths[0])

    def process(self) -> None:
        self.save([_ring(size, size % 2) for size in self.ring_sizes], self.processed_paths[0])


def test_a_data_set_of_pyg_is_its_graphs_not_their_union(tmp_path: Path) -> None:
    dataset = Rings(tmp_path)
    assert dataset.edge_index.shape[1] == sum(SIZES)  # what looks like one graph
    for value in (dataset, dataset[1:], list(dataset), tuple(dataset), iter(dataset)):
        sizes = [GraphRecord.of(graph).count_nodes("graph") for graph in graph_list(value)]
        assert sizes == ([3, 5] if len(sizes) == 2 else list(SIZES))


@pytest.mark.parametrize("sizes", [SIZES, (6,)])
def test_a_processed_file_is_read_as_the_data_set_that_wrote_it(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    dataset = Rings(tmp_path, sizes)
    builder = CustomGraphs("rings", "graph", "classification", False, path=dataset.processed_paths[0])
    store = builder.load(Roots(tmp_path, (), tmp_path / "cache")).store
    assert store.fingerprint == GraphStore.from_graphs(list(dataset), "graph").fingerprint
    assert store.sizes.tolist() == list(sizes)


def test_node_tasks_see_separate_graphs(tmp_path: Path) -> None:
    (tmp_path / "nodes_of_rings.py").write_text(
        "import torch\n"
        "from torch_geometric.data import Data, InMemoryDataset\n"
        "class Nodes(InMemoryDataset):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        graphs = [Data(x=torch.ones(n, 1), edge_index=torch.zeros(2, 1).long(), y=torch.zeros(n).long())"
        " for n in (4, 3, 5)]\n"
        "        self.data, self.slices = self.collate(graphs)\n"
    )
    function = f"{tmp_path}/nodes_of_rings.py:Nodes"
    builder = CustomGraphs("nodes", "node", "classification", True, function=function)
    loaded = builder.load(Roots(tmp_path, (), tmp_path / "cache"))
    assert loaded.store.sizes.tolist() == list(SIZES)
    assert loaded.num_examples == sum(SIZES)


def test_two_dictionaries_are_two_graphs() -> None:
    graphs = [{"edge_index": torch.tensor([[0], [1]]), "num_nodes": 2, "y": torch.tensor(0)} for _ in range(2)]
    assert len(graph_list(tuple(graphs))) == 2
    assert len(graph_list(graphs[0])) == 1


def test_rows_of_lists_as_huggingface_has_them() -> None:
    row = {"edge_index": [[0, 1], [1, 0]], "edge_attr": [[3], [3]], "y": [[0.5]], "num_nodes": 2}
    row |= {"node_feat": [[5, 0], [2, 1]]}
    store = GraphStore.from_graphs(graph_list(iter([row, row])))
    assert store.x.tolist() == [[5, 0], [2, 1]] * 2
    assert store.edge_attr.tolist() == [[3]] * 4
    assert store.y.tolist() == [[0.5], [0.5]]


def test_networkx() -> None:
    graph = networkx.Graph(y=1)
    graph.add_nodes_from([("a", {"x": [1.0, 0.0]}), ("b", {"x": [0.0, 1.0]}), ("c", {"x": [0.5, 0.5]})])
    graph.add_edge("a", "c", edge_attr=[2.0])
    graph.add_edge("b", "b", edge_attr=[3.0])
    record = GraphRecord.of(graph_list([graph])[0])
    assert record.edge_index.tolist() == [[0, 1, 2], [2, 1, 0]]  # both directions, a loop once
    assert record.edge_attr.tolist() == [[2.0], [3.0], [2.0]]
    assert record.x.tolist() == [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    assert int(record.y) == 1
    directed = networkx.DiGraph([(0, 1), (1, 2)])
    assert GraphRecord.of(graph_list(directed)[0]).edge_index.tolist() == [[0, 1], [1, 2]]
    del graph.nodes["a"]["x"]
    with pytest.raises(TypeError, match="'x' at 2 of 3 nodes"):
        graph_list([graph])


def test_scipy() -> None:
    adjacency = scipy.sparse.coo_array(([1.0, 5.0], ([0, 2], [1, 0])), shape=(4, 4))
    record = GraphRecord.of(graph_list(adjacency)[0])
    assert record.edge_index.tolist() == [[0, 2], [1, 0]]
    assert record.count_nodes("graph") == 4


@pytest.mark.parametrize(
    ("value", "message"),
    [("graphs", "received str"), (7, "received int"), ([], "list of length 0"), ([3], "entry 0 is int")],
)
def test_what_is_no_graph(value: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        graph_list(value)


def test_batches_are_not_graphs(tmp_path: Path) -> None:
    kinds = HeteroData(a={"num_nodes": 2}, a__to__a={"edge_index": torch.tensor([[0], [1]])})
    for several in (Rings(tmp_path), [kinds] * 3):
        loader = DataLoader(several, batch_size=2)
        for value, entry in ((loader, "entry 0 is"), (list(loader), "entry 0 is"), (next(iter(loader)), "received")):
            with pytest.raises(TypeError, match=rf"{entry} a batch of \d graphs, .*, loader\.dataset"):
                graph_list(value)


@pytest.mark.parametrize(
    "part",
    [lambda data: data, list, lambda data: Subset(data, [0, 2]), DataLoader],
    ids=["data set", "list", "subset", "loader"],
)
def test_parts_of_a_split_are_not_graphs(part: Any, tmp_path: Path) -> None:
    dataset = Rings(tmp_path)
    with pytest.raises(TypeError, match=r"entry 0 is \w+.*: a part of a split\? .*dataset\.split_file"):
        graph_list((part(dataset), part(dataset), part(dataset)))


def test_graphs_and_data_sets_of_dgl() -> None:
    dgl = pytest.importorskip("dgl", exc_type=ImportError)
    graph = dgl.graph(([0, 1, 2], [1, 2, 0]), num_nodes=4)
    graph.ndata["feat"], graph.ndata["label"] = torch.eye(4), torch.tensor([0, 1, 0, 1])
    graph.ndata["train_mask"], graph.edata["feat"] = torch.tensor([True, False, False, True]), torch.ones(3)
    [read] = graph_list(graph)
    assert read["edge_index"].tolist() == [[0, 1, 2], [1, 2, 0]]
    assert (read["num_nodes"], read["x"].shape, read["edge_attr"].shape) == (4, (4, 4), (3, 1))
    assert read["y"].tolist() == [0, 1, 0, 1]
    assert read["train_mask"].tolist() == [True, False, False, True]

    class Labelled(dgl.data.DGLDataset):
        def process(self) -> None:
            pass

        def __getitem__(self, number: int):
            if number > 2:
                raise IndexError
            return dgl.rand_graph(5, 6), torch.tensor(number)

        def __len__(self) -> int:
            return 3

    graphs = graph_list(Labelled("labelled"))
    assert [int(each["y"]) for each in graphs] == [0, 1, 2]
    two_kinds = dgl.heterograph({("a", "to", "b"): ([0], [0])})
    with pytest.raises(TypeError, match="a DGL graph has 2 kinds of nodes and 1 of edges"):
        graph_list(two_kinds)
