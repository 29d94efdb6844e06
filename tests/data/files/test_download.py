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

import graphbench.data.files.download
from graphbench.data.files.download import download, download_archive, download_zip, file_sha256, no_downloads
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


seen: list[tuple[str, str | None, str | None]] = []
"""Requests: path, Range, If-Range."""

broken: set[str] = set()
"""Paths whose answers break off after a fifth of the file."""


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        bodies = {"/file": CONTENT, "/short": CONTENT, "/tiny.zip": _archive()}
        bodies |= {"/set.tar.gz": _tar(), "/bad.tar.gz": _outside()}
        bodies |= {"/changing": CONTENT, "/parts": CONTENT, "/parts.zip": _archive(), "/busy": CONTENT}
        body = bodies.get(self.path)
        seen.append((self.path, self.headers.get("Range"), self.headers.get("If-Range")))
        times = sum(path == self.path for path, _, _ in seen)
        if body is None:
            self.send_error(404)
            return
        if self.path == "/busy" and times < 3:
            self.send_error(503)
            return
        first, version = 0, f'"{times}"' if self.path == "/changing" else '"1"'
        if self.path.startswith(("/parts", "/changing")):
            if self.headers.get("If-Range") == version and self.headers.get("Range", "").startswith("bytes="):
                first = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            self.send_response(206 if first else 200)
            self.send_header("ETag", version)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - first))
        self.end_headers()
        stop = len(body) // 2 if self.path == "/short" else len(body)
        if self.path in broken:
            stop = first + len(body) // 5
        if self.path == "/changing" and times < 3:
            stop = 1000
        self.wfile.write(body[first:stop])

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


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphbench.data.files.download, "_WAIT", 0.0)
    seen.clear()
    broken.clear()


def test_a_busy_server_is_asked_again(server: str, tmp_path: Path) -> None:
    assert download(f"{server}/busy", tmp_path / "file.bin").read_bytes() == CONTENT
    assert len(seen) == 3


def test_a_broken_connection_goes_on_where_it_ended_now_and_at_the_next_start(server: str, tmp_path: Path) -> None:
    broken.add("/parts")
    with pytest.raises(UserError, match=f"broke off after {4 * (len(CONTENT) // 5)} of {len(CONTENT)} bytes, 4 times"):
        download(f"{server}/parts", tmp_path / "file.bin")
    fifth = len(CONTENT) // 5
    ranges = [None, *(f"bytes={n * fifth}-" for n in (1, 2, 3))]
    assert [request[1] for request in seen] == ranges
    [left] = tmp_path.iterdir()
    assert left.read_bytes() == CONTENT[: 4 * fifth]
    broken.clear()
    assert download(f"{server}/parts", tmp_path / "file.bin", hashlib.sha256(CONTENT).hexdigest())
    assert seen[-1] == ("/parts", f"bytes={4 * fifth}-", '"1"')
    assert [path.name for path in tmp_path.iterdir()] == ["file.bin"]


def test_a_file_that_changes_meanwhile_starts_afresh(server: str, tmp_path: Path) -> None:
    assert download(f"{server}/changing", tmp_path / "file.bin").read_bytes() == CONTENT
    assert [request[1] for request in seen] == [None, "bytes=1000-", "bytes=1000-"]


def test_an_archive_goes_on_too(server: str, tmp_path: Path) -> None:
    broken.add("/parts.zip")
    with pytest.raises(UserError, match="broke off"):
        download_zip(f"{server}/parts.zip", tmp_path / "raw", "TINY_")
    broken.clear()
    download_zip(f"{server}/parts.zip", tmp_path / "raw", "TINY_")
    assert seen[-1][1] is not None
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == ["TINY_A.txt", "TINY_graph_labels.txt"]


def test_downloads_can_be_switched_off(server: str, tmp_path: Path) -> None:
    with no_downloads(), pytest.raises(UserError, match="downloads are switched off"):
        download(f"{server}/file", tmp_path / "file.bin")
    assert not seen
    download(f"{server}/file", tmp_path / "file.bin")


def test_a_file_arrives_whole(server: str, tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "file.bin"
    checksum = hashlib.sha256(CONTENT).hexdigest()
    assert download(f"{server}/file", target, checksum) == target
    assert target.read_bytes() == CONTENT
    assert file_sha256(target) == checksum
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    (tmp_path / "any").touch()
    assert target.stat().st_mode == (tmp_path / "any").stat().st_mode, "others may read it, where the umask lets them"


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
        download("http://127.0.0.1:1/file", tmp_path / "file.bin")


def test_archives_are_flattened_and_filtered(server: str, tmp_path: Path) -> None:
    download_zip(f"{server}/tiny.zip", tmp_path / "raw", "TINY_")
    assert sorted(path.name for path in (tmp_path / "raw").iterdir()) == ["TINY_A.txt", "TINY_graph_labels.txt"]
    assert (tmp_path / "raw" / "TINY_A.txt").read_text() == "1, 2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


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
    files = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {
        "a/set/raw/a.csv": "1",
        "a/set/split/b.csv": "2",
        "b/raw/a.csv": "1",
        "b/split/b.csv": "2",
        "c/TINY_A.txt": "1, 2\n",
        "c/TINY_graph_labels.txt": "1\n",
        "c/README.txt": "no data",
    }
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == ["raw", "split"]  # nothing temporary stays


@pytest.mark.parametrize("name", ["file", "bad.tar.gz"])
def test_damaged_and_hostile_archives(server: str, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="is not a readable zip or tar file"):
        download_archive(f"{server}/{name}", tmp_path / "deep/er")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
