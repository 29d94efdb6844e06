"""Optimizers by the names of ``optim.optimizer``, one file each: ``adam``, ``adamW``, ``adagrad``, ``sgd``.

Contract: a subclass of :class:`torch.optim.Optimizer`; parameters annotated ``FromContext`` are filled from
:class:`~graphbench.train.contract.OptimizerContext`, every other one is a key below the optimizer's name::

    @register("adagrad")
    class Adagrad(torch.optim.Adagrad):
        def __init__(self, params: FromContext[Any], lr: FromContext[float], eps: float = 1e-10) -> None:
            super().__init__(params, lr=lr, eps=eps)                      # optim: {adagrad: {eps: 1.0e-8}}
"""
