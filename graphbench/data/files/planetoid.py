"""The raw files of the Planetoid release (https://github.com/kimiyoung/planetoid): ``ind.<name>.<part>``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphbench.data.files.raw_files import read_pickle, reading

_VALIDATION = 500


class CitationGraph(NamedTuple):
    """A graph of N documents.

    Attributes:
        x: (N, F) float32, words of a document.
        edge_index: (2, E) int64, without duplicates and self loops, sorted by target, then source.
        y: (N,) int64 class; 0 for the documents of CiteSeer that have none.
        split: rows of the public training, validation and test set.
    """

    x: Tensor
    edge_index: Tensor
    y: Tensor
    split: tuple[Tensor, Tensor, Tensor]


def read_planetoid(folder: Path, name: str) -> CitationGraph:
    """Citation graph with the numbers of ``torch_geometric.io.read_planetoid_data``, whose import takes seconds.

    Args:
        folder: folder of the files.
        name: part of the files' names, lower case.

    Raises:
        UserError: a file is missing, damaged, or holds something else than arrays.
    """
    files = {of: folder / f"ind.{name}.{of}" for of in ("allx", "tx", "ally", "ty", "y", "graph")}
    allx, tx, ally, ty, y, graph = (read_pickle(file, encoding="latin1") for file in files.values())
    index = folder / f"ind.{name}.test.index"
    with reading(*files.values(), index):
        test = np.loadtxt(index, dtype=np.int64)
        documents = int(test.max()) + 1  # some of CiteSeer's are in no file: no words, no class
        x = np.zeros((documents, allx.shape[1]), dtype=np.float32)
        x[: allx.shape[0]], x[test] = allx.toarray(), tx.toarray()
        classes = np.zeros(documents, dtype=np.int64)
        classes[: len(ally)], classes[test] = ally.argmax(1), ty.argmax(1)
        train = np.arange(len(y))
        split = train, np.arange(len(y), len(y) + _VALIDATION), np.sort(test)
        rows = tuple(torch.from_numpy(numbers) for numbers in split)
        return CitationGraph(torch.from_numpy(x), _edge_index(graph), torch.from_numpy(classes), rows)  # type: ignore[arg-type]


def _edge_index(neighbors: Mapping[int, Sequence[int]]) -> Tensor:
    """(2, E) pairs of a document and each of its neighbours, which the files repeat here and there."""
    source = np.fromiter(chain.from_iterable(repeat(node, len(others)) for node, others in neighbors.items()), np.int64)
    target = np.fromiter(chain.from_iterable(neighbors.values()), np.int64)
    pairs = np.unique(np.stack([target, source])[:, source != target], axis=1)
    return torch.from_numpy(pairs[::-1].copy())
