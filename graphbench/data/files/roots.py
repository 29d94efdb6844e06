"""Look-up order of raw files, and the folder of processed data.

1. ``dataset.dir``; 2. every folder in ``$GRAPHBENCH_DATA`` (':'-separated, only ever read); 3. download into
``dataset.dir``. Processed data and encodings go to ``$GRAPHBENCH_CACHE``, default ``<dataset.dir>/.cache``; where that
may only be read, to a folder of the user's cache (``$XDG_CACHE_HOME/graphbench``, default ``~/.cache/graphbench``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphbench.data.files.download import download, one_at_a_time
from graphbench.errors import UserError, naming
from graphbench.exit_codes import is_exhausted


@dataclass(frozen=True)
class Roots:
    """The data folders of one run.

    Attributes:
        directory: ``dataset.dir``: looked at first, and the only place downloads go to.
        shared: further folders with raw data, never written to.
        cache: folder for processed data and encodings.
    """

    directory: Path
    shared: tuple[Path, ...]
    cache: Path

    @classmethod
    def from_environment(cls, directory: str | Path) -> Roots:
        """Reads ``$GRAPHBENCH_DATA`` and ``$GRAPHBENCH_CACHE``.

        Args:
            directory: ``dataset.dir``.
        """
        home = Path(directory).expanduser()
        shared = [Path(name).expanduser() for name in os.environ.get("GRAPHBENCH_DATA", "").split(os.pathsep) if name]
        cache = os.environ.get("GRAPHBENCH_CACHE")
        return cls(home, tuple(shared), Path(cache).expanduser() if cache else _cache_below(home))

    def find(self, *files: str) -> Path | None:
        """The first root that holds all the given files, or None.

        Args:
            files: paths relative to a root.
        """
        for root in (self.directory, *self.shared):
            if all((root / file).is_file() for file in files):
                return root
        return None

    def require(
        self,
        what: str,
        files: Sequence[str],
        urls: Mapping[str, str] | None = None,
        sha256: Mapping[str, str] | None = None,
        fetch: Callable[[Path], None] | None = None,
    ) -> Path:
        """The root that holds all the given files, downloading what no root has.

        Args:
            what: the data set, for messages.
            files: paths relative to a root.
            urls: addresses that each file can be downloaded from.
            sha256: checksums by file, as far as known.
            fetch: instead of ``urls``: puts the files below the folder it is given (archives).

        Raises:
            UserError: the files are nowhere and cannot be downloaded; says which and where to put them by hand.
            OSError: the disk is full.
        """
        root = self.find(*files)
        if root is not None:
            return root
        try:
            absent = {} if fetch is not None else self._known(files, urls or {})
            with naming(self.directory), one_at_a_time(self.directory, what):
                root = self.find(*files)
                if root is not None:  # another process was first
                    return root
                if fetch is not None:
                    fetch(self.directory)
                for file, url in absent.items():
                    download(url, self.directory / file, (sha256 or {}).get(file))
        except (OSError, UserError) as error:
            if is_exhausted(error):  # no file put there by hand would help
                raise
            raise UserError(self._missing(what, files, urls or {}, str(error))) from error
        return self.directory

    def _known(self, files: Sequence[str], urls: Mapping[str, str]) -> dict[str, str]:
        """Addresses of the files that the own folder lacks."""
        absent = [file for file in files if not (self.directory / file).is_file()]
        without = [file for file in absent if file not in urls]
        if without:
            raise UserError(f"no download is known for {', '.join(without)}")
        return {file: urls[file] for file in absent}

    def _missing(self, what: str, files: Sequence[str], urls: Mapping[str, str], reason: str) -> str:
        absent = [file for file in files if not (self.directory / file).is_file()]
        looked = ", ".join(str(root) for root in (self.directory, *self.shared))
        listed = "".join(f"\n  {file}" + (f"   from {urls[file]}" if file in urls else "") for file in absent)
        return (
            f"the raw files of {what} are in none of {looked}, and downloading failed ({reason}). Put these files "
            f"below {self.directory} (dataset.dir) or below a folder named in $GRAPHBENCH_DATA:{listed}"
        )


def _cache_below(home: Path) -> Path:
    cache = home / ".cache"
    existing = next(folder for folder in (cache, *cache.absolute().parents) if folder.exists())
    if not existing.is_dir() or os.access(existing, os.W_OK | os.X_OK):
        return cache
    try:
        own = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "graphbench"
    except RuntimeError:  # a user without a home, as containers have them
        raise UserError(
            f"{existing} may only be read, and there is no home: name a cache in GRAPHBENCH_CACHE."
        ) from None
    return own / hashlib.sha256(str(cache.resolve()).encode()).hexdigest()[:16]
