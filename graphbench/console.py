"""The command ``graphbench``: one word chooses what is done, ``graphbench WORD --help`` says how.

Modules are imported when their word is called: ``--help`` and mistakes in the arguments cost no import of PyTorch.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from graphbench import __version__
from graphbench.errors import nearest

COMMANDS = {
    "train": ("graphbench.cli", "train and evaluate configurations"),
    "list": (
        "graphbench.catalogue",
        "models, layers, encoders, data sets, metrics, configurations and sweeps there are",
    ),
    "check": ("graphbench.explain", "explain a configuration: values, where they come from, what it costs"),
    "prepare": ("graphbench.prepare", "download and process data, compute encodings ahead of time"),
    "sweep": ("graphbench.sweeps.cli", "train what a table needs, or search for settings"),
    "tables": ("graphbench.tables.cli", "tables from runs, beside published values"),
    "report": ("graphbench.report.cli", "one HTML page from runs"),
    "plots": ("graphbench.plots.cli", "figures from runs"),
    "predict": ("graphbench.predict.cli", "predictions of trained models on new graphs"),
    "export": ("graphbench.predict.export", "a trained model as a folder to hand on"),
    "bench": ("graphbench.benchmarks.cli", "measure this implementation against others"),
    "reproduce": ("graphbench.reproduce", "train and print the tables of one paper"),
    "audit": ("graphbench.runs.audit", "list run records that need a second look"),
    "pack": ("graphbench.runs.pack", "pack run records into one file"),
}
"""Word -> module whose ``main(arguments)`` does it, and one line."""

_COMPLETION = """\
_graphbench() {{
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{words}" -- "${{COMP_WORDS[1]}}"))
    else
        COMPREPLY=($(compgen -f -- "${{COMP_WORDS[$COMP_CWORD]}}"))
    fi
}}
complete -o filenames -F _graphbench graphbench
"""


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
    sys.argv = [f"graphbench {word}", *rest]  # what argparse prints as the program's name
    command = importlib.import_module(COMMANDS[word][0])
    code: int = command.main(rest)
    return code


def _usage() -> str:
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
            "graphbench COMMAND --help says more; graphbench --version; graphbench completion bash|zsh prints what the",
            'shell reads: eval "$(graphbench completion bash)".',
        ]
    )


def _completion(rest: Sequence[str]) -> int:
    if list(rest) not in (["bash"], ["zsh"]):
        print(f"error: completion takes bash or zsh, received '{' '.join(rest)}'.", file=sys.stderr)
        return 2
    head = "autoload -U +X bashcompinit && bashcompinit\n" if rest[0] == "zsh" else ""
    print(head + _COMPLETION.format(words=" ".join([*COMMANDS, "completion"])), end="")
    return 0
