"""Content of graphbench/config/tree.py from the schema; written by ``python -m scripts.regenerate``."""

from __future__ import annotations

from collections.abc import Mapping

from graphbench.config.data_keys import ENCODINGS
from graphbench.config.key import Key
from graphbench.config.schema import GROUPS

HEAD = '''"""Types of a configuration's tree, generated from the schema by ``python -m scripts.regenerate``.

What ``config.tree.optim.base_lr`` is, for type checkers and editors; at run time the tree is a frozen ``CfgNode``. Keys
without effect, sections of components and those of encodings are not in it: nothing reads the first, and
:meth:`Config.value <graphbench.config.Config.value>` gives the others by name.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol
'''

LINE_LENGTH = 120


def module() -> str:
    """The whole module: a protocol per group, those that others contain first."""
    fields: dict[str, dict[str, str]] = {}
    for group in sorted(GROUPS.keys() - ENCODINGS.keys()):
        fields[group] = {name: annotation(key) for name, key in GROUPS[group].items() if not key.inert}
        if group and fields[group]:
            above, _, last = group.rpartition(".")
            fields[above][last] = class_name(group)
    inner_first = sorted(filter(None, fields), key=lambda group: -group.count("."))
    return "\n\n".join([HEAD, *(_protocol(group, fields[group]) for group in [*inner_first, ""] if fields[group])])


def _protocol(group: str, fields: Mapping[str, str]) -> str:
    about = f"Keys below ``{group}``." if group else "All keys, by group."
    lines = [f"class {class_name(group)}(Protocol):", f'    """{about}"""', ""]
    for name, text in fields.items():
        line = f"    {name}: {text}"
        if len(line) > LINE_LENGTH:  # as the formatter breaks it
            line = line.replace("[", "[\n        ").replace(", ", ",\n        ").replace("]", ",\n    ]")
        lines.append(line)
    return "\n".join(lines) + "\n"


def class_name(group: str) -> str:
    """``gt.attn`` -> ``GtAttn``, the whole tree -> ``Tree``."""
    return "".join(part.capitalize() for part in group.split(".")) or "Tree"


def annotation(key: Key) -> str:
    """The type that a checked value of a key has, as it is written."""
    if key.kind is list:
        text = f"list[{key.item.__name__ if key.item else 'Any'}]"
    elif key.allowed and not (key.pattern or key.extra or key.namespaces):
        text = f"Literal[{', '.join(map(repr, key.allowed))}]".replace("'", '"')
    else:
        text = key.kind.__name__
    return f"{text} | None" if key.optional else text
