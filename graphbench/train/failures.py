"""Messages of runs that fail: where it happened, what to try, what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from graphbench import plug_ins
from graphbench.errors import Interrupted, RunFailed

# Gloo's errors are RuntimeErrors. Most begin with the file that raised them; when one operation of a process has
# waited too long, the others that were under way end with the last sentence, which names no file.
_LOST = (
    "gloo/",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Application timeout caused pair closure",
)


def non_finite_loss(epoch: int, batch: int, value: float, last: Path) -> RunFailed:
    """The training loss is NaN or infinite.

    Args:
        epoch: number of the epoch, from 0.
        batch: number of the batch in that epoch, from 0.
        value: value of the loss.
        last: path of the latest checkpoint.
    """
    if not epoch and not batch:
        return RunFailed(
            f"epoch 0, batch 0: the training loss is {value} before anything was learned. Look at the targets and the "
            "range of the features (dataset), at layers and losses of your own, or use precision 32-true."
        )
    return RunFailed(
        f"epoch {epoch}, batch {batch}: the training loss is {value}. "
        "Lower optim.base_lr, warm up longer (optim.num_warmup_epochs), clip gradients (optim.clip_grad_norm: True), "
        f"or use precision 32-true.{_code_of_users()} {_kept(last)}"
    )


def out_of_memory(epoch: int, batch: int, device: torch.device, error: BaseException, last: Path) -> RunFailed:
    """Memory is exhausted; arguments as in :func:`non_finite_loss`."""
    where = "the GPU" if device.type == "cuda" else "this machine"
    return RunFailed(
        f"epoch {epoch}, batch {batch}: the memory of {where} is exhausted ({first_line(error)}). "
        "Use a smaller train.batch_size (with optim.batch_accumulation the step stays as large), precision "
        f"bf16-mixed, or a smaller model. {_kept(last)}"
    )


def no_best_epoch(metric: str) -> RunFailed:
    """No evaluated epoch has a value of the selecting metric."""
    return RunFailed(
        f"the validation {metric} was NaN in every evaluated epoch, so that no epoch can be called the best. Look at "
        "val/stats.json; is the metric defined on this split?"
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


def lost_process(epoch: int, error: BaseException, last: Path) -> RunFailed:
    """Another process of the run has ended; arguments as in :func:`non_finite_loss`."""
    return RunFailed(
        f"epoch {epoch}: another process of this run has ended ({first_line(error)}). {_kept(last)} The same command "
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


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _code_of_users() -> str:
    """Advice where plug-ins have a part in what failed."""
    plugins = plug_ins.loaded()
    return (
        f" It may come from {' or '.join(plugins)}: look for divisions, roots and logarithms of 0." if plugins else ""
    )


def _kept(last: Path) -> str:
    return f"The last checkpoint is kept in {last}." if last.is_file() else "No checkpoint had been written yet."
