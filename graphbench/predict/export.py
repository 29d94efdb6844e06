"""A run as a folder to hand on: ``graphbench export RUN --out FOLDER``.

The folder has the parameters of the best epoch (``model.safetensors``), the complete configuration and its plug-ins
(but for installed ones and those outside the project, which it names), what the data looked like, the record with
scores, software and hardware, and a ``README.md`` in the form of a model card that says where the model comes from.
``load_run(FOLDER)`` predicts with it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphbench import atomic, plug_ins
from graphbench.command_line import CommandParser
from graphbench.errors import UserError
from graphbench.exit_codes import exit_codes
from graphbench.plug_ins import CONSENT
from graphbench.runs import json_text

_INSTALLED = "of an installed package, which has to be installed where the folder is opened"
_RUN = "registered by a notebook or script, which has to be run where the folder is opened"

if TYPE_CHECKING:
    from graphbench.config import Config
    from graphbench.predict.trained import TrainedModel
    from graphbench.runs.record import RunRecord


@exit_codes
def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the folder."""
    parser = CommandParser(description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of one run: results/<config>/<run>")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="must not exist")
    parser.add_argument(
        "--program",
        action="store_true",
        help="with model.pt2: the model as a program of torch.export for one graph",
    )
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="with model.pt2 and model.aoti.pt2: the program compiled ahead of time (AOTInductor) for this processor",
    )
    options = parser.parse_args(arguments)
    export(options.run, options.out, program=options.program, compiled=options.compiled)
    print(f"wrote {options.out}: {', '.join(sorted(path.name for path in options.out.iterdir()))}")
    return 0


def export(run: str | Path, out: str | Path, *, program: bool = False, compiled: bool = False) -> None:
    """Writes the folder of one run.

    Args:
        run: ``results/<config>/<run>``.
        out: a folder that does not exist.
        program: write ``model.pt2`` as well (:mod:`graphbench.predict.program`).
        compiled: write ``model.pt2`` and what AOTInductor makes of it, ``model.aoti.pt2``.

    Raises:
        UserError: no such run, several, or the folder exists.
    """
    import torch

    from graphbench.predict.trained import load_run, record_of
    from graphbench.structures.data_info import FILE as INFO_FILE
    from graphbench.train.exported import exported
    from graphbench.train.hub import PARAMETERS
    from graphbench.train.pretrained import components_of_programs

    out = Path(out)
    if out.exists():
        raise UserError(f"--out {out}: exists already.")
    trained = load_run(run)
    folder, model = trained.run
    record = record_of(folder)
    # Copies: safetensors refuses tensors that share memory, as tied parameters do.
    state = {name: value.clone(memory_format=torch.contiguous_format) for name, value in model.state_dict().items()}
    with atomic.making_folder(out) as made:
        differences = _write_programs(trained, made, compiled) if program or compiled else {}
        (made / PARAMETERS).write_bytes(exported(state, record))  # save_file lets nobody but its user read
        shutil.copy(folder / "record.json", made)
        shutil.copy(folder / "config.yaml", made)
        for name, source in trained.config.code_files.items():
            if (made / name).resolve().is_relative_to(made.resolve()):
                (made / name).parent.mkdir(parents=True, exist_ok=True)
                (made / name).write_bytes(source)
        needed = [name for name in trained.config.tree.plugins if not _lies_in(name, made)]
        unkept = _unkept(trained.config, components_of_programs(folder))
        info = json_text.dumps_with_checksum({**trained.info.plain(), "data": record.fingerprint})
        (made / INFO_FILE).write_text(info, encoding="utf-8")
        (made / "README.md").write_text(
            _card(record, trained.info.name, trained.config.tree.plugins, needed, unkept), encoding="utf-8"
        )
    if needed:
        print(f"{out}: without {', '.join(needed)}: installed or outside the project, and needed where it is opened")
    for reason, names in unkept.items():
        print(f"{out}: without {names}: {reason}")
    for name, difference in differences.items():
        print(f"{out / name}: differs from the model by at most {difference:.1e} of the largest output")


def _unkept(config: Config, names: Sequence[str]) -> dict[str, str]:
    """What is said of components whose code the folder does not have -> their names."""
    from graphbench.config.components import components_of_users

    classes, found = components_of_users(config.values), dict[str, list[str]]()
    for name in names:
        reason = _INSTALLED if plug_ins.of_installed(classes[name].__module__) else _RUN
        found.setdefault(reason, []).append(name)
    return {reason: ", ".join(of_reason) for reason, of_reason in found.items()}


def _lies_in(plugin: str, folder: Path) -> bool:
    """Whether a folder has the file, module or package of a plug-in."""
    path = plugin if plugin.endswith(".py") else plugin.replace(".", "/")
    files = (folder / path, folder / f"{path}.py", folder / path / "__init__.py")
    return any(file.is_file() and file.resolve().is_relative_to(folder.resolve()) for file in files)


def _write_programs(trained: TrainedModel, folder: Path, compiled: bool) -> dict[str, float]:
    """Largest differences of the written programs from the model, by file."""
    from graphbench.predict.program import COMPILED, FILE, write_compiled, write_program

    differences = {FILE: write_program(trained, folder / FILE)}
    if compiled:
        differences[COMPILED] = write_compiled(trained, folder / FILE, folder / COMPILED)
    return differences


def _card(
    record: RunRecord, dataset: str, plugins: Sequence[str], needed: Sequence[str], unkept: Mapping[str, str]
) -> str:
    """The model card: scores, configuration, provenance, and the code that it needs."""
    from graphbench.runs.split_text import split_texts

    facts = record.environment
    split = split_texts([record.data], ",")[0]
    scores = "\n".join(f"| {score.split} | {score.name} | {score.value:.6g} |" for score in record.scores)
    packages = ", ".join(f"{name} {version}" for name, version in (facts.get("packages") or {}).items())
    code = [
        *([f"Runs code of its plug-ins, {', '.join(plugins)}, where {CONSENT}=1 allows it."] if plugins else []),
        *([f"Needs {', '.join(needed)}, not in this folder."] if needed else []),
        *(f"Needs {names}: {reason}." for reason, names in unkept.items()),
    ]
    needs = "".join(f"\n{sentence}\n" for sentence in code)
    return f"""---
library_name: graphbench
tags: [graph-transformer, graph-ml]
---

# {record.config}, run {record.run_id}

Trained on {dataset} (split {split}, data fingerprint
{str(record.data.fingerprint)[:12]}); parameters of epoch {record.best_epoch}, the best by validation
{record.selected_by}. {record.params or 0:,} trainable parameters, configuration {record.config_hash}, seed
{record.seed}.

| split | metric | value |
|---|---|---|
{scores}

```python
import graphbench

model = graphbench.load_run("path/to/this/folder")
predictions = model.predict(graphs)
```
{needs}
Made {record.ended or ""} by graphbench {", ".join(record.all_commits)} on {facts.get("gpu") or facts.get("cpu")};
Python {facts.get("python")}, {packages}.
"""
