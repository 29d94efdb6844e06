"""The command ``graphbench``: one word chooses what is done, ``graphbench WORD --help`` says how.

Modules are imported when their word is called: ``--help`` and mistakes in the arguments cost no import of PyTorch.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from graphbench import __version__
from graphbench.errors import nearest

COMMANDS = {
    "train": ("graphbench.commands.train", "train and evaluate configurations"),
    "list": (
        "graphbench.commands.list",
        "models, layers, encoders, data sets, metrics, configurations and sweeps there are",
    ),
    "check": ("graphbench.commands.check", "explain a configuration: values, where they come from, what it costs"),
    "prepare": ("graphbench.commands.prepare", "download and process data, compute encodings ahead of time"),
    "sweep": ("graphbench.sweeps.cli", "train what a table needs, or search for settings"),
    "tables": ("graphbench.tables.cli", "tables from runs, beside published values"),
    "report": ("graphbench.report.cli", "one HTML page from runs"),
    "plots": ("graphbench.plots.cli", "figures from runs"),
    "predict": ("graphbench.predict.cli", "predictions of trained models on new graphs"),
    "export": ("graphbench.predict.export", "a trained model as a folder to hand on"),
    "bench": ("graphbench.benchmarks.cli", "measure this implementation against others"),
    "reproduce": ("graphbench.commands.reproduce", "train and print the tables of one paper"),
    "audit": ("graphbench.runs.audit", "list run records that need a second look"),
    "pack": ("graphbench.runs.pack", "pack run records into one file"),
}
"""Word -> module whose ``main(arguments)`` does it, and one line."""

NAMED = {"train": "configs", "check": "configs", "prepare": "configs", "sweep": "sweeps", "list": "topics"}
"""Words whose arguments may be shipped names, and which."""
OVERRIDING = ("train", "check", "sweep")
"""Words that take KEY VALUE behind the names."""

_BASH = """\
_graphbench() {{
    local word="${{COMP_WORDS[1]}}" current="${{COMP_WORDS[$COMP_CWORD]}}"
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{words}" -- "$current"))
    elif [[ "$current" == -* ]]; then
        COMPREPLY=($(compgen -W "$(graphbench "$word" --help 2>/dev/null | grep -oE -- '--[a-z_]+')" -- "$current"))
    else
        local names="$(graphbench completion names "$word" "${{COMP_WORDS[$COMP_CWORD-1]}}" 2>/dev/null)"
        COMPREPLY=($(compgen -W "$names" -- "$current") $(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _graphbench graphbench
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n" + _BASH
_FISH = """\
complete -c graphbench -n __fish_use_subcommand -f -a "{words}"
complete -c graphbench -n "__fish_seen_subcommand_from {named}" \\
    -a "(graphbench completion names (commandline -opc)[2 -1])"
"""
EVAL = 'eval "$(graphbench completion bash)"'
SHELLS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def main(arguments: Sequence[str] | None = None) -> int:
    """Calls the command; returns its exit code (0 done, 2 wrong input, others as the command says)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    word, rest = (given[0], given[1:]) if given else ("--help", [])
    if word in ("-h", "--help"):
        print(_usage())
        return 0
    if word in ("-V", "--version"):
        print(f"graphbench {__version__}")
        return 0
    if word == "completion":
        return _completion(rest)
    if word not in COMMANDS:
        hint = nearest(word, COMMANDS)
        print(
            f"error: unknown command '{word}'."
            + (f" Did you mean '{hint}'?" if hint else "")
            + f" Allowed: {', '.join(COMMANDS)}.",
            file=sys.stderr,
        )
        return 2
    before, sys.argv = sys.argv, [f"graphbench {word}", *rest]  # what argparse prints as the program's name
    try:
        code: int = importlib.import_module(COMMANDS[word][0]).main(rest)
    finally:
        sys.argv = before  # a program that calls this is not the command afterwards
    return code


def _usage() -> str:
    from graphbench import shipped

    width = max(map(len, COMMANDS))
    lines = [f"  {word.ljust(width)}  {about}" for word, (_, about) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: graphbench COMMAND ...",
            "",
            "A config-driven benchmark framework for graph transformers.",
            "",
            *lines,
            "",
            "graphbench COMMAND --help says more; graphbench --version; graphbench completion bash|zsh|fish prints",
            f"what the shell reads: {EVAL}.",
            f"Guides, which help texts name as docs/...: {shipped.root() / 'docs'}",
        ]
    )


def _completion(rest: Sequence[str]) -> int:
    """A shell's script, or ``names WORD BEFORE``: what its script asks for, ``BEFORE`` the word before the cursor's."""
    given = list(rest)
    if given[:1] == ["names"]:
        word, before = (*given, "", "")[1:3]
        print("\n".join(_names(word, before)))
        return 0
    if given in (["--help"], ["-h"]):
        print(f"usage: graphbench completion {'|'.join(SHELLS)}\n\nPrints what the shell reads, e.g. {EVAL}")
        return 0
    if len(given) != 1 or given[0] not in SHELLS:
        print(f"error: completion takes {', '.join(SHELLS)}, received '{' '.join(given)}'.", file=sys.stderr)
        return 2
    print(SHELLS[given[0]].format(words=" ".join([*COMMANDS, "completion"]), named=" ".join(NAMED)), end="")
    return 0


def _names(word: str, before: str) -> list[str]:
    """Shipped names, read from the folders alone, and keys for commands that take them; behind a key its values."""
    from graphbench import shipped

    kind = NAMED.get(word)
    if kind == "topics":
        return list(importlib.import_module("graphbench.commands.list").TOPICS)
    if kind is None:
        return []
    names = [path.stem for path in (shipped.sweeps() if kind == "sweeps" else shipped.configurations())]
    if word not in OVERRIDING:
        return names
    schema: Mapping[str, Any] = importlib.import_module("graphbench.config.schema").SCHEMA

    if before in schema:
        key = schema[before]
        return ["true", "false"] if key.kind is bool else [str(value) for value in key.allowed or ()]
    return [*names, *(name for name, key in schema.items() if not key.inert)]
