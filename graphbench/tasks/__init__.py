"""Tasks: loss and metrics of a data set, on the predictions of a batch or of a whole pass.

:class:`~graphbench.tasks.task.Task` has the loss to minimise and the metrics to report; both read predictions and
targets in the shapes of :mod:`graphbench.tasks.targets`::

    task = Task(loss, ["mae", "r2"], "regression", out_dim=1)
    task.loss(pred, true).backward()
    scores = task.evaluate(pred, true)  # {"loss": ..., "mae": ..., "r2": ...}

- ``losses``, ``metrics``: components, subclasses of :class:`~graphbench.tasks.loss.Loss` and
  :class:`~graphbench.tasks.metric.Metric`. ``contract``: their contexts.
- ``ranks``, ``subtokens``: order statistics, sets of words.
"""
