"""Metrics: subclasses of :class:`~graphbench.tasks.metric.Metric`, named by ``metric_best`` and ``custom_metrics``.

``value`` maps the aligned predictions and targets of a whole pass to a scalar, or raises
:class:`~graphbench.tasks.metric.Undefined` with the reason why there is none, which becomes NaN::

    @register("mae")
    class MeanAbsoluteError(Metric):
        maximize = False
        kinds = ("regression",)

        def value(self, pred: Tensor, true: Tensor) -> Tensor:
            return (wide(pred) - wide(true)).abs().mean()

A :class:`~graphbench.tasks.metric.StatisticMetric` is a mean of numbers per graph that the head computes.
"""
