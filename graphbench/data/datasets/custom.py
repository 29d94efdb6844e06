"""A user's own graphs, without touching this package: see docs/custom-data.md."""

from __future__ import annotations

import inspect
import logging
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphbench import plug_ins, registry
from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard, out_dim_of
from graphbench.data.files.roots import Roots
from graphbench.data.graph_forms import graph_list
from graphbench.data.graph_records import GraphLike, GraphRecord, concatenated, level_of, read_field, targets_of_type
from graphbench.data.graph_tables import is_table, missing_file, read_tables, stated_splits
from graphbench.data.heterogeneous import NO_TARGET
from graphbench.data.hub_graphs import is_hub, read_hub
from graphbench.data.links import with_links_as_targets
from graphbench.data.loading.hidden_pairs import count_answered, count_repeated
from graphbench.data.splits import PARTS, Splits, mask_splits, without_target
from graphbench.data.store import GraphStore
from graphbench.errors import ArgumentError, UserError, check_one_of, nearest
from graphbench.registry import FromContext
from graphbench.vocabulary import TASKS, TaskLevel, TaskType

logger = logging.getLogger("graphbench")

_DEFAULT_METRIC = {"regression": "mae", "classification_multilabel": "ap"}
_FEW_CLASSES = 1000
"""A number of classes that there may be even where there are fewer examples."""
_MOST_CATEGORIES = 2**24
"""From here on float32, which layers compute in, no longer tells neighbours apart: such a number is an identifier."""
_MODES = (
    "fixed",
    "random",
    "random-class",
    "random-permutation",
    "random-split",
    "cv-kfold-K",
    "cv-stratifiedkfold-K",
    "sliced",
)
"""Protocols that need nothing but the graphs."""
_UNREAD = "Masks of nodes are read with dataset.transductive true, of a single graph; here whole graphs are split."
_READ = (
    *(each.name for each in fields(GraphRecord)),
    *(f"{part}_mask" for part in PARTS),
    "split",
    "smiles",
    "node_kinds",
)
"""Names of fields of a graph."""
_OF_PAIRS = ("edge_label_index", "edge_label", "pos_edge_label_index", "neg_edge_label_index")
_CONTENT = "a list of torch_geometric Data objects or of dicts of tensors (edge_index, x, edge_attr, y)"


