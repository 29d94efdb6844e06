"""Parser of a command's words: what argparse has, and the nearest option where one is misspelt."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import NoReturn

from graphbench.errors import nearest

_UNRECOGNIZED = "unrecognized arguments: "


def docstring_of(module: Path) -> str:
    """Docstring of a module, read without importing it."""
    return (ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or "").strip()


class CommandParser(argparse.ArgumentParser):
    """A parser whose description, the docstring of a module, is printed with its lines as they are."""

    def __init__(self, prog: str | None = None, description: str | None = None) -> None:
        super().__init__(prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        """Usage and message on standard error, exit code 2; behind it the option most like each unknown one."""
        options = [name for action in self._actions for name in action.option_strings]
        words = message.removeprefix(_UNRECOGNIZED).split() if message.startswith(_UNRECOGNIZED) else []
        meant = (nearest(word.partition("=")[0], options) for word in words if word.startswith("-"))
        hints = "".join(f" Did you mean {hint}?" for hint in dict.fromkeys(meant) if hint is not None)
        super().error(f"{message}.{hints}" if hints else message)
