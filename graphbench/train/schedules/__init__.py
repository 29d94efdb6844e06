"""Learning rate schedules by the names of ``optim.scheduler``, one file each.

Contract: a :class:`~graphbench.train.schedule.Schedule`, whose :meth:`rate` is a function of base rate and (fractional)
epoch, or a :class:`~graphbench.train.schedule.WarmupSchedule` (linear warm-up), whose :meth:`decay` is one of progress.
Parameters annotated ``FromContext`` are filled from :class:`~graphbench.train.contract.ScheduleContext`::

    @register("exponential")
    class Exponential(Schedule):
        def __init__(self, optimizer: FromContext[Optimizer], factor: float = 0.99) -> None:
            self.factor = factor
            super().__init__(optimizer)                # sets the rate of epoch 0

        def rate(self, base: float, epoch: float) -> float:
            return base * self.factor**epoch
"""
