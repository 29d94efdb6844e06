"""The folder for a GPU machine: what is in it, and that the machine gets it out again."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from scripts import gpu_pack


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of raw data with a set that is packed and one that is not."""
    for name in ("wanted", "unwanted"):
        (tmp_path / "data" / name).mkdir(parents=True)
        (tmp_path / "data" / name / "raw.txt").write_text(name)
    monkeypatch.setenv("GRAPHBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(gpu_pack, "download", lambda folder: folder.mkdir(parents=True, exist_ok=True))  # no network
    return tmp_path / "data"


def test_the_other_machine_finds_the_data(data: Path, tmp_path: Path) -> None:
    packed, other = tmp_path / "packed", tmp_path / "other"
    (tmp_path / "kernels/one").mkdir(parents=True)
    assert gpu_pack.main(["--out", str(packed), "--triton", str(tmp_path / "kernels"), "--data", "wanted"]) == 0
    (other / "bin").mkdir(parents=True)
    python = other / "bin/python3"
    pip = '[ "$2" = pip ] && { echo installed >> "$TMPDIR/installed"; exit; }'
    python.write_text(f'#!/bin/sh\n{pip}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    listed = "$GRAPHBENCH_DATA $GRAPHBENCH_CACHE $TRITON_CACHE_DIR"
    script = f"source {packed}/setup.sh && cat $GRAPHBENCH_DATA/wanted/raw.txt && ls {listed}"
    environment = {"PATH": f"{other}/bin:/usr/bin:/bin", "TMPDIR": str(other)}
    for _ in range(2):  # a second command on the same machine unpacks nothing again
        done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("wanted")
        assert "unwanted" not in done.stdout
        assert "one" in done.stdout.split()
    assert (other / "installed").read_text() == "installed\n" * 2


def test_a_folder_that_is_not_there_is_refused(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        gpu_pack.main(["--out", str(tmp_path / "packed"), "--data", "wnated"])
    assert "has no wnated; it has unwanted, wanted" in capsys.readouterr().err


def test_too_much_is_said(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_pack.main(["--out", str(tmp_path / "packed"), "--data", "wanted", "--most", "0"]) == 1
    assert "MiB of at most 0" in capsys.readouterr().out


@pytest.mark.slow
def test_data_that_cannot_be_prepared_ends_it(data: Path, tmp_path: Path) -> None:
    arguments = ["--out", str(tmp_path / "packed"), "--data", "wanted", "--", "configs/no-such-file.yaml"]
    assert gpu_pack.main(arguments) == 2
    assert not (tmp_path / "packed/data.tar.xz").exists()


def test_the_cache_lies_beside_the_data(data: Path, tmp_path: Path) -> None:
    assert gpu_pack.pack(tmp_path / "data.tar.xz", data, ["wanted"], []) == 0
    with tarfile.open(tmp_path / "data.tar.xz") as archive:
        assert archive.getnames() == ["data/wanted", "data/wanted/raw.txt", "cache"]
