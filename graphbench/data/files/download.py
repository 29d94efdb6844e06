"""Downloads: to a temporary name, verified, then renamed, so that no half-written file has its final name."""

from __future__ import annotations

import glob
import hashlib
import http.client
import logging
import shutil
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path, PurePosixPath
from typing import Any

from filelock import FileLock, Timeout

from graphbench import atomic
from graphbench.data.files.progress import Display, report
from graphbench.errors import UserError

_log = logging.getLogger(__name__)

_BLOCK = 1 << 20
_ATTEMPTS = 4
_TIMEOUT = 30.0  # seconds without an answer after which an attempt ends
_WAIT = 1.0  # seconds before the second attempt, doubled every time
_BUSY = (408, 416, 425, 429, 500, 502, 503, 504)

_offline: ContextVar[bool] = ContextVar("_offline", default=False)


def file_sha256(path: Path) -> str:
    """Checksum of a file, read in blocks."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            total.update(block)
    return total.hexdigest()


def download(url: str, target: Path, sha256: str | None = None) -> Path:
    """Fetches one file.

    A connection that breaks, or a server that is busy, is tried again a few times, each time from where the last one
    ended if the server can do that. What has arrived when all of that fails, or when a person stops it, is kept next to
    the target (``.<name>.<version>.part``) and the next start goes on from there.

    Args:
        url: http, https or file address.
        target: path of the file; folders are created.
        sha256: expected checksum, None when unknown.

    Raises:
        UserError: the address does not answer, the content is not what was expected, or downloads are switched off.
    """
    if _offline.get():
        raise UserError("downloads are switched off")
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic.temporary(target) as partial, Display(f"downloading {url}", _log.info):
        partial.touch()
        transfer = _Transfer(url, partial)
        transfer.claim(target)
        try:
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    transfer.run()
                    break
                except _Broken as error:
                    if attempt == _ATTEMPTS:
                        raise UserError(f"{error}, {_ATTEMPTS} times; start again") from error
                    _log.info("%s; trying again", error)
                    time.sleep(_WAIT * 2 ** (attempt - 1))
        except BaseException:
            transfer.keep(target)
            raise
        if sha256 is not None and (actual := file_sha256(partial)) != sha256:
            raise UserError(f"{url} has the checksum {actual}, expected {sha256}: the file was changed or damaged")
        atomic.put(partial, target)
    return target


@contextmanager
def no_downloads() -> Iterator[None]:
    """Inside this block every download is an error."""
    token = _offline.set(True)
    try:
        yield
    finally:
        _offline.reset(token)


@contextmanager
def one_at_a_time(folder: Path, what: str) -> Iterator[None]:
    """Lets one process download something into a folder while others wait, who may find it there afterwards.

    Where no file can be locked (no such file system, a folder of others) every process downloads for itself.

    Args:
        folder: folder of the files; created.
        what: name of what is downloaded.

    Raises:
        UserError: downloads are switched off: nobody waits for them then.
    """
    if _offline.get():
        raise UserError("downloads are switched off")
    lock = FileLock(folder / f".download-{hashlib.sha256(what.encode()).hexdigest()[:16]}.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=False)
    except Timeout:
        _log.info("waiting for another process that downloads %s", what)
        lock.acquire()
    except (OSError, NotImplementedError):
        pass
    try:
        yield
    finally:
        lock.release()


class _Broken(Exception):
    """A failure that may be temporary."""


class _Transfer:
    """The transfer of one file. ``version``: the server's ETag or Last-Modified, None where it sends neither."""

    def __init__(self, url: str, partial: Path):
        self.url, self.partial = url, partial
        self.version: str | None = None

    def claim(self, target: Path) -> None:
        """Takes over the partial file of an earlier start (by renaming it: of several processes one gets it)."""
        for left in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
            with suppress(OSError, ValueError):
                version = bytes.fromhex(left.name.split(".")[-2]).decode()
                left.replace(self.partial)
                self.version = version
                return

    def keep(self, target: Path) -> None:
        """Keeps the partial file for the next start, if a version tells whether it is still the same file."""
        if self.version is not None and self.partial.is_file() and self.partial.stat().st_size:
            name = f".{target.name}.{self.version.encode().hex()}.part"
            if len(name) < 250:
                self.partial.replace(target.parent / name)

    def run(self) -> None:
        """One attempt."""
        received = self.partial.stat().st_size
        request = urllib.request.Request(self.url)
        if received and self.version is not None:
            request.add_header("Range", f"bytes={received}-")
            request.add_header("If-Range", self.version)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                goes_on = getattr(answer, "status", None) == 206
                self.version = answer.headers.get("ETag") or answer.headers.get("Last-Modified")
                if (self.version or "").startswith("W/"):  # equal in meaning, not byte by byte
                    self.version = None
                received = received if goes_on else 0
                length = answer.headers.get("Content-Length")
                expected = None if length is None else received + int(length)
                self._receive(answer, received, expected)
        except urllib.error.HTTPError as error:
            if error.code == 416:  # what is here is longer than the file
                self.partial.write_bytes(b"")
            if error.code in _BUSY:
                raise _Broken(f"cannot download {self.url}: {error}") from error
            raise UserError(f"cannot download {self.url}: {error}") from error
        except urllib.error.URLError as error:
            raise UserError(f"cannot download {self.url}: {error}") from error
        except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
            raise _Broken(f"the download of {self.url} broke off ({error or type(error).__name__})") from error

    def _receive(self, answer: Any, received: int, expected: int | None) -> None:
        with self.partial.open("r+b") as file:
            file.truncate(received)
            file.seek(received)
            while block := answer.read(_BLOCK):
                file.write(block)
                received += len(block)
                report(received, expected or 0)
        if expected is not None and received != expected:
            raise _Broken(f"the download of {self.url} broke off after {received} of {expected} bytes")


