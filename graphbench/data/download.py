"""Downloads: to a temporary name, checked, then renamed, so that a half-written file is never taken for a whole one."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from graphbench.errors import UserError

_BLOCK = 1 << 20


def file_sha256(path: Path) -> str:
    """Checksum of a file, read in blocks."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            total.update(block)
    return total.hexdigest()


def download(url: str, target: Path, sha256: str | None = None, timeout: float = 30.0) -> Path:
    """Fetches one file.

    Args:
        url: http, https or file address.
        target: where it goes; folders are created.
        sha256: expected checksum, None when unknown.
        timeout: seconds without an answer after which the attempt ends.

    Raises:
        UserError: the address does not answer, or the content is not what was expected.
    """
    with _temporary(target) as partial:
        try:
            with urllib.request.urlopen(url, timeout=timeout) as answer, partial.open("wb") as file:
                shutil.copyfileobj(answer, file, _BLOCK)
                expected = answer.headers.get("Content-Length")
                file.flush()
                os.fsync(file.fileno())
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise UserError(f"cannot download {url}: {error}") from error
        received = partial.stat().st_size
        if expected is not None and received != int(expected):
            raise UserError(f"the download of {url} broke off after {received} of {expected} bytes; start again")
        if sha256 is not None and (actual := file_sha256(partial)) != sha256:
            raise UserError(f"{url} has the checksum {actual}, expected {sha256}: the file was changed or damaged")
        partial.replace(target)
    return target


def download_zip(url: str, folder: Path, members: str, sha256: str | None = None, timeout: float = 30.0) -> None:
    """Fetches an archive and unpacks the files whose name begins with ``members`` into ``folder``, without subfolders.

    Args:
        url: address of the zip file.
        folder: where the files go; created.
        members: beginning of the wanted file names.
        sha256: expected checksum of the archive, None when unknown.
        timeout: seconds without an answer after which the attempt ends.

    Raises:
        UserError: as :func:`download`; or the archive is damaged or does not hold such files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as scratch:
        archive = download(url, Path(scratch) / "archive.zip", sha256, timeout)
        try:
            with zipfile.ZipFile(archive) as opened:
                wanted = [each for each in opened.namelist() if PurePosixPath(each).name.startswith(members)]
                if not wanted:
                    raise UserError(f"{url} holds no file whose name begins with '{members}'")
                for each in wanted:
                    with _temporary(folder / PurePosixPath(each).name) as partial:
                        with opened.open(each) as source, partial.open("wb") as file:
                            shutil.copyfileobj(source, file, _BLOCK)
                        partial.replace(folder / PurePosixPath(each).name)
        except zipfile.BadZipFile as error:
            raise UserError(f"{url} is not a readable zip file: {error}") from error


def download_archive(url: str, folder: Path, strip: int = 0, sha256: str | None = None, timeout: float = 30.0) -> None:
    """Fetches a zip or tar archive and unpacks all of it below ``folder``, with its subfolders.

    Args:
        url: address of the archive.
        folder: where the files go; created.
        strip: leading folders of every path that are left out.
        sha256: expected checksum of the archive, None when unknown.
        timeout: seconds without an answer after which the attempt ends.

    Raises:
        UserError: as :func:`download`; or the archive is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as scratch:
        archive, unpacked = Path(scratch) / "archive", Path(scratch) / "unpacked"
        download(url, archive, sha256, timeout)
        try:
            if zipfile.is_zipfile(archive):
                with zipfile.ZipFile(archive) as opened:
                    opened.extractall(unpacked)  # leaves out what points outside
            else:
                with tarfile.open(archive) as packed:
                    packed.extractall(unpacked, filter="data")
        except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
            raise UserError(f"{url} is not a readable zip or tar file: {error}") from error
        for file in sorted(each for each in unpacked.rglob("*") if each.is_file()):
            target = folder.joinpath(*file.relative_to(unpacked).parts[strip:])
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A name beside ``target`` that no other process uses, removed if it is still there at the end."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    partial = Path(name)
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)
