"""Names of components, read from the text of the modules that register them: nothing is imported to find one."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from graphbench.errors import UserError

_PACKAGE = Path(__file__).parents[1]
_LONGEST = 50
"""Lines of a decorator."""
_REGISTER = re.compile(r"^@(?=(?:[\w.]+\.)?register\()", re.MULTILINE)


def modules_by_name(namespace: str) -> Mapping[str, str]:
    """Name -> module that registers it, read from the text of the modules of a namespace."""
    return _read_sources(str(namespace))  # a Namespace and its path are one entry


@functools.cache
def _read_sources(namespace: str) -> Mapping[str, str]:
    modules: dict[str, str] = {}
    for file in sorted((_PACKAGE / namespace).rglob("*.py")):  # files, not modules: looking for a name imports nothing
        parts = file.relative_to(_PACKAGE.parent).with_suffix("").parts
        modules.update(dict.fromkeys(registered_names(file), ".".join(parts).removesuffix(".__init__")))
    return modules


def registered_names(file: Path) -> list[str]:
    """Names that a module registers.

    Raises:
        UserError: one of them is no literal string.
    """
    found, text = [], file.read_text(encoding="utf-8")
    for decorator in _REGISTER.finditer(text):
        call = _first_expression(text[decorator.end() :])
        if not isinstance(call, ast.Call):
            continue  # a file that cannot be imported
        given = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "name")]
        for name in given:
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                line = text.count("\n", 0, decorator.start()) + name.lineno
                raise UserError(
                    f"{file}:{line}: names in @register are literal strings here, because they are read without "
                    f"importing the file; received {ast.unparse(name)}."
                )
            found.append(name.value)
    return found


def _first_expression(text: str) -> ast.expr | None:
    """The expression that the first lines of a text are, as few as possible; None for none or a long one."""
    lines = text.splitlines(keepends=True)[:_LONGEST]
    for end in range(1, len(lines) + 1):
        with suppress(SyntaxError):
            return ast.parse("".join(lines[:end]), mode="eval").body
    return None
