"""Graphs from tables: CSV or Parquet files of nodes and edges, tables of molecules, and node-link JSON.

====================================== =================================================================
``nodes.csv`` and ``edges.csv``        a folder; columns below
``<name>.csv`` with a column ``smiles`` one molecule per line; columns of numbers are targets, texts are left out
``<name>.json``                        node-link data of networkx, or a list of them
====================================== =================================================================

``nodes.csv``: ``node`` (any text or number, also ``NA``), optionally ``graph``, ``y``, ``split``; every other column is
a feature.
``edges.csv``: ``source``, ``target``, optionally ``graph``; every other column is a feature of the edge. An edge stands
for one direction. ``graphs.csv``, where there is one: ``graph``, ``y`` (or several ``y_<name>``), optionally ``split``.
``split`` is ``train``, ``val`` or ``test``. Columns of whole numbers alone are categories. In
place of ``.csv`` every table may be ``.parquet``.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from graphbench.data.files.molecules import molecules
from graphbench.data.split_protocols import three_sizes
from graphbench.data.splits import PARTS, SplitBySizes, SplitRequest, Splits
from graphbench.errors import ArgumentError, UserError, neighbour, unknown

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger("graphbench")

ENDINGS = (".csv", ".parquet", ".json")
_MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None"]
"""Texts that stand for a number that is not known."""
_NO_NAME = re.compile(r"Unnamed: \d+(\.\d+)?|__index_level_\d+__")
"""What pandas calls a column without a name: in nearly all tables the index of the data frame that was written."""


def is_table(path: Path) -> bool:
    """Whether :func:`read_tables` reads it."""
    return path.is_dir() or path.suffix in ENDINGS


def read_tables(path: Path) -> Any:
    """Dictionaries of tensors, or networkx graphs, for :func:`~graphbench.data.graph_forms.graph_list`.

    Raises:
        UserError: files or columns are missing, or a value does not fit.
    """
    if path.is_dir():
        return _read_folder(path)
    if path.suffix in (".csv", ".parquet"):
        return _read_smiles(path)
    import networkx

    content = _read_json(path)
    documents = content if isinstance(content, list) else [content]
    try:
        return [
            networkx.node_link_graph(document, edges="links" if "links" in document else "edges")
            for document in documents
        ]
    except (AttributeError, KeyError, TypeError, networkx.NetworkXError) as error:
        raise UserError(f"{path}: no node-link data of networkx ({type(error).__name__}: {error}).") from None


def stated_splits(graphs: Sequence[Any]) -> dict[str, Any]:
    """Published splits that tables state: ``standard`` from a column ``split``, ``scaffold`` of molecules."""
    first = graphs[0]
    if not isinstance(first, dict):
        return {}
    published: dict[str, Any] = {}
    if len(graphs) > 1 and "split" in first:
        words = np.array([graph["split"] for graph in graphs])
        published["standard"] = (Splits.of(*(np.flatnonzero(words == part) for part in PARTS)),)
    if "smiles" in first:
        published["scaffold"] = scaffold_splits([graph["smiles"] for graph in graphs])
    return published


def scaffold_splits(smiles: Sequence[str]) -> SplitBySizes:
    """Molecules with one Bemis-Murcko scaffold stay together; the most frequent scaffolds train (Wu et al., 2018).

    Bemis & Murcko, J. Med. Chem. 1996; MoleculeNet, https://arxiv.org/abs/1703.00564. Shares are ``dataset.split``,
    default 0.8, 0.1, 0.1; no random numbers. Of scaffolds with as many molecules that whose first molecule comes last
    is first, as in DeepChem's ``ScaffoldSplitter``, which made MoleculeNet's and OGB's splits.
    """

    def split(request: SplitRequest) -> Splits:
        from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

        groups: dict[str, list[int]] = {}
        for number, text in enumerate(smiles):
            scaffold = MurckoScaffoldSmiles(smiles=text, includeChirality=False)  # type: ignore[no-untyped-call]
            groups.setdefault(scaffold, []).append(number)
        shares = three_sizes(request, (0.8, 0.1, 0.1), "three ratios, e.g. [0.8, 0.1, 0.1]")
        if min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
            raise UserError(f"split_mode 'scaffold': ratios must add up to 1, received {list(shares)}.")
        limits = [shares[0] * len(smiles), (shares[0] + shares[1]) * len(smiles)]
        parts: tuple[list[int], list[int], list[int]] = ([], [], [])
        for group in sorted(groups.values(), key=lambda members: (len(members), members[0]), reverse=True):
            filled = len(parts[0]) + len(group) <= limits[0]
            if filled:
                parts[0].extend(group)
            elif len(parts[0]) + len(parts[1]) + len(group) <= limits[1]:
                parts[1].extend(group)
            else:
                parts[2].extend(group)
        return Splits.of(*parts)

    return SplitBySizes(split)


def _read_folder(folder: Path) -> list[dict[str, Any]]:
    nodes = _table(folder / "nodes.csv", ("node",), ("graph", "y", "split"))
    edges = _table(folder / "edges.csv", ("source", "target"), ("graph",))
    graphs = _table(folder / "graphs.csv", ("graph",), None) if _file(folder / "graphs.csv").is_file() else None
    unread = [] if graphs is None else [str(x) for x in graphs if x not in ("graph", "split") and not _is_target(x)]
    if unread:
        place = _file(folder / "graphs.csv")
        logger.warning("%s: not read: %s. Targets are called y, or y_<name>.", place, ", ".join(unread))
    if nodes.empty:
        raise UserError(f"{_file(folder / 'nodes.csv')}: has no line below the names of the columns.")
    if ("graph" in nodes) != ("graph" in edges) or (graphs is not None and "graph" not in nodes):
        raise UserError(f"{folder}: a column 'graph' is needed in all of its tables, or in none.")
    for table in (nodes, edges):
        if "graph" not in table:
            table["graph"] = 0
    _named_alike([(nodes, "node"), (edges, "source"), (edges, "target")])
    _named_alike([(table, "graph") for table in (nodes, edges, graphs) if table is not None])
    edges_of = dict(list(edges.groupby("graph", sort=False)))
    rows_of = {} if graphs is None else {row["graph"]: row for row in graphs.to_dict("records")}
    if graphs is not None and len(rows_of) < len(graphs):
        raise UserError(f"{_line(folder / 'graphs.csv', graphs['graph'].duplicated())}: has a graph a second time.")
    for file, named in (("edges.csv", edges_of), ("graphs.csv", rows_of)):
        strangers = set(named) - set(nodes["graph"])
        if strangers:
            raise UserError(f"{folder / file}: graph {sorted(strangers, key=str)[0]} has no nodes in nodes.csv.")
    result = []
    for name, members in nodes.groupby("graph", sort=False):
        graph = _one_graph(folder, name, members, edges_of.get(name, edges[:0]))
        if graphs is not None:
            if name not in rows_of:
                raise UserError(f"{folder / 'graphs.csv'}: has no line for graph {name}.")
            graph |= _of_graph(rows_of[name])
        result.append(graph)
    return result


def _one_graph(folder: Path, name: Any, nodes: pandas.DataFrame, edges: pandas.DataFrame) -> dict[str, Any]:
    number = {node: index for index, node in enumerate(nodes["node"])}
    if len(number) < len(nodes):
        raise UserError(f"{folder / 'nodes.csv'}: graph {name} has a node twice.")
    ends = [[number.get(node, -1) for node in edges[column]] for column in ("source", "target")]
    if -1 in (*ends[0], *ends[1]):
        line = min(row.index(-1) for row in ends if -1 in row)
        raise UserError(
            f"{folder / 'edges.csv'}: an edge of graph {name} joins {tuple(edges[['source', 'target']].iloc[line])}, "
            "of which nodes.csv does not have both."
        )
    graph: dict[str, Any] = {
        "edge_index": torch.tensor(ends, dtype=torch.int64).reshape(2, -1),
        "num_nodes": len(nodes),
    }
    graph["x"] = _features(nodes.drop(columns=["node", "graph", "y", "split"], errors="ignore"))
    graph["edge_attr"] = _features(edges.drop(columns=["source", "target", "graph"]))
    if "y" in nodes:
        graph["y"] = torch.tensor(nodes["y"].to_numpy())
    if "split" in nodes:
        for part in PARTS:
            graph[f"{part}_mask"] = torch.tensor((nodes["split"] == part).to_numpy())
    return {key: value for key, value in graph.items() if value is not None}


def _of_graph(row: dict[Hashable, Any]) -> dict[str, Any]:
    targets = [value for column, value in row.items() if _is_target(column)]
    stated = {"split": row["split"]} if "split" in row else {}
    return {**stated, **({"y": torch.tensor(targets)} if targets else {})}


def _read_smiles(path: Path) -> list[dict[str, Any]]:
    table = _table(path, (), None)
    named = [column for column in table if str(column).lower() == "smiles"]
    if not named:
        raise UserError(
            f"{path}: a single table is one of molecules and needs a column 'smiles'; it has "
            f"{', '.join(map(str, table))}. Graphs in general: a folder with nodes.csv and edges.csv."
        )
    if not table[named[0]].notna().all() or table.empty:
        raise UserError(f"{_line(path, table[named[0]].isna())}: there is no SMILES.")
    texts = [str(text) for text in table[named[0]]]
    read = molecules(texts, str(path))
    targets = _numbers(_targets(path, table.drop(columns=[*named, "split"], errors="ignore")), np.float64)
    node_ends, edge_ends = np.cumsum(read["nodes"])[:-1], np.cumsum(read["edges"])[:-1]
    pieces = zip(
        np.split(read["x"], node_ends),
        np.split(read["edge_attr"], edge_ends),
        np.split(read["edge_index"], edge_ends, 1),
    )
    graphs = []
    for number, (x, edge_attr, edge_index) in enumerate(pieces):
        graph = {
            "x": torch.tensor(x),
            "edge_attr": torch.tensor(edge_attr),
            "edge_index": torch.tensor(edge_index),
        }
        y = {"y": torch.tensor(targets[number])} if targets.shape[1] else {}
        stated = {"split": table["split"].iloc[number]} if "split" in table else {}
        graphs.append({**graph, **y, **stated, "smiles": texts[number]})
    return graphs


def _targets(path: Path, table: pandas.DataFrame) -> pandas.DataFrame:
    """The columns of numbers among those of a table of molecules; the others are named in a warning.

    Raises:
        UserError: a column has more numbers than other values, but has such.
    """
    import pandas

    targets = {}
    for column, values in table.items():
        times = values.dtype.kind in "mM"  # which would be numbers of nanoseconds
        numbers = pandas.to_numeric(values.astype(str) if times else values, errors="coerce")
        wrong = numbers.isna() & values.notna()
        if not wrong.any():
            targets[column] = numbers
        elif wrong.sum() < numbers.notna().sum():
            raise _no_number(path, values, wrong)
        else:
            first = values[wrong].iloc[0]
            logger.warning("%s: column '%s' is no target, it holds text: '%s'.", _line(path, wrong), column, first)
    return pandas.DataFrame(targets, index=table.index)


def _is_target(column: object) -> bool:
    return column == "y" or str(column).startswith("y_")


def _no_number(path: Path, column: pandas.Series[Any], wrong: pandas.Series[bool]) -> UserError:
    """The message about the first of the wrong values of a column."""
    value = column[wrong].iloc[0]
    received = f"'{value}'" if column[wrong].notna().iloc[0] else "an empty cell"
    return UserError(f"{_line(path, wrong)}: column '{column.name}' takes numbers, received {received}.")


def _features(columns: pandas.DataFrame) -> Tensor | None:
    return torch.tensor(_numbers(columns, np.float32)) if columns.shape[1] else None


def _numbers(columns: pandas.DataFrame, real: type[np.floating[Any]]) -> np.ndarray:
    """The values of columns: integers where all of them hold such, else of type ``real``."""
    whole = all(columns[column].dtype.kind in "iub" for column in columns)
    return columns.to_numpy(np.int64 if whole else real)


def _file(path: Path) -> Path:
    """A table named ``.csv``, or the one with the same name that is ``.parquet``."""
    parquet = path.with_suffix(".parquet")
    return parquet if not path.is_file() and parquet.is_file() else path


def _table(path: Path, needed: Sequence[str], others: Sequence[str] | None) -> pandas.DataFrame:
    """A table whose columns were looked through.

    Args:
        path: the file, or the one with the same name that is ``.parquet``.
        needed: columns that it must have.
        others: columns that are no features, beside those; None: no column is a feature.
    """
    import pandas

    path, names = _file(path), {*needed, "graph"} if needed else set()
    try:
        table = pandas.read_parquet(path) if path.suffix == ".parquet" else _read_csv(path, names)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file.") from None
    except ImportError:
        raise UserError(f"{path}: Parquet needs pyarrow: pip install 'graphbench-gt[parquet]'.") from None
    except (ValueError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{path}: no table ({str(error).strip()}).") from None
    for number, column in enumerate(table, 1):
        if _NO_NAME.fullmatch(str(column)):
            hint = "an index that pandas has written is left out by index=False"
            raise UserError(f"{path}{':1' if path.suffix == '.csv' else ''}: column {number} has no name; {hint}.")
    missing = [column for column in needed if column not in table]
    if missing:
        hint = " Columns are separated by commas." if ";" in str(table.columns[0]) else ""
        raise UserError(f"{path}:1: no column '{missing[0]}', received {', '.join(map(str, table))}.{hint}")
    for column in names.intersection(table):
        if table[column].isna().any():
            raise UserError(f"{_line(path, table[column].isna())}: column '{column}' is empty.")
    for column in table:
        feature = others is not None and column not in (*needed, *others)
        if feature or _is_target(column):
            numbers = pandas.to_numeric(table[column], errors="coerce")
            wrong = numbers.isna() & (feature | table[column].notna())  # a target may be missing
            if wrong.any():
                raise _no_number(path, table[column], wrong)
            table[column] = numbers
    if "split" in table:
        for word in table["split"].dropna().unique():
            if word not in PARTS:
                raise unknown("word in the column 'split'", word, PARTS, _line(path, table["split"] == word))
    return table


def _read_csv(path: Path, names: Collection[str]) -> pandas.DataFrame:
    """A table in which ``NA`` is a missing number, but in some columns a name like any other."""
    import pandas

    columns = pandas.read_csv(path, nrows=0).columns
    empty = {column: [""] if column in names or str(column).lower() == "smiles" else _MISSING for column in columns}
    table = pandas.read_csv(path, na_values=empty, keep_default_na=False)
    if not isinstance(table.index, pandas.RangeIndex):  # which then are the values before those of the first column
        raise ValueError("its lines have more values than line 1 has names of columns")
    return table


def _named_alike(columns: Sequence[tuple[pandas.DataFrame, str]]) -> None:
    """Makes texts of the names in several columns where some of them are: 1 in one file is 1 in another."""
    if any(table[column].dtype.kind == "O" for table, column in columns):
        for table, column in columns:
            table[column] = table[column].astype(str)


def _line(path: Path, rows: pandas.Series[bool]) -> str:
    """``file:line`` of the first of some rows of a table."""
    number = int(rows.to_numpy().argmax()) if len(rows) else 0
    return f"{path}:{number + 2}" if path.suffix == ".csv" else f"{path}, row {number}"


def missing_file(path: Path) -> ArgumentError:
    """The message for a path that leads nowhere; names the neighbour that may be meant."""
    begin = "" if path.is_absolute() else f" (in {Path.cwd()})"
    return ArgumentError("path", f"there is no file {path}{begin}.{neighbour(path)}")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise missing_file(path) from None
    except ValueError as error:
        raise UserError(f"{path}: no JSON ({error}).") from None
