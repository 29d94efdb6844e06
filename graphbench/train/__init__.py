"""Training and applying models: one :class:`~graphbench.train.trainer.Trainer` per run.

It is given a Fabric, a model ``(GraphBatch) -> predictions``, a :class:`~graphbench.tasks.task.Task`,
:class:`~graphbench.structures.DataLoaders`, an optimizer, a schedule and settings, and hands back an ``Outcome``::

    trainer = Trainer(make_fabric("cpu"), model, task, loaders, optimizer, schedule, settings, run=RunDirectory(...))
    outcome = trainer.run()

- A step: ``trainer`` -> ``forward`` (batch through Fabric and DDP) -> ``prediction_buffer`` (losses, predictions).
- An epoch: ``evaluation`` -> ``best_epoch`` (metrics) -> ``run_log`` -> ``reporter``s (``progress``, ``loggers``).
- A run: ``state`` and ``random_state`` in checkpoints (``checkpointer``), ``signals``, ``failures``, ``distributed``.
- Before it: ``accelerator``, ``parameter_groups``, ``pretrained``, ``settings``, ``optimizers/``, ``schedules/``.
- Without training: ``inference``; ``forward_hooks`` asks modules during a forward pass.
"""
