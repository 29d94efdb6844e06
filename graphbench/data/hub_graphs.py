"""Graph data sets of the Hugging Face Hub, and folders that ``datasets.Dataset.save_to_disk`` wrote.

A row is a graph: ``edge_index``, ``node_feat`` or ``x``, ``edge_attr``, ``y``, ``num_nodes``, as in
``graphs-datasets/*``. The parts ``train``, ``validation`` (``valid``, ``val``) and ``test`` are the ``standard`` split.
The library executes nothing that a data set brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphbench.errors import UserError

PREFIX = "hf://"
_FIELDS = ("edge_index", "node_feat", "x", "edge_attr", "y", "num_nodes")
_PARTS = {"train": "train", "validation": "val", "valid": "val", "val": "val", "test": "test"}


def is_hub(source: str) -> bool:
    """Whether :func:`read_hub` reads it: ``hf://<user>/<name>``, or a folder of Arrow files."""
    return source.startswith(PREFIX) or any(
        Path(source, name).is_file() for name in ("dataset_dict.json", "dataset_info.json")
    )


def read_hub(source: str) -> list[dict[str, Any]]:
    """The graphs of all parts, with the name of their part in ``split`` where there are three of them.

    Args:
        source: ``hf://<user>/<name>[@<revision>]``, or a folder.

    Raises:
        UserError: the library is missing, there is no such data set, or it holds no graphs.
    """
    try:
        # By name: a folder datasets/ of downloads beside the program would be a module, too.
        from datasets import load_dataset, load_from_disk  # type: ignore[attr-defined, unused-ignore]
    except ImportError:
        raise UserError(
            f"{source}: needs the library datasets: pip install 'graphbench-gt[huggingface]' (or pip install datasets)."
        ) from None
    try:
        if source.startswith(PREFIX):
            name, _, revision = source.removeprefix(PREFIX).partition("@")
            content = load_dataset(name, revision=revision or None)
        else:
            content = load_from_disk(source)
    except Exception as error:  # of a network, a server or a file: the library has no common class for them
        raise UserError(f"{source}: could not be read: {type(error).__name__}: {error}.") from error
    parts = content if isinstance(content, Mapping) else {"all": content}
    known = {part: _PARTS[part] for part in parts if part in _PARTS}
    stated = len(known) == len(parts) == len(set(known.values())) == len(set(_PARTS.values()))
    graphs = []
    for part, rows in parts.items():
        columns = [name for name in _FIELDS if name in rows.column_names]
        if not {"edge_index", "num_nodes", "node_feat", "x"} & set(columns):
            raise UserError(
                f"{source}: its columns {', '.join(rows.column_names)} are none of graphs ({', '.join(_FIELDS)})."
            )
        split = {"split": known[part]} if stated else {}
        graphs += [{name: row[name] for name in columns if row[name] is not None} | split for row in rows]
    return graphs
