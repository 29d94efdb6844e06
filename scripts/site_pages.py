"""Hook of MkDocs: the pages of the site are files of the repository at their own paths, so that links work in both.

``mkdocs.yml`` names the pages; everything else that a page links to (a YAML file, a table, a licence) is copied along.
The API is written by mkdocstrings from signatures and docstrings, a page per group of ``scripts.api_reference``; where
the site has these, the repository has one page, ``docs/api.md``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from graphbench import __version__
from scripts.api_reference import SECTIONS, members

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
_ROLE = re.compile(r":\w+:<code>~?(?:[\w.]*\.)?(\w+)</code>")
API = {  # page -> headings of scripts.api_reference
    "runs": ("Configurations, models, runs", "Trained models"),
    "layers": ("Layers on plain tensors",),
    "operators": tuple(title for title in SECTIONS if title.startswith("Operators")),
    "batches": ("Batches",),
    "base-classes": tuple(title for title in SECTIONS if title.startswith(("Base class", "Abilities", "Registering"))),
}


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
    listed = "".join(f"- [{name.capitalize().replace('-', ' ')}](api/{name}.md)\n" for name in API)
    written = {f"docs/api/{name}.md": _api(name, titles) for name, titles in API.items()}
    written["docs/api.md"] = f"# API\n\nFrom signatures and docstrings:\n\n{listed}"
    for path, content in written.items():
        pages.append(File.generated(config, path, content=content))
    waiting, known = _pages(config["nav"]), set(written)
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


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Docstrings name other objects by Sphinx roles, which Markdown does not know."""
    return _ROLE.sub(r"<code>\1</code>", html) if page.file.src_uri.startswith("docs/api/") else html


def _api(name: str, titles: tuple[str, ...]) -> str:
    """A page of directives for mkdocstrings."""
    sections = [f"## {title}\n\n" + "".join(f"::: {path}\n\n" for path in members(title)) for title in titles]
    return f"# {name.capitalize().replace('-', ' ')}\n\n" + "\n".join(sections)


def _pages(nav: Any) -> list[str]:
    """Paths anywhere in the navigation."""
    if isinstance(nav, str):
        return [nav]
    entries = nav.values() if isinstance(nav, dict) else nav
    return [path for entry in entries for path in _pages(entry)]
