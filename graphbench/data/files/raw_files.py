"""Readers of the formats that data sets are distributed in, which execute nothing that is inside the files.

A pickle can name any function to be called while it is read. Here only what arrays, tensors and sparse matrices
consist of may be named; everything else is refused.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from graphbench.errors import UserError, is_out_of_memory

if TYPE_CHECKING:
    import pandas


@contextmanager
def reading(*files: Path) -> Iterator[None]:
    """A block that reads and interprets raw files; whatever it raises becomes one message that names them.

    Damage surfaces as nearly any exception of the libraries that parse (``zlib.error``, ``IndexError``, ``TypeError``
    of a pickle, ...), so that all are taken but those that are about something else: what the system refuses, a
    package that is missing, memory that is exhausted.

    Raises:
        UserError: a file is missing or damaged.
    """
    try:
        yield
    except (UserError, ImportError, AssertionError):
        raise
    except Exception as error:
        refused = isinstance(error, OSError) and error.errno not in (None, errno.ENOENT)
        if refused or is_out_of_memory(error):
            raise
        raise unreadable(files, error, "Delete it and let it be downloaded again.") from error


def unreadable(files: Sequence[Path], error: Exception, advice: str) -> UserError:
    """The message about raw files whose content made a reader fail."""
    folder = os.path.commonpath([file.parent for file in files])
    names = [os.path.relpath(file, folder) for file in files]
    shown = f"{folder}: one of {', '.join(names)}" if names[1:] else str(files[0])
    reason = str(error.args[0] if isinstance(error, KeyError) else error).strip().partition("\n")[0].rstrip(".")
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return UserError(
        f"{shown} cannot be read ({type(error).__name__}: {reason}; {Path(frame.filename).name}:{frame.lineno}): what "
        f"is there is not what was published, or damaged. {advice}"
    )


def read_pickle(path: Path, *, encoding: str = "ASCII") -> Any:
    """A pickle of plain values, NumPy arrays, tensors and SciPy sparse matrices, by coordinates or by rows.

    Args:
        path: the file.
        encoding: encoding of strings that Python 2 wrote, and ``latin1`` of its arrays.

    Raises:
        UserError: no such file, a damaged one, or one that names anything else.
    """
    with reading(path), _arrays_only(path), path.open("rb") as file:
        return _ArraysOnly(file, encoding=encoding).load()


def read_object_array(path: Path) -> np.ndarray:
    """A ``.npy`` file of Python objects (a list of dicts of arrays), which is a header before a pickle.

    Raises:
        UserError: as :func:`read_pickle`, or the file is no ``.npy``.
    """
    with reading(path), _arrays_only(path), path.open("rb") as file:
        np.lib.format.read_magic(file)
        shape, _, _ = np.lib.format.read_array_header_1_0(file)
        return np.asarray(_ArraysOnly(file).load(), dtype=object).reshape(shape)


def read_npz(path: Path, *names: str) -> list[np.ndarray]:
    """Some arrays of an ``.npz`` file; arrays of Python objects are refused.

    Args:
        path: the file.
        names: the arrays wanted, in the order of the result.

    Raises:
        UserError: no such file, a damaged one, or one without these arrays.
    """
    with reading(path), path.open("rb") as file, np.load(file) as arrays:
        return [arrays[name] for name in names]


def read_torch(path: Path) -> Any:
    """A file of ``torch.save`` with plain values, tensors and NumPy arrays of numbers.

    Raises:
        UserError: no such file, a damaged one, or one with other objects.
    """
    reconstruct = np._core.multiarray._reconstruct  # type: ignore[attr-defined]
    numpy: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
        bytes,  # what an array without entries is made of
        np.ndarray,
        np.dtype,
        *(type(np.dtype(scalar)) for scalar in (np.int32, np.int64, np.float32, np.float64, bool)),
        reconstruct,
        (reconstruct, "numpy.core.multiarray._reconstruct"),
    ]
    with reading(path), torch.serialization.safe_globals(numpy), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch wonders about what is refused right after that
        return _load(path)


def read_csv(path: Path, *, may_be_empty: bool = False) -> np.ndarray:
    """A table of numbers without header, compressed or not, as a two-dimensional array.

    Args:
        path: the file.
        may_be_empty: an empty file is a (0, 0) table, e.g. of a set without a single edge.

    Raises:
        UserError: no such file, or no such table.
    """
    import pandas  # here, because importing it costs a second

    with reading(path):
        try:
            table: np.ndarray = pandas.read_csv(path, header=None).to_numpy()
        except pandas.errors.EmptyDataError:
            if may_be_empty:
                return np.empty((0, 0), dtype=np.int64)
            raise
        return table if table.flags.writeable else table.copy()  # pandas lends its own memory


def read_table(path: Path, *, separator: str = ",") -> pandas.DataFrame:
    """A table with a heading, compressed or not.

    Raises:
        UserError: no such file, or no such table.
    """
    import pandas  # here, because importing it costs a second

    with reading(path):
        return pandas.read_csv(path, sep=separator)


class _Forbidden(Exception):
    """A pickle names something that is no array."""


@contextmanager
def _arrays_only(path: Path) -> Iterator[None]:
    try:
        yield
    except _Forbidden as error:
        raise UserError(
            f"{path} holds '{error}', which is no array: it was not read, because a pickle can run code. Replace it "
            "by the published file."
        ) from None


def _storage(content: bytes) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _load(io.BytesIO(content))


def _load(file: Path | io.BytesIO) -> Any:
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except AssertionError as error:  # of torch's reader, about the content
        raise ValueError(str(error)) from error


def _sparse(name: str) -> Any:
    from scipy import sparse

    return getattr(sparse, name)


_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_KNOWN = {
    ("collections", "OrderedDict"),
    ("collections", "defaultdict"),
    ("__builtin__", "list"),
    ("_codecs", "encode"),  # bytes, in the oldest protocol
    ("__builtin__", "bytes"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("torch", "Size"),
    ("torch._utils", "_rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"),
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return _storage
        if module.startswith("scipy.sparse") and name in ("coo_matrix", "csr_matrix"):  # the modules moved in 2022
            return _sparse(name)
        if module in _MULTIARRAY and name in ("_reconstruct", "scalar"):
            return getattr(np._core.multiarray, name)  # type: ignore[attr-defined]
        if (module, name) not in _KNOWN:
            raise _Forbidden(f"{module}.{name}")
        return super().find_class(module, name)
