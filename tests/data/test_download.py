from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from graphbench.data.download import download, download_archive, download_zip, file_sha256
from graphbench.errors import UserError

CONTENT = bytes(range(256)) * 9000


def _archive() -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        archive.writestr("TINY/TINY_A.txt", "1, 2\n")
        archive.writestr("TINY/../../TINY_graph_labels.txt", "1\n")
        archive.writestr("TINY/README.txt", "no data")
    return memory.getvalue()


def _tar() -> bytes:
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w:gz") as archive:
        for name, text in (("set/raw/a.csv", b"1"), ("set/split/b.csv", b"2")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
    return memory.getvalue()


def _outside() -> bytes:
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("../../outside"), io.BytesIO())
    return memory.getvalue()


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        bodies = {"/file": CONTENT, "/short": CONTENT, "/tiny.zip": _archive()}
        bodies |= {"/set.tar.gz": _tar(), "/bad.tar.gz": _outside()}
        body = bodies.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/short" else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_address[1]}"
        listening.shutdown()
        thread.join()


def test_a_file_arrives_whole(server: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "file.bin"
    checksum = hashlib.sha256(CONTENT).hexdigest()
    assert download(f"{server}/file", target, checksum) == target
    assert target.read_bytes() == CONTENT
    assert file_sha256(target) == checksum
    assert [each.name for each in target.parent.iterdir()] == ["file.bin"]


@pytest.mark.parametrize(
    ("path", "sha256", "message"),
    [
        ("file", "0" * 64, "the file was changed or damaged"),
        ("short", None, "broke off after 1152000 of 2304000 bytes"),
        ("absent", None, "cannot download .*404"),
    ],
)
def test_nothing_is_left_behind_when_it_fails(
    server: str, tmp_path: Path, path: str, sha256: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        download(f"{server}/{path}", tmp_path / "file.bin", sha256)
    assert not list(tmp_path.iterdir())


def test_a_failed_download_keeps_the_file_that_was_there(server: str, tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_text("old")
    with pytest.raises(UserError):
        download(f"{server}/file", tmp_path / "file.bin", "0" * 64)
    assert (tmp_path / "file.bin").read_text() == "old"


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot download"):
        download("http://127.0.0.1:1/file", tmp_path / "file.bin", timeout=2)


def test_archives_are_flattened_and_filtered(server: str, tmp_path: Path) -> None:
    download_zip(f"{server}/tiny.zip", tmp_path / "raw", "TINY_")
    assert sorted(each.name for each in (tmp_path / "raw").iterdir()) == ["TINY_A.txt", "TINY_graph_labels.txt"]
    assert (tmp_path / "raw" / "TINY_A.txt").read_text() == "1, 2\n"
    assert [each.name for each in tmp_path.iterdir()] == ["raw"]


def test_archives_without_the_files_or_that_are_none(server: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no file whose name begins with 'OTHER_'"):
        download_zip(f"{server}/tiny.zip", tmp_path, "OTHER_")
    with pytest.raises(UserError, match="is not a readable zip file"):
        download_zip(f"{server}/file", tmp_path, "TINY_")
    assert not list(tmp_path.iterdir())


def test_an_archive_keeps_its_folders(server: str, tmp_path: Path) -> None:
    download_archive(f"{server}/set.tar.gz", tmp_path / "a")
    download_archive(f"{server}/set.tar.gz", tmp_path / "b", strip=1)
    download_archive(f"{server}/tiny.zip", tmp_path / "c", strip=1)
    files = {str(each.relative_to(tmp_path)): each.read_text() for each in tmp_path.rglob("*") if each.is_file()}
    assert files == {
        "a/set/raw/a.csv": "1",
        "a/set/split/b.csv": "2",
        "b/raw/a.csv": "1",
        "b/split/b.csv": "2",
        "c/TINY_A.txt": "1, 2\n",
        "c/TINY_graph_labels.txt": "1\n",
        "c/README.txt": "no data",
    }
    assert sorted(each.name for each in (tmp_path / "b").iterdir()) == ["raw", "split"]  # nothing temporary stays


@pytest.mark.parametrize("name", ["file", "bad.tar.gz"])
def test_damaged_and_hostile_archives(server: str, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="is not a readable zip or tar file"):
        download_archive(f"{server}/{name}", tmp_path / "deep/er")
    assert not [each for each in tmp_path.rglob("*") if each.is_file()]