@registry.register("custom")
class CustomGraphs(DatasetBuilder):
    """Graphs from a file, a folder of tables or a Python function; everything that is not given here is measured.

    Args:
        name: any name, for tables.
        task: ``dataset.task``: ``graph``, ``node``, ``edge`` (classes or numbers of pairs of nodes, whose targets are
            ``edge_label``) or ``link_pred`` (the same; pairs of validation and test are no edges in training. One graph
            without ``edge_label_index`` asks about its own links, :mod:`graphbench.data.links`).
        task_type: ``dataset.task_type``.
        transductive: ``dataset.transductive``: True when the examples are nodes, or pairs, of graphs that are always
            seen whole; means nothing for graph tasks, as in GraphGPS.
        folder: folder where the file of ``function`` is looked for first.
        path: file written by ``torch.save``; folder with ``nodes.csv`` and ``edges.csv``; ``.csv`` with a column
            ``smiles``; ``.json`` of networkx (:mod:`graphbench.data.graph_tables`); ``hf://user/name`` or a folder of
            ``save_to_disk`` (:mod:`graphbench.data.hub_graphs`).
        function: ``package.module:name`` or ``file.py:name``; called without arguments.
        metric: name of the metric; None: accuracy, mae (regression) or ap (multilabel).
        node_types: categories per column of integer node features; None: largest value seen, plus one.
        edge_types: categories per column of integer edge features; None: largest value seen, plus one.
    """

    published_files = False

    def __init__(
        self,
        name: FromContext[str],
        task: FromContext[TaskLevel],
        task_type: FromContext[TaskType],
        transductive: FromContext[bool],
        *,
        folder: FromContext[str] = ".",
        path: str | None = None,
        function: str | None = None,
        metric: str | None = None,
        node_types: list[int] | None = None,
        edge_types: list[int] | None = None,
    ) -> None:
        if (path is None) == (function is None):
            given = "both" if path is not None else "neither"
            raise ArgumentError(
                ("function", "path"), f"give dataset.custom.path or dataset.custom.function, received {given}"
            )
        check_one_of(TASKS, task=task)
        super().__init__(name)
        self.task, self.task_type = task, task_type
        self.example = level_of(task)
        self.target = "edge_label" if self.example == "pair" else "y"
        self.transductive = transductive and task != "graph"
        self.path, self.function, self.folder = path, function, Path(folder)
        usual = "auc" if task == "link_pred" and task_type.startswith("classification") else "accuracy"
        self.metric = metric or _DEFAULT_METRIC.get(task_type, usual)
        self.maximize = bool(registry.lookup(registry.METRICS, self.metric).maximize)
        self.types = {"node": node_types, "edge": edge_types}

    @property
    def card(self) -> None:
        """None: everything is measured on the data."""
        return None

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the file or calls the function, and measures; masks of one graph are ``standard`` splits."""
        where = self.path if self.path is not None else str(self.function)
        graphs, code = read_graphs(where, is_function=self.path is None, folder=self.folder)
        return self.measure(graphs, code)

    def measure(self, graphs: Sequence[GraphLike], code: Mapping[str, bytes] | None = None) -> LoadedDataset:
        """A store of the graphs, a card of what they look like, and the splits that they carry.

        Args:
            graphs: graphs, at least one.
            code: the source that made them, by its name.

        Raises:
            UserError: they do not fit each other or the task.
        """
        where = self.path if self.path is not None else str(self.function)
        try:
            store = self._store(graphs)
        except (ValueError, RuntimeError, TypeError) as error:
            raise UserError(f"{where}: {error}.") from error
        for name, meant in _misspelt(graphs[0]):
            logger.warning("%s: '%s' of a graph is not read. Did you mean '%s'?", where, name, meant)
        if (note := _note_on_edges(store)) is not None:
            logger.warning("%s: %s", where, note)
        if self.transductive and self.task == "node" and store.num_graphs > 1:
            logger.warning(
                "%s: dataset.transductive is true, its default: the %s nodes of all %s graphs are the examples that "
                "are split, and one batch. Set it to false to split graphs.",
                where, f"{store.num_nodes:,}", f"{store.num_graphs:,}",
            )  # fmt: skip
        if "edge_weight" in _keys(graphs[0]):
            logger.warning("%s: 'edge_weight' of a graph is not read; make it a column of 'edge_attr'.", where)
        if store.y is None:
            raise UserError(f"{where}: the graphs have no targets '{self.target}'.")
        if self.example == "pair" and store.num_graphs == 1 and not self.transductive:
            raise UserError(f"{where}: the examples are the pairs of one graph: set dataset.transductive to true.")
        unread = (
            self.task == "node" and not self._reads_masks(store) and read_field(graphs[0], "train_mask") is not None
        )
        if unread:
            logger.warning("%s: %s", where, _UNREAD)
        store = store.replace(y=self._targets(store.y, where, f" {_UNREAD}" if unread else ""))
        published = {**self._published(graphs[0], store), **stated_splits(graphs)}
        return LoadedDataset(store, self._measured(store, where, published), published, code or {})

    def _store(self, graphs: Sequence[GraphLike]) -> GraphStore:
        if self.example != "pair":
            return GraphStore.from_graphs(graphs, self.example)
        named = [each for each in _OF_PAIRS if any(read_field(graph, each) is not None for graph in graphs)]
        if named and "edge_label_index" not in named:
            raise ValueError(f"'{named[0]}' is of no use without 'edge_label_index', the pairs of nodes (2, pairs)")
        if self.task == "link_pred" and not named:
            if read_field(graphs[0], "node_kinds") is not None:
                raise ValueError(
                    "of nodes of several kinds it is not known which can be linked: name pairs (edge_label_index)"
                )
            return with_links_as_targets(GraphStore.from_arrays(**concatenated(graphs, "pair")))
        store = GraphStore.from_graphs(graphs, "pair")
        if self.task == "link_pred":
            _check_asked_links(store, self.transductive)
        return store

    def _targets(self, y: Tensor, where: str, note: str) -> Tensor:
        y = targets_of_type(y, self.task_type)
        if self.task_type in ("regression", "classification_multilabel"):
            wrong = without_target(y) | y.isinf().any(1)
            if self.task_type == "regression" and not self.transductive and bool(wrong.any()):
                number = int(wrong.int().argmax())
                raise UserError(
                    f"{where}: '{self.target}' of {self.example} {number} is {y[number].tolist()}: leave such "
                    f"examples out.{note}"
                )
            return y
        if y.dim() == 1 and y.is_floating_point() and not bool(y.isfinite().all()):
            number = int((~y.isfinite()).int().argmax())
            remedy = "write -1 for nodes without a target" if self._may_be_unlabelled else "leave it out"
            raise UserError(
                f"{where}: '{self.target}' of {self.example} {number} is {float(y[number])}, or missing: "
                f"{remedy}.{note}"
            )
        if y.dim() != 1 or (y.is_floating_point() and not bool((y == y.round()).all())):
            raise UserError(
                f"{where}: task_type '{self.task_type}' needs one whole number per example, '{self.target}' is "
                f"{str(y.dtype).removeprefix('torch.')} of shape {tuple(y.shape)}. For columns of 0/1 use "
                "classification_multilabel, for real numbers regression."
            )
        return self._classes(y.to(torch.int64), where)

    def _classes(self, y: Tensor, where: str) -> Tensor:
        """Refuses what is no number of a class: below 0, or so large that it is an identifier."""
        least, most = NO_TARGET if self._may_be_unlabelled else 0, max(len(y), _FEW_CLASSES) - 1
        most = 1 if self.task_type == "classification_binary" else most
        wrong = (y < least) | (y > most)
        if bool(wrong.any()):
            number = int(wrong.int().argmax())
            limit = f" (at most {most} here)" if y[number] > most else ""
            raise UserError(
                f"{where}: task_type '{self.task_type}' numbers its classes from 0{limit}, '{self.target}' of "
                f"{self.example} {number} is {int(y[number])}."
            )
        empty = [number for number, count in enumerate(torch.bincount(y[y >= 0]).tolist()) if not count]
        if empty:
            logger.warning(
                "%s: no example has class %s: the model has an output for it all the same. Classes count from 0.",
                where,
                ", ".join(map(str, empty[:10])) + (", ..." if len(empty) > 10 else ""),
            )
        return y

    def _measured(self, store: GraphStore, where: str, published: Mapping[str, Any]) -> DatasetCard:
        assert store.y is not None
        vocabularies = {}
        for level, tensor in (("node", store.x), ("edge", store.edge_attr)):
            if isinstance(tensor, Tensor) and not tensor.is_floating_point():
                vocabularies[level] = self._vocabulary(level, tensor.to(torch.int64), where)
        return DatasetCard(
            name=self.name,
            task=self.task,
            task_type=self.task_type,
            metric=self.metric,
            maximize=self.maximize,
            node_in=0 if store.x is None else store.x.shape[1],
            edge_in=0 if store.edge_attr is None else store.edge_attr.shape[1],
            out_dim=out_dim_of(store.y, self.task_type),
            transductive=self.transductive,
            split_modes=(*published, *_MODES),
            vocabularies=vocabularies,
            licence="the user's own",
            source=where,
        )

    def _vocabulary(self, level: str, categories: Tensor, where: str) -> tuple[int, ...]:
        if categories.numel() and int(categories.min()) < 0:
            raise UserError(f"{where}: whole numbers in {level} features are categories and must not be negative.")
        if categories.numel() and int(categories.max()) >= _MOST_CATEGORIES:
            raise UserError(
                f"{where}: whole numbers in {level} features are categories, counted from 0 and below "
                f"{_MOST_CATEGORIES:,}; received {int(categories.max())}. Number them anew, or write floats."
            )
        seen = tuple((categories.max(0).values + 1).tolist()) if len(categories) else (1,) * categories.shape[1]
        given = self.types[level]
        if given is None:
            return seen
        if len(given) != len(seen) or any(stated < largest for stated, largest in zip(given, seen, strict=True)):
            raise UserError(f"dataset.custom.{level}_types: {list(given)} is too small; {where} holds {list(seen)}.")
        return tuple(given)

    @property
    def _may_be_unlabelled(self) -> bool:
        return self.task == "node" and self.transductive

    def _reads_masks(self, store: GraphStore) -> bool:
        return self._may_be_unlabelled and store.num_graphs == 1

    def _published(self, graph: GraphLike, store: GraphStore) -> dict[str, tuple[Splits, ...]]:
        """Splits from the masks of a single transductive graph."""
        masks = [read_field(graph, f"{part}_mask") for part in PARTS]
        if not self._reads_masks(store) or any(mask is None for mask in masks):
            return {}
        return {"standard": mask_splits(*masks, what=str(self.path or self.function))}


def _check_asked_links(store: GraphStore, transductive: bool) -> None:
    """Refuses answers that nothing can hide, and tells of pairs of which one half may answer the other."""
    asked = store.edge_sets["label"].num_pairs
    if not transductive and (count := count_answered(store)):
        raise ValueError(
            f"{count} of the {asked} pairs that are asked about are edges of their graphs, which answer them: "
            "leave these out of edge_index (dataset.transductive true hides those of validation and test)"
        )
    if count := count_repeated(store):
        logger.warning(
            "%d pairs of edge_label_index are there twice, or in both directions: where a split is drawn at random, "
            "one may train and the other test.", count,
        )  # fmt: skip


def _note_on_edges(store: GraphStore) -> str | None:
    """Note on edges that look forgotten: all of them, or the second direction of every one."""
    if not store.num_edges:
        return "no graph has an edge ('edge_index')."
    first = store.node_ptr[:-1].repeat_interleave(store.edge_ptr.diff())
    source, target = store.edge_index.to(torch.int64) + first
    apart = source != target
    codes, reverse = (a[apart] * store.num_nodes + b[apart] for a, b in ((source, target), (target, source)))
    if not len(codes) or any(bool(torch.isin(codes, some).any()) for some in (reverse[:8], reverse)):
        return None  # most often a few edges tell, without a sort of all
    return "no edge has its reverse: nodes receive along one direction only. Write both for undirected edges."


def _misspelt(graph: GraphLike) -> list[tuple[str, str]]:
    """Names in a graph that nothing reads, with what each is likely to be; such a field is missing from the graph."""
    given = _keys(graph)
    absent = [name for name in _READ if name not in given]
    unread = [name for name in given if name not in (*_READ, "edge_weight")]
    return [(name, meant) for name in unread if (meant := nearest(name, absent)) is not None]


def _keys(graph: GraphLike) -> list[str]:
    """Names of the fields of a graph, as far as it lists them."""
    keys = getattr(graph, "keys", None)
    return list(map(str, keys())) if callable(keys) else []


def read_graphs(
    source: str, *, is_function: bool | None = None, folder: Path | None = None
) -> tuple[list[GraphLike], dict[str, bytes]]:
    """The graphs of a file or of a function, and the function's source by its name.

    Args:
        source: a file, or ``file.py:name`` or ``module:name``.
        is_function: which of them; None: a function where it has a colon and there is no such file.
        folder: folder where ``file.py`` is looked for first.

    Raises:
        UserError: it holds no graphs.
    """
    path = Path(source).expanduser()
    if is_function is None:
        is_function = ":" in source and not path.exists() and not is_hub(source)
    if is_function:
        content, code = _call(source, folder)
    elif is_hub(source):
        content, code = read_hub(source), {}
    else:
        content, code = (read_tables(path) if is_table(path) else _read_file(path)), {}
    try:
        return graph_list(content), code
    except TypeError as error:
        raise UserError(f"{source}: expected {_CONTENT}, {error}.") from None


def _read_file(path: Path) -> Any:
    from torch_geometric.data.data import Data, DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    known = torch.serialization.get_safe_globals()  # what PyG has registered itself must stay so afterwards
    needed = [kind for kind in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if kind not in known]
    try:
        with torch.serialization.safe_globals(needed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pickles that are refused anyway
            return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise missing_file(path) from None
    except Exception as error:  # a file that is none of torch's can fail anywhere in the unpickler
        foreign = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it holds {foreign[1]} objects" if foreign else "it is not a file written by torch.save, or damaged"
        raise UserError(
            f"{path} was not loaded: {reason}. Only tensors, plain Python values and torch_geometric Data are read, "
            f"because other objects can run code when they are unpickled. Save {_CONTENT} with torch.save, or return "
            "them from a function (dataset.custom.function)."
        ) from error


def _call(function: str, folder: Path | None) -> tuple[Any, dict[str, bytes]]:
    """The graphs, and the source that made them."""
    source, separator, name = function.rpartition(":")
    if not separator or not source or not name:
        raise UserError(f"dataset.custom.function: expected 'file.py:name' or 'module:name', received '{function}'.")
    if source == "__main__":
        raise UserError(
            f"dataset.custom.function: {function} lies in the running script or notebook, where nothing that opens the "
            "run later finds it. Save the graphs (torch.save) and name the file in dataset.custom.path, or put the "
            "function into a file."
        )
    module = plug_ins.load_plugin(source, "dataset.custom.function", folder)
    called = vars(module).get(name)
    if not callable(called):
        functions = sorted(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        listed = ", ".join(functions) or "none"
        raise UserError(f"dataset.custom.function: {source} has no function '{name}'. Functions there: {listed}.")
    try:
        inspect.signature(called).bind()
    except TypeError as error:
        raise UserError(f"dataset.custom.function: {function} is called without arguments: {error}.") from None
    return called(), {source: plug_ins.plugin_source(module)}
