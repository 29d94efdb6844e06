"""What to say when a run fails: where it happened, what to try, what is kept."""

from __future__ import annotations

from pathlib import Path

import torch

from graphbench.errors import RunFailed


def non_finite_loss(epoch: int, batch: int, value: float, last: Path) -> RunFailed:
    """The training loss is NaN or infinite."""
    return RunFailed(
        f"epoch {epoch}, batch {batch}: the training loss is {value}. "
        "Lower optim.base_lr, warm up longer (optim.num_warmup_epochs), clip gradients (optim.clip_grad_norm: True), "
        f"or use precision 32-true. {_kept(last)}"
    )


def no_memory(epoch: int, batch: int, device: torch.device, error: BaseException, last: Path) -> RunFailed:
    """Memory is exhausted."""
    where = "the GPU" if device.type == "cuda" else "this machine"
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return RunFailed(
        f"epoch {epoch}, batch {batch}: the memory of {where} is exhausted ({said}). "
        "Use a smaller train.batch_size (with optim.batch_accumulation the step stays as large), precision "
        f"bf16-mixed, or a smaller model. {_kept(last)}"
    )


def no_best_epoch(metric: str) -> RunFailed:
    """No evaluated epoch has a value of the selecting metric."""
    return RunFailed(
        f"the validation {metric} was NaN in every evaluated epoch, so that no epoch can be called the best. Look at "
        "val/stats.json; is the metric defined on this split?"
    )


def is_out_of_memory(error: BaseException) -> bool:
    """True for the many ways in which PyTorch says that there is no memory left."""
    text = str(error)
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or (
        "out of memory" in text or "can't allocate memory" in text
    )


def _kept(last: Path) -> str:
    return f"The last checkpoint is kept in {last}." if last.is_file() else "No checkpoint had been written yet."
