"""``dataset.format: PyG-<Class>``: any class of ``torch_geometric.datasets`` that has no card here.

The library downloads and reads; what the data looks like is measured, as for a user's own graphs. Parameters of the
class are keys below ``dataset.PyG-<Class>``; its ``name``, where it has one, is ``dataset.name``.
"""

from __future__ import annotations

import inspect
import random
import re
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from graphbench import registry
from graphbench.data.builder import LoadedDataset
from graphbench.data.datasets.custom import CustomGraphs
from graphbench.data.files.roots import Roots
from graphbench.data.graph_forms import graph_list
from graphbench.data.graph_records import GraphLike
from graphbench.data.splits import PARTS, Splits
from graphbench.errors import UserError
from graphbench.registry import FromContext
from graphbench.vocabulary import TaskLevel, TaskType

PREFIX = "PyG-"
_FROM_CONTEXT: dict[str, Any] = {
    "name": FromContext[str],
    "task": FromContext[str],
    "task_type": FromContext[str],
    "transductive": FromContext[bool],
}
_NOT_KEYS = ("self", "root", "transform", "pre_transform", "pre_filter", "force_reload", "split", "kwargs")


class LibraryDataset(CustomGraphs):
    """Base of the data sets that PyTorch Geometric reads; one subclass per class of the library.

    Args:
        name: ``dataset.name``; the ``name`` of the class, where it has one.
        task: ``dataset.task``: ``graph`` or ``node``.
        task_type: ``dataset.task_type``.
        transductive: ``dataset.transductive``.
        metric: name of the metric; None: accuracy, mae (regression) or ap (multilabel).
        **options: further parameters of the class.
    """

    library_class: ClassVar[type]
    published_files = True

    def __init__(
        self,
        name: str,
        task: TaskLevel,
        task_type: TaskType,
        transductive: bool,
        metric: str | None = None,
        **options: Any,
    ) -> None:
        where = f"torch_geometric.datasets:{self.library_class.__name__}"
        super().__init__(name, task, task_type, transductive, function=where, metric=metric)
        self.options = options

    def load(self, roots: Roots) -> LoadedDataset:
        """Lets the library download and read; published splits are masks, or what its parameter ``split`` names."""
        root = roots.directory / f"{PREFIX}{self.library_class.__name__}"
        parameters = inspect.signature(self.library_class).parameters
        if "split" not in parameters or parameters["split"].default != "train":
            return self.measure(self._read(root))
        parts = [self._read(root, split=part) for part in PARTS]
        loaded = self.measure([graph for part in parts for graph in part])
        if self.task == "node" and self.transductive:
            return loaded
        splits = Splits.consecutive([len(part) for part in parts])
        card = loaded.card.replace(split_modes=("standard", *loaded.card.split_modes))
        return LoadedDataset(loaded.store, card, {**loaded.published, "standard": (splits,)})

    def _read(self, root: Path, **further: Any) -> list[GraphLike]:
        parameters = inspect.signature(self.library_class).parameters
        given = {"root": str(root), "name": self.name, "task": self.task}
        arguments = {key: value for key, value in given.items() if key in parameters}
        stated = {key: value for key, value in self.options.items() if value is not None}
        try:
            with _seeded():
                return graph_list(self.library_class(**arguments, **stated, **further))
        except UserError:
            raise
        except Exception as error:  # a library's reader and its download can fail in any way
            raise UserError(
                f"{self.function}: could not be read below {root}: {type(error).__name__}: {error}. Where the download "
                "failed, put the raw files where the library looks for them."
            ) from error


def register_class(name: str) -> bool:
    """Registers ``PyG-<Class>``, if PyTorch Geometric has such a data set.

    Args:
        name: name with the prefix.
    """
    from torch_geometric import datasets
    from torch_geometric.data import Dataset

    library_class = vars(datasets).get(name.removeprefix(PREFIX))
    if not (inspect.isclass(library_class) and issubclass(library_class, Dataset)):
        return False
    members = {
        "__module__": __name__,
        "__doc__": re.split(r"\n\s*\n", inspect.getdoc(library_class) or name)[0],
        "__init__": _constructor(library_class),
        "library_class": library_class,
    }
    registry.register(name, namespace="data/datasets")(type(library_class.__name__, (LibraryDataset,), members))
    return True


def _constructor(library_class: type) -> Callable[..., None]:
    """A constructor whose signature names the parameters of the class: they become keys."""
    hints = typing.get_type_hints(vars(library_class)["__init__"])
    keys = [
        parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
        for parameter in inspect.signature(library_class).parameters.values()
        if parameter.name not in (*_NOT_KEYS, *_FROM_CONTEXT) and parameter.name in hints
    ]
    metric = inspect.Parameter("metric", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=str | None)
    filled = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
        for name, annotation in _FROM_CONTEXT.items()
    ]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def __init__(self: LibraryDataset, *arguments: Any, **options: Any) -> None:
        LibraryDataset.__init__(self, *arguments, **options)

    signature = inspect.Signature([own, *filled, metric, *keys])
    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__annotations__ = {name: each.annotation for name, each in signature.parameters.items() if name != "self"}
    return __init__


@contextmanager
def _seeded() -> Iterator[None]:
    """Fixed random numbers: a data set that a class generates is the same in every run."""
    state = random.getstate(), np.random.get_state()  # noqa: NPY002  the library's classes draw from these
    with torch.random.fork_rng(devices=[]):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        torch.manual_seed(0)
        try:
            yield
        finally:
            random.setstate(state[0])
            np.random.set_state(state[1])  # noqa: NPY002
