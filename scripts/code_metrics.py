"""Size and shape of the code: ``python -m scripts.code_metrics [CHECKOUT ...]``, one column per checkout."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LONG_FILE, LONG_FUNCTION = 300, 60


class Function(NamedTuple):
    """A function and how many lines it has."""

    lines: int
    name: str


def metrics(root: Path) -> dict[str, str]:
    """Name of a measure -> value, for one checkout."""
    tracked = _tracked(root)
    sources = {path: (root / path).read_text(encoding="utf-8") for path in tracked if path.suffix == ".py"}
    package = {path: text for path, text in sources.items() if path.parts[0] == "graphbench"}
    trees = {path: ast.parse(text) for path, text in package.items()}
    lines = {path: text.count("\n") for path, text in sources.items()}
    values = {
        "tracked files": f"{len(tracked):,}",
        "tracked lines": f"{sum(_lines(root / path) for path in tracked):,}",
    }
    for folder in sorted({path.parts[0] for path in sources if len(path.parts) > 1}):
        values[f"lines of Python, {folder}"] = f"{_total(lines, (folder,)):,}"
    rooms = sorted({path.parts[1] for path in package if len(path.parts) > 2})
    for room in rooms:
        values[f"lines, graphbench/{room}"] = f"{_total(lines, ('graphbench', room)):,}"
    functions = sorted((found for path, tree in trees.items() for found in _functions(path, tree)), reverse=True)
    values[f"functions above {LONG_FUNCTION} lines"] = str(sum(found.lines > LONG_FUNCTION for found in functions))
    for rank, found in enumerate(functions[:5], 1):
        values[f"longest function, no. {rank}"] = f"{found.lines} {found.name}"
    long_files = [path for path in package if lines[path] > LONG_FILE]
    values[f"package files above {LONG_FILE} lines"] = str(len(long_files))
    for name in ("hasattr", "getattr"):
        values[f"{name}() in the package"] = str(sum(_calls(tree, name) for tree in trees.values()))
    classes = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name[0] != "_"
    )
    values["public class names used twice"] = " ".join(sorted(name for name, n in classes.items() if n > 1)) or "none"
    additions = root / "tests" / "additions"
    for kind in sorted(additions.iterdir()) if additions.is_dir() else ():
        files = [path for path in kind.rglob("*") if path.is_file() and path.suffix in (".py", ".yaml")]
        values[f"files of an addition, {kind.name}"] = str(len(files))
    return values


def _tracked(root: Path) -> list[Path]:
    command = ["git", "-C", str(root), "ls-files"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [Path(name) for name in names if (root / name).is_file()]


def _lines(path: Path) -> int:
    content = path.read_bytes()
    return 0 if b"\0" in content else content.count(b"\n")


def _total(lines: dict[Path, int], prefix: tuple[str, ...]) -> int:
    return sum(count for path, count in lines.items() if path.parts[: len(prefix)] == prefix)


def _functions(path: Path, tree: ast.Module) -> Iterator[Function]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield Function((node.end_lineno or first) - first + 1, f"{node.name} ({path}:{node.lineno})")


def _calls(tree: ast.Module, name: str) -> int:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return sum(isinstance(function, ast.Name) and function.id == name for function in calls)


def main(arguments: Sequence[str]) -> int:
    """Prints a Markdown table."""
    roots = [Path(argument) for argument in arguments] or [ROOT]
    columns = [metrics(root) for root in roots]
    names = list(dict.fromkeys(name for column in columns for name in column))
    print("| Measure | " + " | ".join(root.resolve().name for root in roots) + " |")
    print("|---|" + "---:|" * len(roots))
    for name in names:
        print(f"| {name} | " + " | ".join(column.get(name, "") for column in columns) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