def download_zip(url: str, folder: Path, members: str) -> None:
    """Fetches an archive and unpacks the files whose name begins with ``members`` into ``folder``, without subfolders.

    Args:
        url: address of the zip file.
        folder: folder of the files; created.
        members: beginning of the names of the files that are unpacked.

    Raises:
        UserError: as :func:`download`; or the archive is damaged or does not hold such files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _archive(url, folder) as (archive, _):
        try:
            with zipfile.ZipFile(archive) as opened:
                chosen = [name for name in opened.namelist() if PurePosixPath(name).name.startswith(members)]
                if not chosen:
                    raise UserError(f"{url} holds no file whose name begins with '{members}'")
                for name in chosen:
                    target = folder / PurePosixPath(name).name
                    with opened.open(name) as source, atomic.replacing(target) as file:
                        shutil.copyfileobj(source, file, _BLOCK)
        except zipfile.BadZipFile as error:
            raise UserError(f"{url} is not a readable zip file: {error}") from error


def download_archive(url: str, folder: Path, strip: int = 0) -> None:
    """Fetches a zip or tar archive and unpacks all of it below ``folder``, with its subfolders.

    Args:
        url: address of the archive.
        folder: folder of the files; created.
        strip: leading folders of every path that are left out.

    Raises:
        UserError: as :func:`download`; or the archive is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _archive(url, folder) as (archive, unpacked):
        try:
            if zipfile.is_zipfile(archive):
                with zipfile.ZipFile(archive) as opened:
                    opened.extractall(unpacked)  # leaves out what points outside
            else:
                with tarfile.open(archive) as packed:
                    packed.extractall(unpacked, filter="data")
        except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
            raise UserError(f"{url} is not a readable zip or tar file: {error}") from error
        for file in sorted(path for path in unpacked.rglob("*") if path.is_file()):
            target = folder.joinpath(*file.relative_to(unpacked).parts[strip:])
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)


@contextmanager
def _archive(url: str, folder: Path) -> Iterator[tuple[Path, Path]]:
    """An archive and an empty folder, both removed at the end; a partial archive is kept for the next start."""
    name = f".download-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
    with tempfile.TemporaryDirectory(dir=folder, prefix=f"{name}-") as scratch:
        for left in folder.glob(f".{name}.*.part"):
            with suppress(OSError):
                left.replace(Path(scratch) / left.name)
        try:
            yield download(url, Path(scratch) / name), Path(scratch) / "unpacked"
        except BaseException:
            for left in Path(scratch).glob(f".{name}.*.part"):
                left.replace(folder / left.name)
            raise
