"""Readers of the formats that data sets are distributed in, which execute nothing that is inside the files.

A pickle can name any function to be called while it is read. Here only what arrays, tensors and sparse matrices
consist of may be named; everything else is refused.
"""

from __future__ import annotations

import io
import pickle
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch

from graphbench.errors import UserError

_DAMAGED = "it is not what was published, or damaged: delete it and let it be downloaded again"


def read_pickle(path: Path) -> Any:
    """A pickle of plain values, NumPy arrays, tensors and SciPy sparse matrices in coordinate form.

    Raises:
        UserError: no such file, a damaged one, or one that names anything else.
    """
    try:
        with path.open("rb") as file:
            return _ArraysOnly(file).load()
    except _Forbidden as error:
        raise _refused(path, error) from None
    except (pickle.UnpicklingError, EOFError, OSError, ValueError, RuntimeError, IndexError) as error:
        raise UserError(f"{path} cannot be read ({error}): {_DAMAGED}.") from error


def read_object_array(path: Path) -> np.ndarray:
    """A ``.npy`` file of Python objects (a list of dicts of arrays), which is a header before a pickle.

    Raises:
        UserError: as :func:`read_pickle`, or the file is no ``.npy``.
    """
    try:
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            shape, _, _ = np.lib.format.read_array_header_1_0(file)
            return np.asarray(_ArraysOnly(file).load(), dtype=object).reshape(shape)
    except _Forbidden as error:
        raise _refused(path, error) from None
    except (pickle.UnpicklingError, EOFError, OSError, ValueError, IndexError) as error:
        raise UserError(f"{path} cannot be read ({error}): {_DAMAGED}.") from error


def read_npz(path: Path, *names: str) -> list[np.ndarray]:
    """Some arrays of an ``.npz`` file; arrays of Python objects are refused.

    Args:
        path: the file.
        names: the arrays wanted, in the order of the result.

    Raises:
        UserError: no such file, a damaged one, or one without these arrays.
    """
    try:
        with path.open("rb") as file, np.load(file) as arrays:
            return [arrays[name] for name in names]
    except KeyError as error:
        raise UserError(f"{path}: {str(error.args[0]).rstrip('.')}; {_DAMAGED}.") from error
    except (OSError, EOFError, ValueError, BadZipFile, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}): {_DAMAGED}.") from error


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
    try:
        with torch.serialization.safe_globals(numpy), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch wonders about what is refused right after that
            return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, EOFError, OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{path} cannot be read ({str(error).splitlines()[0]}): {_DAMAGED}.") from error


def read_csv(path: Path) -> np.ndarray:
    """A table of numbers without header, compressed or not, as a two-dimensional array.

    Raises:
        UserError: no such file, or no such table.
    """
    import pandas  # here, because importing it costs a second

    try:
        table: np.ndarray = pandas.read_csv(path, header=None).to_numpy()
        return table if table.flags.writeable else table.copy()  # pandas lends its own memory
    except pandas.errors.EmptyDataError:  # a set without a single edge
        return np.empty((0, 0), dtype=np.int64)
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): {_DAMAGED}.") from error


class _Forbidden(Exception):
    """A pickle names something that is no array."""


def _refused(path: Path, error: _Forbidden) -> UserError:
    return UserError(
        f"{path} holds '{error}', which is no array: it was not read, because a pickle can run code. Replace it by "
        "the published file."
    )


def _storage(content: bytes) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _coordinates() -> Any:
    from scipy.sparse import coo_matrix

    return coo_matrix


_MULTIARRAY = ("numpy.core.multiarray", "numpy._core.multiarray")
_KNOWN = {
    ("collections", "OrderedDict"),
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
        if module.startswith("scipy.sparse") and name == "coo_matrix":  # the module moved in 2022
            return _coordinates()
        if module in _MULTIARRAY and name in ("_reconstruct", "scalar"):
            return getattr(np._core.multiarray, name)  # type: ignore[attr-defined]
        if (module, name) not in _KNOWN:
            raise _Forbidden(f"{module}.{name}")
        return super().find_class(module, name)
