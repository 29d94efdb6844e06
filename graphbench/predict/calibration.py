"""Calibrated uncertainty of trained models, from examples with known targets that have not trained them.

Temperature scaling (Guo et al., 2017, https://arxiv.org/abs/1706.04599)::

    p = mean over models of softmax(z / T),    T = argmin  - sum_i log p_i[y_i]

and split conformal prediction (Vovk et al., 2005; Lei et al., 2018, https://arxiv.org/abs/1604.04173; for classes the
sets of Sadinle et al., 2019, https://arxiv.org/abs/1609.00451)::

    s_i = |y_i - f(x_i)|  or  1 - p_i[y_i],    q = the ceil((n + 1) c)-th smallest of s_1 .. s_n

A new example's target lies in [f - q, f + q], or its class in {k : 1 - p[k] <= q}, with probability c or more, if it is
exchangeable with the n examples. Nothing is assumed about the model. For that to hold exactly the temperature must not
be fitted to the same examples: it takes every second one, the threshold the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from graphbench.errors import UserError
from graphbench.predict.predictions import Predictions

_EXPONENTS = (-3.0, 3.0)
"""Natural logarithms of the lowest and highest temperature that is tried."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A temperature and a threshold.

    Attributes:
        temperature: outputs are divided by it before softmax or sigmoid; 1 for a regression.
        threshold: see :attr:`Predictions.threshold`; None for multilabel tasks, whose labels only get a temperature.
        coverage: c, the share of new examples that sets and intervals hold at least.
        rows: examples that it was measured on.
        is_of_values: whether the predictions are values, of a regression.
    """

    temperature: float
    threshold: Tensor | None
    coverage: float
    rows: int
    is_of_values: bool = False

    @classmethod
    def measured(cls, predictions: Predictions, y: Tensor, coverage: float = 0.9) -> Calibration:
        """Fits temperature and threshold.

        Args:
            predictions: predictions for the R examples.
            y: (R,) classes, or (R, K) values or labels; NaN marks one that is not known.
            coverage: c, between 0 and 1.

        Raises:
            UserError: too few examples for the coverage, or other targets.
        """
        task_type, rows = predictions.task_type, len(predictions.graph)
        if not 0 < coverage < 1:
            raise UserError(f"coverage must lie between 0 and 1, received {coverage:g}.")
        if len(y) != rows:
            raise UserError(f"calibration: {len(y)} targets for {rows} predictions.")
        if task_type == "regression":
            threshold = _threshold((_as_rows(y) - predictions.values).abs(), coverage, "")
            return cls(1.0, threshold, coverage, rows, is_of_values=True)
        if task_type == "classification_multilabel":
            return cls(_temperature(predictions, _as_rows(y)), None, coverage, rows)
        classes, count = y.reshape(-1).long(), predictions.values.shape[1]
        if rows and not 0 <= int(classes.min()) <= int(classes.max()) < count:
            raise UserError(f"calibration: targets must be classes 0 .. {count - 1}, as in training.")
        temperature = _temperature(predictions.of_rows(slice(0, None, 2)), classes[::2])
        others = predictions.of_rows(slice(1, None, 2))
        others = replace(others, runs=others.runs / temperature)
        score = 1 - others.probability.gather(1, classes[1::2, None])
        half = f" besides the half of all {rows} that gives the temperature"
        return cls(temperature, _threshold(score, coverage, half), coverage, rows)

    @property
    def summary(self) -> str:
        """One line on the calibrated quantities."""
        temperature = f"temperature {self.temperature:.3g}"
        if self.threshold is None:
            return f"{temperature}; no sets, which are for one class per row"
        kind = "intervals, without a temperature," if self.is_of_values else f"{temperature}; sets"
        return f"{kind} that hold {100 * self.coverage:g} % of new targets"

    def of(self, predictions: Predictions) -> Predictions:
        """The predictions with this temperature and threshold."""
        return replace(predictions, runs=predictions.runs / self.temperature, threshold=self.threshold)


def _as_rows(y: Tensor) -> Tensor:
    return y.reshape(len(y), -1).float()


def _threshold(scores: Tensor, coverage: float, besides: str) -> Tensor:
    """The ceil((n + 1) c)-th smallest score of every column, NaN left out.

    Args:
        scores: (R, K) scores.
        coverage: c.
        besides: words for examples that are not among them.

    Raises:
        UserError: there are fewer.
    """
    thresholds = []
    for column in scores.unbind(1):
        known = column[~column.isnan()].double().sort().values
        rank = math.ceil((len(known) + 1) * coverage - 1e-9)
        if rank > len(known):
            least = math.ceil(coverage / (1 - coverage) - 1e-9)
            raise UserError(
                f"coverage {coverage:g} needs {least} examples with known targets or more{besides}, "
                f"there are {len(known)}."
            )
        thresholds.append(known[rank - 1])
    return torch.stack(thresholds).to(scores.dtype)


def _temperature(predictions: Predictions, y: Tensor) -> float:
    """Temperature of the highest likelihood of the mean over the models."""

    def surprise(exponent: float) -> float:
        scaled = replace(predictions, runs=predictions.runs.double() / math.exp(exponent)).probability
        if predictions.task_type == "classification_multilabel":
            known = ~y.isnan()
            likely = torch.where(y > 0.5, scaled, 1 - scaled)[known]
        else:
            likely = scaled.gather(1, y[:, None])
        return -float(likely.clamp(min=1e-30).log().mean())

    if not len(y):
        raise UserError("calibration: there are no examples to fit a temperature to.")
    return math.exp(float(minimize_scalar(surprise, bounds=_EXPONENTS, method="bounded").x))
