"""Shapes and types of predictions and targets by kind of task, and the messages when they are others.

============  =====================  ==============================================================
kind          prediction             target
============  =====================  ==============================================================
binary        (R, 1) or (R,) logits  (R,) or (R, 1), 0 or 1
multiclass    (R, C) logits          (R,) or (R, 1) int64, 0 .. C-1
multilabel    (R, T) logits          (R, T), 0, 1 or NaN (not known)
regression    (R, T) values          (R, T), or (R,) where T is 1; NaN (not known)
subtoken      (R, P, V) logits       (R, L) int64, words of a sequence, L >= P (see below)
============  =====================  ==============================================================

A subtoken task predicts P words per row out of V. Word V - 1 ends a sequence and fills the rest of its row, V - 2
stands for every word outside the vocabulary. A target may be longer than the prediction, and may name words outside
the vocabulary by numbers of their own from V on: the loss reads the first P columns and takes those for V - 2, the
metrics (those of ogbg-code2) read them all.
"""

from __future__ import annotations

import math
from typing import get_args

import torch
from torch import Tensor

from graphbench.errors import ContractError, check_at_least
from graphbench.vocabulary import TASK_TYPES, TaskKind

KINDS: tuple[TaskKind, ...] = get_args(TaskKind)
_ANY_WIDTH = (1, math.inf, "")
_WIDTHS = {
    "binary": (1, 1, "predicts one number per row"),
    "multiclass": (2, math.inf, "predicts one number per class"),
    "subtoken": (3, math.inf, "needs a vocabulary of 3 words or more"),
}
"""Least and largest width of a prediction, where not any will do."""


def kind_of(task_type: str, out_dim: int) -> TaskKind:
    """The row of the table above.

    Args:
        task_type: see ``vocabulary.TASK_TYPES``.
        out_dim: width of the prediction; decides what plain ``classification`` means.

    Raises:
        ValueError: the two contradict each other, or the type is not one of these kinds.
    """
    check_at_least(1, out_dim=out_dim)
    kinds = next((kinds for name, kinds in TASK_TYPES.items() if name == task_type), None)
    if kinds is None:
        raise ValueError(f"task_type must be one of {', '.join(TASK_TYPES)}; received '{task_type}'")
    for kind in kinds:
        least, most, _ = _WIDTHS.get(kind, _ANY_WIDTH)
        if least <= out_dim <= most:
            return kind
    raise ValueError(f"{task_type} {_WIDTHS[kinds[0]][2]}, received out_dim = {out_dim}")


def check_kinds(cls: type, kinds: object) -> None:
    """Refuses a class of losses or metrics that does not say for which kinds of task it is.

    Raises:
        TypeError: with the words that are allowed.
    """
    if not isinstance(kinds, tuple) or not kinds or not set(kinds) <= set(KINDS):
        raise TypeError(
            f"{cls.__qualname__}: kinds must name the kinds of task that it is for, a tuple of some of "
            f"{', '.join(map(repr, KINDS))}; received {kinds!r}"
        )


def align(pred: Tensor, true: Tensor, kind: TaskKind, out_dim: int) -> tuple[Tensor, Tensor]:
    """Brings both to one shape: (R,) and (R,) for binary, (R, C) and (R,) for multiclass, (R, T) twice otherwise.

    Subtokens stay as they are: (R, P, V), or (R, P) where :func:`compact` has been at work, and (R, L).

    Looks at shapes and types only, so it costs nothing and waits for no device.

    Raises:
        ContractError: they do not fit each other; the message names both.
    """
    if pred.dtype in (torch.float16, torch.bfloat16):
        pred = pred.float()  # targets and sums would lose digits in a mixed-precision run
    if kind == "subtoken":
        return _align_sequences(pred, true, out_dim)
    if kind in ("binary", "regression") and pred.dim() == 1:
        pred = pred[:, None]
    if pred.dim() != 2 or pred.shape[1] != out_dim:
        raise ContractError(f"{kind}: predictions must have shape (rows, {out_dim}); {_received(pred, true)}")
    if true.dim() < 1 or true.shape[0] != pred.shape[0]:
        raise ContractError(
            f"{kind}: predictions and targets must have equally many rows; {_received(pred, true)}. "
            "Does gnn.head predict for graphs, and the targets are of nodes, or the other way round?"
        )
    columns = 1 if kind in ("binary", "multiclass") else out_dim
    of_row = true.shape[1:]
    if of_row != (columns,) and (of_row or columns != 1):
        raise ContractError(f"{kind}: targets must have shape (rows, {columns}); {_received(pred, true)}")
    if kind == "multiclass":
        if true.is_floating_point():
            raise ValueError(f"multiclass: targets must be whole numbers (int64), received {true.dtype}")
        return pred, (true[:, 0] if of_row else true).long()
    true = true.to(pred.dtype)
    if kind == "binary":
        return pred[:, 0], true[:, 0] if of_row else true
    return pred, true if of_row else true[:, None]


def _received(pred: Tensor, true: Tensor) -> str:
    return f"received predictions {tuple(pred.shape)} and targets {tuple(true.shape)}"


def _align_sequences(pred: Tensor, true: Tensor, out_dim: int) -> tuple[Tensor, Tensor]:
    words = pred.dim() == 2 and not pred.is_floating_point()
    if not words and (pred.dim() != 3 or pred.shape[2] != out_dim):
        raise ContractError(
            f"subtoken: predictions must have shape (rows, positions, {out_dim}); {_received(pred, true)}"
        )
    if true.dim() != 2 or true.shape[0] != pred.shape[0] or true.shape[1] < pred.shape[1]:
        raise ContractError(
            f"subtoken: targets must have shape (rows, {pred.shape[1]} or more); {_received(pred, true)}"
        )
    if true.is_floating_point():
        raise ValueError(f"subtoken: targets must be whole numbers (int64), received {true.dtype}")
    return pred, true


def compact(pred: Tensor, kind: TaskKind) -> Tensor:
    """The part of a batch's predictions that the metrics of a whole pass need: all of it, but words instead of logits.

    Logits of subtokens are gigabytes: 25 000 numbers per graph of ogbg-code2.
    """
    return pred.argmax(2) if kind == "subtoken" and pred.dim() == 3 else pred


def check_labels(true: Tensor, kind: TaskKind, out_dim: int) -> None:
    """Refuses labels outside the class range. Looks at the values: on an accelerator this waits for the device.

    Args:
        true: targets as returned by :func:`align`.
        kind: one of :data:`KINDS`.
        out_dim: width of the prediction.

    Raises:
        ValueError: with the range that was received and the one that is allowed.
    """
    if kind == "regression" or true.numel() == 0:
        return
    if kind == "subtoken":
        if int(true.min()) < 0:
            raise ValueError(f"words are numbered from 0, received {int(true.min())}")
        return
    if kind == "multiclass":
        low, high = (int(value) for value in torch.aminmax(true))
        if low < 0 or high >= out_dim:
            raise ValueError(
                f"the model predicts {out_dim} classes (labels 0 to {out_dim - 1}), received labels {low} to {high}"
            )
        return
    valid = (true == 0) | (true == 1)
    if kind == "multilabel":
        valid |= true.isnan()
    if not bool(valid.all()):
        missing = " (NaN where not known)" if kind == "multilabel" else ""
        raise ValueError(f"{kind} labels must be 0 or 1{missing}, received {float(true[~valid][0]):g}")
