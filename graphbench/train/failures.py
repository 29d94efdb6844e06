"""Messages of runs that fail: where it happened, what to try, what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from graphbench import plug_ins
from graphbench.errors import Interrupted, RunFailed, first_line
from graphbench.train.nonfinite import Origin

# Gloo's errors are RuntimeErrors. Most begin with the file that raised them; when one operation of a process has
# waited too long, the others that were under way end with the last sentence, which names no file.
_LOST = (
    "gloo/",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Application timeout caused pair closure",
)
_MOST_NAMES = 3


@dataclass(frozen=True)
class Kept:
    """Files that a run which fails leaves.

    Attributes:
        last: path of the latest checkpoint, which need not be there.
        best: path of the model of the best epoch; None where none was saved.
        best_epoch: number of that epoch.
    """

    last: Path
    best: Path | None = None
    best_epoch: int = 0

    def __str__(self) -> str:
        """One sentence."""
        model = f"the model of the best epoch, {self.best_epoch}, is in {self.best}"
        if self.last.is_file():
            return f"The last checkpoint is kept in {self.last}{'' if self.best is None else f', {model}'}."
        nothing = "No checkpoint had been written yet"
        return f"{nothing}." if self.best is None else f"{nothing}, but {model}."


def non_finite_loss(epoch: int, batch: int, value: float, origin: Origin | None, kept: Kept) -> RunFailed:
    """The training loss is NaN or infinite.

    Args:
        epoch: number of the epoch, from 0.
        batch: number of the batch in that epoch, from 0.
        value: value of the loss.
        origin: where it comes from, if that is known.
        kept: files of the run.
    """
    if origin is not None and origin.part != "updates":
        return RunFailed(f"epoch {epoch}, batch {batch}: the training loss is {value}. {_sentence(origin)} {kept}")
    if not epoch and not batch:
        return RunFailed(
            f"epoch 0, batch 0: the training loss is {value} before anything was learned. Look at the targets and the "
            "range of the features (dataset), at layers and losses of your own, or use precision 32-true."
        )
    return RunFailed(
        f"epoch {epoch}, batch {batch}: the training loss is {value}. "
        "Lower optim.base_lr, warm up longer (optim.num_warmup_epochs), clip gradients (optim.clip_grad_norm: True), "
        f"or use precision 32-true.{_code_of_users()} {'' if origin is None else _sentence(origin) + ' '}{kept}"
    )


def out_of_memory(epoch: int, batch: int, device: torch.device, error: BaseException, kept: Kept) -> RunFailed:
    """Memory is exhausted; arguments as in :func:`non_finite_loss`."""
    where = "the GPU" if device.type == "cuda" else "this machine"
    return RunFailed(
        f"epoch {epoch}, batch {batch}: the memory of {where} is exhausted ({first_line(error)}). "
        "Use a smaller train.batch_size (with optim.batch_accumulation the step stays as large), precision "
        f"bf16-mixed, or a smaller model. {kept}"
    )


def no_best_epoch(metric: str, reason: str) -> RunFailed:
    """No evaluated epoch has a value of the selecting metric; ``reason``: why the first one had none."""
    because = f" ({reason})" if reason else ""
    return RunFailed(
        f"the validation {metric} was NaN in every evaluated epoch{because}, so that no epoch can be called the best. "
        "Look at val/stats.json; is the metric defined on this split?"
    )


def interrupted(signal: str | None, epoch: int, saved: bool) -> Interrupted:
    """The run was asked to stop.

    Args:
        signal: signal that this process received; None where another process did.
        epoch: number of the epoch in progress.
        saved: whether there is a checkpoint.
    """
    kept = (
        "The state is saved; the same command resumes the run."
        if saved
        else "No state is saved (train.enable_ckpt is False)."
    )
    return Interrupted(f"stopped by {signal or 'another process'} in epoch {epoch}. {kept}")


def is_lost_process(error: BaseException) -> bool:
    """True for what PyTorch's communication says when another process of the run has ended or hangs."""
    text = str(error)
    return isinstance(error, torch.distributed.DistError) or any(sign in text for sign in _LOST)


def lost_process(epoch: int, error: BaseException, kept: Kept) -> RunFailed:
    """Another process of the run has ended; arguments as in :func:`non_finite_loss`."""
    return RunFailed(
        f"epoch {epoch}: another process of this run has ended ({first_line(error)}). {kept} The same command "
        "resumes the run."
    )


@contextmanager
def lost_processes_told() -> Iterator[None]:
    """Outside training: the loss of another process, also at the start, as a run that failed.

    Raises:
        RunFailed: instead of what PyTorch's communication says.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_lost_process(error):
            raise
        raise RunFailed(
            f"another process of this run has ended, or did not come within the seconds of timeout "
            f"({first_line(error)}). The same command resumes the run."
        ) from error


def _code_of_users() -> str:
    """Advice where plug-ins have a part in what failed."""
    plugins = plug_ins.loaded()
    return (
        f" It may come from {' or '.join(plugins)}: look for divisions, roots and logarithms of 0." if plugins else ""
    )


def _sentence(origin: Origin) -> str:
    """Origin of a loss that is not finite, and what to look for there."""
    again = f"Computed again{' with ' if origin.weights else ''}{origin.weights}"
    module = f"{origin.module or 'the model'} ({origin.kind})"
    names = ", ".join(origin.tensors[:_MOST_NAMES])
    names += f" and {len(origin.tensors) - _MOST_NAMES} more" if len(origin.tensors) > _MOST_NAMES else ""
    return {
        "output": f"{again}, {module} is the first module whose output is not finite although its inputs are: look "
        "there for divisions, roots and logarithms of 0, and for numbers that are too large for the precision.",
        "parameters": f"{again}, {module} is the first module whose output is not finite, and neither are its "
        f"parameters or buffers {names}: how are they initialised or loaded?",
        "loss": f"{again}, the outputs of all modules are finite and the loss is not: look at the targets and at the "
        "loss, that of layers included.",
        "gradient": f"{again}, {module} is the first module that passes back gradients which are not finite: look "
        "there for roots and norms of 0, whose derivatives are infinite.",
        "updates": f"{again}, loss and gradients of this batch are finite: the updates since then have led to {names}, "
        "which are not.",
    }[origin.part]
