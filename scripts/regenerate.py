"""Writes everything in the repository that is generated: ``python -m scripts.regenerate [--check]``.

What a test demands after a component, key, configuration, data set or record was added, this one command writes.
``--check`` writes nothing and ends with 1 if a file is out of date.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from graphbench import atomic, registry
from graphbench.command_line import CommandParser
from graphbench.config.components import component_keys
from graphbench.config.schema import GROUPS, SCHEMA, namespaces_of_group
from graphbench.config.settings import released_values
from graphbench.errors import UserError
from scripts import (
    api_reference,
    config_overview,
    config_reference,
    config_tree,
    dataset_pages,
    model_pages,
    notebooks,
    readme_results,
)
from study import claims, reproduction_guide

ROOT = Path(__file__).resolve().parent.parent


def baseline() -> str:
    """The ledger of released values with the keys that are new; what is in it already stays as it is."""
    values = {name: key.default for name, key in SCHEMA.items() if not (key.neutral or key.inert)}
    for group in filter(None, GROUPS):
        for namespace in namespaces_of_group(group):
            for name in registry.names(namespace) if namespace != "encoders/positional" else ():
                if f"{group}.{name}" not in GROUPS:
                    keys = component_keys(registry.lookup(namespace, name))
                    values |= {f"{group}.{name}.{argument}": key.default for argument, key in keys.items()}
    return json.dumps(dict(sorted({**values, **released_values()}.items())), indent=1) + "\n"


GENERATED: Mapping[str, Callable[[], str]] = {
    "graphbench/config/baseline.json": baseline,
    "graphbench/config/tree.py": config_tree.module,
    "docs/config-reference.md": config_reference.reference,
    "datasets/README.md": dataset_pages.page,
    "configs/README.md": config_overview.page,
    "docs/reproducing.md": reproduction_guide.guide,
    "docs/claims.md": claims.page,
    "docs/api.md": api_reference.page,
    "docs/models.md": model_pages.page,
    "README.md": readme_results.page,
    **{f"docs/examples/{page.stem}.ipynb": functools.partial(notebooks.notebook, page) for page in notebooks.pages()},
}
"""File -> its content."""


def main() -> int:
    """Writes, or compares."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file is out of date")
    check = parser.parse_args().check
    stale = []
    for name, content in GENERATED.items():
        path = ROOT / name
        try:
            text = content()
        except UserError as error:
            print(f"error: {name}: {error}", file=sys.stderr)
            return UserError.exit_code
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                atomic.write_text(path, text)
    verb = "out of date" if check else "written"
    print(f"{verb}: {', '.join(stale)}" if stale else "everything is up to date")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
