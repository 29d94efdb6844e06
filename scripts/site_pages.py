"""Hook of MkDocs: the pages of the site are files of the repository at their own paths, so that links work in both.

``mkdocs.yml`` names the pages; everything else that a page links to (a YAML file, a table, a licence) is copied along.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from graphbench import __version__

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


STYLE = """\
.md-grid { max-width: 84rem; } /* lines of 120 characters and wide tables of results are not cut */
.md-typeset table:not([class]) { font-size: .68rem; }
.md-typeset table:not([class]) th, .md-typeset table:not([class]) td { min-width: 0; padding: .5em .8em; }
"""


def on_config(config: Any) -> Any:
    """The version, at the foot of every page."""
    config["copyright"] = f"graphbench {__version__}"
    return config


def on_files(files: Files, config: Any) -> Files:
    """Replaces the files of ``docs_dir`` by the pages of ``nav`` and what they link to."""
    pages = Files([file for file in files if file.src_dir != config["docs_dir"]])
    pages.append(File.generated(config, "assets/site.css", content=STYLE))
    waiting, known = _pages(config["nav"]), set()
    while waiting:
        path = waiting.pop()
        if path in known or not (ROOT / path).is_file():
            continue
        known.add(path)
        pages.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
        if path.endswith(".md"):
            linked = _LINK.findall((ROOT / path).read_text(encoding="utf-8"))
            targets = [(ROOT / path).parent.joinpath(link).resolve() for link in linked]
            waiting += [target.relative_to(ROOT).as_posix() for target in targets if target.is_relative_to(ROOT)]
    return pages


def _pages(nav: Any) -> list[str]:
    """Paths anywhere in the navigation."""
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [path for entry in entries for path in _pages(entry)]
