from __future__ import annotations

import errno
import gzip
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.sparse import coo_matrix

from graphbench.data.files.raw_files import read_csv, read_pickle, read_torch, reading
from graphbench.errors import UserError


def _pickled(path: Path, content: object, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=protocol))
    return path


@pytest.mark.parametrize("protocol", [2, 4])
def test_arrays_tensors_and_plain_values_come_back(tmp_path: Path, protocol: int) -> None:
    matrix = coo_matrix(([1.0, 2.0], ([0, 2], [1, 0])), shape=(3, 3))
    content = [
        {"a": torch.arange(4, dtype=torch.int8), "b": torch.tensor([[0.5]]), "n": 3, "text": "x"},
        (np.arange(3), np.float32(2.5), None, [1.5, True], np.arange(0)),
        matrix,
    ]
    tensors, arrays, sparse = read_pickle(_pickled(tmp_path / "x.pickle", content, protocol))
    assert tensors["a"].dtype == torch.int8
    assert torch.equal(tensors["a"], torch.arange(4, dtype=torch.int8))
    assert tensors["b"].tolist() == [[0.5]]
    assert (tensors["n"], tensors["text"]) == (3, "x")
    assert arrays[0].tolist() == [0, 1, 2]
    assert arrays[1:4] == (2.5, None, [1.5, True])
    assert arrays[4].shape == (0,)
    assert (sparse.toarray() == matrix.toarray()).all()


def test_names_of_old_releases_are_understood(tmp_path: Path) -> None:
    path = _pickled(tmp_path / "x.pickle", np.arange(3), protocol=2)
    path.write_bytes(path.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert read_pickle(path).tolist() == [0, 1, 2]
    path.write_bytes(b"cscipy.sparse.coo\ncoo_matrix\n.")
    assert read_pickle(path) is coo_matrix


class _Attack:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_cannot_run_code(tmp_path: Path) -> None:
    target = tmp_path / "touched"
    path = _pickled(tmp_path / "x.pickle", [np.arange(3), _Attack(target)])
    with pytest.raises(UserError, match=r"x.pickle holds 'pathlib.*', which is no array.*can run code"):
        read_pickle(path)
    torch.save({"x": _Attack(target)}, tmp_path / "x.pt")
    with pytest.raises(UserError, match=r"x.pt cannot be read"):
        read_torch(tmp_path / "x.pt")
    storage = pickle.dumps(_Attack(target))
    path.write_bytes(b"ctorch.storage\n_load_from_bytes\n(C" + bytes([len(storage)]) + storage + b"tR.")
    with pytest.raises(UserError, match=r"x.pickle cannot be read"):
        read_pickle(path)
    assert not target.exists()
    pickle.loads(pickle.dumps(_Attack(target)))
    assert target.exists()  # the attack works where nothing stops it


def test_tensors_and_arrays_saved_by_torch(tmp_path: Path) -> None:
    torch.save(
        {"x": torch.arange(3), "train": np.arange(4), "f": np.ones(2, np.float32), "none": np.arange(0)},
        tmp_path / "x.pt",
    )
    content = read_torch(tmp_path / "x.pt")
    assert content["x"].tolist() == [0, 1, 2]
    assert content["train"].tolist() == [0, 1, 2, 3]
    assert content["f"].tolist() == [1, 1]
    assert content["none"].shape == (0,)


def test_tables(tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"1,2\n3,4\n"))
    (tmp_path / "y.csv").write_text("0.5,nan\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    table = read_csv(tmp_path / "x.csv.gz")
    assert table.tolist() == [[1, 2], [3, 4]]
    assert table.flags.writeable
    assert np.isnan(read_csv(tmp_path / "y.csv")[0, 1])
    assert read_csv(tmp_path / "empty.csv", may_be_empty=True).size == 0


@pytest.mark.parametrize(("read", "name"), [(read_pickle, "x.pickle"), (read_torch, "x.pt"), (read_csv, "x.csv.gz")])
def test_damaged_and_missing_files(tmp_path: Path, read: object, name: str) -> None:
    with pytest.raises(UserError, match=rf"{name} cannot be read .*No such file.*downloaded again"):
        read(tmp_path / name)  # type: ignore[operator]
    (tmp_path / name).write_bytes(b"\x80\x04garbage")
    with pytest.raises(UserError, match=re.escape(f"{tmp_path / name} cannot be read")):
        read(tmp_path / name)  # type: ignore[operator]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        PermissionError(errno.EACCES, "Permission denied", "x.csv"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes."),
        MemoryError(),
        ModuleNotFoundError("No module named 'pandas'"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_is_no_damage_is_not_called_so(error: Exception) -> None:
    with pytest.raises(type(error)), reading(Path("x.csv")):
        raise error
