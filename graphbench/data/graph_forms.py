"""Graphs as other libraries hold them, turned into what a store is made from.

| given | becomes |
|---|---|
| ``torch_geometric.data.Dataset`` | its graphs, one by one |
| ``(data, slices)`` or ``(data, slices, class)``, as ``InMemoryDataset.save`` writes them | the same |
| ``HeteroData`` | one graph of several kinds of nodes (:mod:`graphbench.data.heterogeneous`) |
| ``Data``, or a mapping of tensors or lists | one graph |
| row of a HuggingFace data set of graphs (``node_feat`` are its features) | one graph |
| ``networkx`` graph with the attributes ``x``, ``y`` (nodes), ``edge_attr`` (edges), ``y`` (graph) | one graph |
| SciPy sparse matrix: an adjacency | one graph without features |
| ``dgl.DGLGraph`` with ``feat`` or ``x``, ``label`` or ``y``, masks; or ``(graph, label)`` | one graph |
| ``dgl.data.DGLDataset`` | its graphs, one by one |
| anything that can be walked through and yields these | a list of graphs |

Batches and data sets of PyG answer to the attributes of one graph, too: as entries of a list they are refused.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from graphbench.data.graph_records import GraphLike, GraphObject
from graphbench.data.heterogeneous import homogeneous

_PART = (
    ": a part of a split? Give all graphs in one list, and the numbers of each part in a file "
    "(dataset.split_mode fixed with dataset.split_file)"
)


def graph_list(value: Any) -> list[GraphLike]:
    """The graphs that a value stands for.

    Args:
        value: see the table of this module.

    Raises:
        TypeError: it, or one of its entries, is none of these; the message names the entry.
    """
    from torch_geometric.data import Batch, Dataset  # a second, and only who has such graphs needs it

    # A data set of PyG also answers to the attributes of one Data, its graphs concatenated: it has to be asked first.
    if isinstance(value, Dataset):
        value = [value[number] for number in range(len(value))]
    dgl = sys.modules.get("dgl")  # whoever has such objects
    if dgl is not None and isinstance(value, dgl.data.DGLDataset):
        value = [value[number] for number in range(len(value))]
    if _is_collated(value):
        return _separated(*value[:2])
    single = _one_graph(value)
    if single is not None:
        return [single]
    if isinstance(value, str | bytes | torch.Tensor | Batch) or not isinstance(value, Iterable):
        raise TypeError(f"received {describe(value)}")
    graphs = []
    for number, entry in enumerate(value):
        graph = _one_graph(entry)
        if graph is None:
            several = isinstance(entry, list | tuple | torch.utils.data.Dataset | torch.utils.data.DataLoader)
            raise TypeError(f"entry {number} is {describe(entry)}{_PART if several else ''}")
        graphs.append(graph)
    if not graphs:
        raise TypeError(f"received {describe(value)}")
    return graphs


def describe(value: Any) -> str:
    """``list of length 3``, for messages."""
    from torch_geometric.data import Batch

    if isinstance(value, Batch):
        return f"a batch of {value.num_graphs} graphs, as a DataLoader makes them: give its data set, loader.dataset"
    length = f" of length {len(value)}" if isinstance(value, list | tuple | Mapping | str) else ""
    return f"{type(value).__name__}{length}"


def _one_graph(value: Any) -> GraphLike | None:
    """The value as one graph, None where it is none."""
    from torch_geometric.data import Batch, Dataset, HeteroData

    if isinstance(value, Batch | Dataset):
        return None
    if isinstance(value, HeteroData):
        return homogeneous(value)
    if isinstance(value, Mapping):
        return {"x": value["node_feat"], **value} if "node_feat" in value else value
    dgl = sys.modules.get("dgl")
    if dgl is not None:
        labelled = isinstance(value, tuple) and len(value) == 2 and not isinstance(value[1], dgl.DGLGraph)
        graph, *label = value if labelled else (value,)
        if isinstance(graph, dgl.DGLGraph):
            return _from_dgl(graph, *label)
    networkx, sparse = sys.modules.get("networkx"), sys.modules.get("scipy.sparse")  # whoever has such objects
    if networkx is not None and isinstance(value, networkx.Graph):
        return _from_networkx(value)
    if sparse is not None and sparse.issparse(value):
        rows, columns = value.nonzero()
        return {"edge_index": torch.tensor([rows.tolist(), columns.tolist()]), "num_nodes": value.shape[0]}
    return value if isinstance(value, GraphObject) else None


def _is_collated(value: Any) -> bool:
    """Whether this is the content of a file of ``processed/``: concatenated graphs and where each begins."""
    if not isinstance(value, tuple) or len(value) not in (2, 3) or not isinstance(value[0], Mapping | GraphObject):
        return False
    slices = value[1]
    if slices is None:  # of a single graph
        return len(value) == 3
    return isinstance(slices, Mapping) and torch.as_tensor(slices.get("edge_index", 0)).dim() == 1


def _separated(data: Any, slices: Mapping[str, Any] | None) -> list[GraphLike]:
    """Single graphs of collated ones, by PyG's own rule."""
    from torch_geometric.data import Data
    from torch_geometric.data.separate import separate

    whole = Data.from_dict(dict(data)) if isinstance(data, Mapping) else data
    if slices is None:
        return [whole]
    count = len(slices["edge_index"]) - 1
    return [separate(Data, whole, number, dict(slices), decrement=False) for number in range(count)]


