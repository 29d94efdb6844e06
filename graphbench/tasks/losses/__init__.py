"""Losses: subclasses of :class:`~graphbench.tasks.loss.Loss`, named by ``model.loss_fun``.

``value`` maps aligned predictions and targets to a scalar, :meth:`~graphbench.tasks.loss.Loss.reduce` does the mean or
sum over rows; shapes and labels are checked before::

    @register("l1")
    class AbsoluteError(Loss):
        kinds = ("regression",)

        def value(self, pred: Tensor, true: Tensor) -> Tensor:
            return self.reduce((pred - true).abs().sum(), true.numel())
"""
