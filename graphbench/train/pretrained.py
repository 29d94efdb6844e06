"""A model that starts from a finished run: which file, which of its parameters, and what stays fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor, nn

from graphbench.contract import head_prefixes
from graphbench.errors import UserError, first_line
from graphbench.runs.identity import COMPONENT, RunIdentity, code_inputs, described
from graphbench.runs.record import RunRecord
from graphbench.train.checkpointer import DAMAGED, FORMAT, check_run, read_checkpoint
from graphbench.train.exported import read_exported
from graphbench.train.hub import PARAMETERS, local_folder


def find_run(folder: Path | str, run_id: str | int) -> Path:
    """The run directory that ``pretrained.dir`` means: itself, or the run of the same number below it.

    Args:
        folder: a run directory, one that ``graphbench export`` has written (on the Hub, too: ``hf://user/name``), or
            that of a configuration with one folder per run.
        run_id: number of the run that is about to start; a single run below ``folder`` serves every number.

    Raises:
        UserError: there is none, or several and none of that number, or it is a run of GraphGPS.
    """
    folder = local_folder(folder)
    if (folder / PARAMETERS).is_file():
        return folder
    folders = [path for path in folder.iterdir() if (path / "ckpt").is_dir()] if folder.is_dir() else []
    runs = {path.name: path for path in folders if ".old-" not in path.name}  # not those that were set aside
    run = folder if (folder / "ckpt").is_dir() else runs.get(str(run_id))
    if run is None and len(runs) == 1:
        (run,) = runs.values()
    if run is None:
        content = (
            f"it holds the runs {', '.join(sorted(runs))}: name one of them."
            if runs
            else "it holds no run. Train one first: graphbench train NAME.yaml leaves it in results/NAME."
        )
        raise UserError(f"pretrained.dir: {folder} is no run directory, and {content}")
    if not (run / "ckpt" / "best.ckpt").is_file():
        of_graphgps = sorted(path for path in (run / "ckpt").iterdir() if path.stem.isdigit())
        if of_graphgps:
            raise UserError(
                f"pretrained.dir: {of_graphgps[-1]} was written by GraphGPS (GraphGym), whose parameters have other "
                "names; it cannot be loaded here. Train the configuration with this package first."
            )
        raise UserError(
            f"pretrained.dir: {run / 'ckpt'} has no best.ckpt: it was removed, the run has not evaluated an epoch "
            "yet, or was made with train.enable_ckpt False."
        )
    return run


def read_best_of(folder: Path | str, run_id: str | int) -> tuple[Path, dict[str, Any]]:
    """:func:`find_run` and :func:`read_best` for a command that is given the folder: messages do not name the key."""
    try:
        run = find_run(folder, run_id)
        return run, read_best(run)
    except UserError as error:
        raise UserError(str(error).removeprefix("pretrained.dir: ")) from None


def read_best(run: Path) -> dict[str, Any]:
    """``epoch``, ``metric``, ``value`` and ``model`` of a run's best epoch.

    Raises:
        UserError: the file is damaged, of another version or of another run than its record.
    """
    exported, path = run / PARAMETERS, run / "ckpt" / "best.ckpt"
    if exported.is_file():
        return _exported(exported)
    try:
        content, record = read_checkpoint(path), RunRecord.read(run / "record.json")
        check_run(content, record)
    except DAMAGED as error:
        reason = first_line(error)
        raise UserError(f"pretrained.dir: {path} is damaged or no checkpoint of this run ({reason}).") from error
    if content.get("format") != FORMAT or "model" not in content:
        raise UserError(
            f"pretrained.dir: {path} has format {content.get('format')}, this version reads format {FORMAT}."
        )
    if record is not None and record.status == "finished" and content["epoch"] != record.best_epoch:
        raise UserError(
            f"pretrained.dir: {path} is of epoch {content['epoch']}, and the best one of the run is "
            f"{record.best_epoch}, which was trained with train.enable_ckpt false: nobody has its weights."
        )
    return content


def _exported(file: Path) -> dict[str, Any]:
    record = RunRecord.read(file.with_name("record.json"))
    try:
        content = read_exported(file)
        check_run(content, record)
    except (OSError, SafetensorError, *DAMAGED) as error:
        raise UserError(f"pretrained.dir: {file} is damaged or not of this run ({first_line(error)}).") from error
    return {"epoch": -1 if record is None else record.best_epoch, "model": content["model"]}


def check_configuration(
    run: Path, settings: Mapping[str, Any], code: Mapping[str, bytes], components: Mapping[str, bytes]
) -> None:
    """Refuses a ``config.yaml``, or plug-ins beside it, that are not those of the run's record.

    Args:
        run: folder of a run, or one that ``graphbench export`` has written.
        settings: settings of the configuration in its ``config.yaml``.
        code: sources of its plug-ins by name.
        components: sources of components that no plug-in brings, by name.

    Raises:
        UserError: saying what differs.
    """
    record = RunRecord.read(run / "record.json")
    if record is None:
        return
    others = record.identity.differences(RunIdentity(record.config_hash, code_inputs(code, components)))
    different = record.other_settings(settings) or (others and f"another {described(others)}")
    if different:
        raise UserError(
            f"{run / 'config.yaml'}: not what this run was trained with: {different}. It was edited since, damaged, or "
            "belongs to another run; put back the run's own."
        )


def components_of_programs(run: Path) -> list[str]:
    """Names of components of a run that no plug-in brings, but an installed package, a notebook or a script.

    Args:
        run: folder of a run, or one that ``graphbench export`` has written.
    """
    record = RunRecord.read(run / "record.json")
    inputs = {} if record is None else record.identity.inputs
    return [name.removeprefix(COMPONENT) for name in inputs if name.startswith(COMPONENT)]


def check_base(folder: str, run_id: int, base: str) -> None:
    """Refuses to start before the run has finished that is to be started from, or from another one.

    Args:
        folder: ``pretrained.dir``.
        run_id: number of the run that starts.
        base: folder of the run that it is to start from.

    Raises:
        UserError: saying which run is missing.
    """
    record = RunRecord.read(Path(base, "record.json"))
    status = "no record" if record is None else record.status
    if status != "finished":
        raise UserError(f"the run that it starts from has not finished: {base} ({status}).")
    if not find_run(folder, run_id).samefile(base):  # the only one there has a checkpoint
        raise UserError(f"the run that it starts from has no checkpoint: {base}.")


def warnings(run: Path) -> list[str]:
    """Sentences for the log about a run that gives its parameters; none where it is finished."""
    record = RunRecord.read(run / "record.json")
    if record is None or record.status == "finished":
        return []
    return [f"pretrained: {run} is not finished ({record.status}); a later epoch of it may be better"]


def load_parameters(
    model: nn.Module,
    stored: Mapping[str, Tensor],
    *,
    reset_head: bool,
    complete: bool = False,
    only: Sequence[str] = (),
) -> list[str]:
    """Copies every parameter and buffer that both models have.

    Tables of categories (embeddings) may differ in their number of rows, because vocabularies grow at their end (OGB's
    chirality has 5 classes since ogb 1.3.6, 4 before): common rows are copied, further ones stay as initialised.

    Args:
        model: just built.
        stored: the other model's ``state_dict``.
        reset_head: leave the head as it was initialised.
        complete: the model is applied as it is: refuse one with parameters that nothing has trained.
        only: patterns of the names of parameters to copy; empty: all.

    Returns:
        Sentences for the log: what was copied, which tables in part, which parameters only one of the models has.

    Raises:
        UserError: a shape differs in another way, the models share nothing, ``complete`` and one lacks a parameter, or
            there is no head to reset.
    """
    heads = head_prefixes(model)
    if reset_head and not heads:
        raise UserError(f"pretrained.reset_prediction_head: {_without_head(model)}")
    parameters = model.state_dict()  # shares memory with the model
    tables = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Embedding)}
    wanted = {name for name in parameters if not (reset_head and name.startswith(heads))}
    offered = {name for name in stored if not (reset_head and name.startswith(heads))}
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in wanted & offered):
            reset = reset_head and any(fnmatchcase(name, pattern) for name in {*parameters} & {*stored})
            raise UserError(
                f"pretrained.parameters: '{pattern}' is of the head, which pretrained.reset_prediction_head leaves as "
                "it was initialised."
                if reset
                else f"pretrained.parameters: no parameter that both models have is called '{pattern}'."
            )
    if only:
        offered = {name for name in offered if any(fnmatchcase(name, pattern) for pattern in only)}
    shared = sorted(wanted & offered)
    if all(name.startswith(heads) for name in shared):
        raise UserError(
            "pretrained.dir: the two models share no parameter outside the head; is it a run of another model.type?"
        )
    _check_shapes(parameters, stored, shared, tables, heads)
    untrained = sorted(wanted - offered)
    untrained += [name for name in shared if parameters[name].shape[:1] > stored[name].shape[:1]]
    if complete and untrained:
        raise UserError(
            f"pretrained.dir: {len(untrained)} parameters of this model are not in the checkpoint and would predict "
            f"untrained: {', '.join(untrained[:8])}{', ...' if len(untrained) > 8 else ''}. Leave the keys of the "
            "architecture out, so that they are those of the pretrained run."
        )
    notes = [f"pretrained: {len(shared)} parameters and buffers copied"]
    for name in shared:
        target, source = parameters[name], stored[name]
        if target.shape == source.shape:
            target.copy_(source)
            continue
        rows = min(len(target), len(source))
        target[:rows].copy_(source[:rows])
        rest = f"rows {rows} to {len(target) - 1} start as initialised"
        if rows == len(target):
            rest = "the rest is not used"
        notes.append(f"pretrained: {name} has {len(target)} rows here and {len(source)} there; {rest}")
    for names, fate in ((wanted - offered, "start as initialised"), (offered - wanted, "are not used")):
        if names:
            notes.append(f"pretrained: {len(names)} parameters {fate}: {', '.join(sorted(names))}")
    return notes


def _check_shapes(
    parameters: Mapping[str, Tensor],
    stored: Mapping[str, Tensor],
    names: list[str],
    tables: set[str],
    heads: tuple[str, ...],
) -> None:
    """Refuses parameters of different shapes, except for the number of rows of tables."""

    def fits(name: str) -> bool:
        target, source = parameters[name].shape, stored[name].shape
        return target == source or (name in tables and target[1:] == source[1:])

    wrong = [name for name in names if not fits(name)]
    if not wrong:
        return
    listed = [f"{name}: {tuple(parameters[name].shape)} here, {tuple(stored[name].shape)} there" for name in wrong]
    shown = "; ".join(listed[:8]) + (f"; ... ({len(wrong)} in all)" if len(wrong) > 8 else "")
    hint = (
        " A head of another shape needs pretrained.reset_prediction_head True." if wrong[-1].startswith(heads) else ""
    )
    raise UserError(f"pretrained.dir: parameters of other shapes: {shown}.{hint}")


def freeze_body(model: nn.Module) -> None:
    """Leaves only the head to be trained.

    The statistics of frozen BatchNorms stay as well (the trainer keeps them in evaluation mode, see
    :func:`frozen_norms`): a body that is not trained must not drift with the new data. Dropout stays active.

    Raises:
        UserError: the model has no head, so that nothing would be trained.
    """
    heads = head_prefixes(model)
    if not heads:
        raise UserError(f"pretrained.freeze_main: {_without_head(model)}")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(heads))


def frozen_norms(model: nn.Module) -> list[nn.Module]:
    """Modules with running statistics whose own parameters are all frozen."""
    frozen = []
    for module in model.modules():
        parameters = list(module.parameters())
        has_statistics = "running_mean" in dict(module.named_buffers(recurse=False))
        if has_statistics and parameters and not any(parameter.requires_grad for parameter in parameters):
            frozen.append(module)
    return frozen


def _without_head(model: nn.Module) -> str:
    return (
        f"{type(model).__name__} has no prediction head. A model of yours gets one by calling the factory of its "
        "context (self.head = frame.head(dim)), or marks its own module with graphbench.contract.PredictionHead."
    )
