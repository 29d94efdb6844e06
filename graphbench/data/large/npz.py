"""Arrays of an ``.npz`` file that are larger than memory: unpacked piece by piece into a file that can be mapped.

An ``.npz`` is a zip of ``.npy`` files, usually compressed, so that nothing in it can be mapped where it lies.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO
from zipfile import BadZipFile, ZipFile

import numpy as np

from graphbench.data.files.progress import report
from graphbench.data.large.arrays import create
from graphbench.errors import UserError

PIECE = 2**22
"""Numbers unpacked at a time."""


def unpack(
    path: Path,
    name: str,
    to: Path,
    dtype: np.dtype | type | None = None,
    convert: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """Copies one array into a ``.npy`` file of the same shape, in memory of one piece.

    Args:
        path: the ``.npz`` file.
        name: name of the array in it; one or two dimensions.
        to: the ``.npy`` file to be written.
        dtype: type of the numbers written; None: as they are stored.
        convert: applied to every piece (of one dimension), before it is written; may refuse it with a ValueError.

    Returns:
        The array written, mapped.

    Raises:
        UserError: no such file, a damaged one, one without this array, or with Python objects in it.
    """
    try:
        with ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            shape, by_columns, stored = _header(file)
            if stored.hasobject or not 1 <= len(shape) <= 2:
                raise ValueError(f"'{name}' is of type {stored} and shape {shape}, not numbers in rows")
            written = create(to, shape, stored if dtype is None else dtype)
            # Stored by columns, the transpose is what lies there row by row.
            target = written.T if by_columns else written
            _copy(file, stored, target, convert or (lambda piece: piece))
            written.flush()
            return written
    except KeyError:
        raise UserError(f"{path}: there is no array '{name}' in it; {_AGAIN}") from None
    except (OSError, EOFError, ValueError, BadZipFile, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}): {_AGAIN}") from error


_AGAIN = "delete it and let it be downloaded again."


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"version {version} of the format is not known")
    shape, by_columns, dtype = read(file)
    return shape, by_columns, dtype


def _copy(file: IO[bytes], stored: np.dtype, target: np.ndarray, convert: Callable[[np.ndarray], np.ndarray]) -> None:
    """Fills ``target`` row by row, whole rows at a time."""
    width = math.prod(target.shape[1:])
    rows = max(1, PIECE // max(width, 1))
    for first in range(0, len(target), rows):
        report(first, len(target))
        last = min(first + rows, len(target))
        for start in range(0, width, PIECE):  # a row of more than a piece (two rows of edges) comes in parts
            stop = min(start + PIECE, width)
            count = (last - first) * (stop - start)
            content = file.read(count * stored.itemsize)
            if len(content) < count * stored.itemsize:
                raise EOFError("it ends before its last number")
            piece = convert(np.frombuffer(content, dtype=stored))
            if target.ndim == 1:
                target[first:last] = piece
            else:
                target[first:last, start:stop] = piece.reshape(last - first, stop - start)
