"""Loss and metrics of a data set, on raw predictions (logits) and targets.

:class:`~graphbench.tasks.task.Task` holds both: ``task.loss(pred, true)`` is minimised batch by batch,
``task.evaluate(preds, trues)`` gives ``{"loss": ..., metric: ...}`` of a whole pass::

    task = Task(CrossEntropy("classification", 7), ["accuracy", "f1"], "classification", out_dim=7)

- ``targets``: kinds of task (binary, multiclass, multilabel, regression, subtoken), their shapes, checks of labels.
- ``loss``, ``losses/``; ``metric``, ``metrics/``: base classes and components; ``contract``: what they are built from.
- ``ranks`` (order statistics with ties), ``subtokens`` (sequences as sets): what several metrics compute.

A metric that has no value is NaN, with a reason in ``task.undefined``; it never raises because of the numbers it gets.
"""
