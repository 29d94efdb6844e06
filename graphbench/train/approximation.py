"""The error of an approximate evaluation: the same weights, predicted once more without the approximation."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

import torch
from torch import Tensor

from graphbench.errors import is_out_of_memory
from graphbench.structures import DataLoaders
from graphbench.tasks.task import Task
from graphbench.train.evaluation import SplitPredictions, evaluate
from graphbench.train.fabric import Fabric
from graphbench.train.forward import Predictor

logger = logging.getLogger("graphbench")

PREDICTIONS = "predictions"
"""Name beside those of metrics: relative distance of the predictions themselves."""


def approximation_error(
    predict: Predictor, task: Task, loaders: DataLoaders, fabric: Fabric
) -> dict[str, dict[str, float]]:
    """Split -> metric -> value on approximate predictions minus value on exact ones.

    Under :data:`PREDICTIONS` there is |approximate - exact| / |exact|, Frobenius norms over all predictions of a split.

    Args:
        predict: predictor with the weights, in evaluation mode.
        task: metrics.
        loaders: both kinds of passes; without exact ones nothing is measured.
        fabric: fabric of the processes, all of which have to call.
    """
    if loaders.approximation is None:
        return {}
    if loaders.exact_passes is None:
        logger.info("%s; the error of that is not measured", loaders.approximation)
        return {}
    approximate = evaluate(predict, task, loaders.passes, fabric)
    try:
        exact = evaluate(predict, task, loaders.exact_passes(), fabric)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error) or fabric.world_size > 1:
            raise
        logger.warning("%s; the error of that is not known: %s", loaders.approximation, error)
        return {}
    errors = {split: _error(approximate[split], exact[split], task) for split in approximate}
    logger.info("%s; errors: %s", loaders.approximation, _text(errors))
    return errors


def _error(approximate: SplitPredictions, exact: SplitPredictions, task: Task) -> dict[str, float]:
    ours, theirs = (each.buffer.compute(task) for each in (approximate, exact))
    errors = {name: ours[name] - theirs[name] for name in ours if name in theirs}
    errors[PREDICTIONS] = _distance(*(_rows(each, task) for each in (approximate, exact)))
    return {name: value for name, value in errors.items() if math.isfinite(value)}


def _rows(predictions: SplitPredictions, task: Task) -> Tensor:
    return torch.cat([task.keep(pred).cpu() for pred in predictions.buffer.preds])


def _distance(approximate: Tensor, exact: Tensor) -> float:
    if not exact.is_floating_point():  # words: how many are others
        return float((approximate != exact).double().mean())
    return float((approximate.double() - exact.double()).norm() / exact.double().norm())


def _text(errors: Mapping[str, Mapping[str, float]]) -> str:
    return "; ".join(
        f"{split} " + ", ".join(f"{name} {value:+.4g}" for name, value in of_split.items())
        for split, of_split in errors.items()
    )
