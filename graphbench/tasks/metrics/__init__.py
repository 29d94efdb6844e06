"""Metrics by the names of ``dataset.metric`` and ``custom_metrics``, one file per family.

Contract: a :class:`~graphbench.tasks.metric.Metric` that names the ``kinds`` of task it is for and computes ``value``
from the aligned predictions and targets of a whole pass, in float64, or raises ``Undefined`` with a reason::

    @register("max_error")
    class MaxError(Metric):
        maximize = False
        kinds = ("regression",)

        def value(self, pred: Tensor, true: Tensor) -> Tensor:
            return (to_double(pred) - to_double(true)).abs().max()

Why not torchmetrics: NaN with a reason, OGB's rules for missing labels, one wait for the device per pass.
"""