def _from_dgl(graph: Any, label: Any = None) -> GraphLike:
    """One kind of nodes and edges; features and targets by the names that DGL's own data sets give them."""
    if not graph.is_homogeneous:
        raise TypeError(
            f"a DGL graph has {len(graph.ntypes)} kinds of nodes and {len(graph.etypes)} of edges; one is read"
        )
    fields: dict[str, Any] = {"edge_index": torch.stack(graph.edges()).to(torch.int64), "num_nodes": graph.num_nodes()}
    for name, data, aliases in (
        ("x", graph.ndata, ("x", "feat", "attr", "node_attr")),
        ("edge_attr", graph.edata, ("edge_attr", "feat", "attr")),
        ("y", graph.ndata, ("y", "label", "node_labels")),
        *((mask, graph.ndata, (mask,)) for mask in ("train_mask", "val_mask", "test_mask")),
    ):
        present = [alias for alias in aliases if alias in data]
        if present:
            fields[name] = data[present[0]]
    if label is not None:
        fields["y"] = torch.as_tensor(label)
    return {
        name: value.unsqueeze(1) if name in ("x", "edge_attr") and value.dim() == 1 else value
        for name, value in fields.items()
    }


def _from_networkx(graph: Any) -> GraphLike:
    """Nodes in their order, both directions of an undirected edge, attributes where every node or edge has them."""
    number = {node: index for index, node in enumerate(graph.nodes)}
    edges = [(number[source], number[target], attributes) for source, target, attributes in graph.edges(data=True)]
    if not graph.is_directed():
        edges += [(target, source, attributes) for source, target, attributes in edges if source != target]
    fields: dict[str, Any] = {
        "edge_index": torch.tensor([edge[:2] for edge in edges], dtype=torch.int64).reshape(-1, 2).T,
        "num_nodes": len(number),
    }
    nodes = [attributes for _, attributes in graph.nodes(data=True)]
    for name, rows in (("x", nodes), ("y", nodes), ("edge_attr", [attributes for *_, attributes in edges])):
        having = [name in row for row in rows]
        if any(having):
            if not all(having):
                raise TypeError(f"a networkx graph has '{name}' at {sum(having)} of {len(rows)} nodes or edges")
            fields[name] = torch.tensor([row[name] for row in rows])
    if "y" in graph.graph:
        fields["y"] = torch.tensor(graph.graph["y"])
    return fields
