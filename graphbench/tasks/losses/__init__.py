"""Losses by the names of ``model.loss_fun``: (weighted) cross entropy, and those for numbers (``mse``, ``l1``, ...).

Contract: a :class:`~graphbench.tasks.loss.Loss` that names the ``kinds`` of task it is for and computes ``value`` from
aligned tensors; :meth:`reduce` applies ``model.size_average``::

    @register("huber")
    class Huber(Loss):
        kinds = ("regression",)

        def value(self, pred: Tensor, true: Tensor) -> Tensor:
            return self.reduce(F.huber_loss(pred, true, reduction="sum"), true.numel())
"""
