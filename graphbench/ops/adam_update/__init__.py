"""Update of parameters by Adam or AdamW."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from graphbench.ops.adam_update import cpu, reference
from graphbench.ops.adam_update.rule import AdamRule
from graphbench.ops.backend import Backends

__all__ = ["AdamRule", "adam_update"]


_IMPLEMENTATIONS = Backends(reference.adam_update, cpu.adam_update, gpu=True)


def adam_update(
    parameters: Sequence[Tensor],
    gradients: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    steps: Sequence[Tensor],
    rule: AdamRule,
    grad_scale: Tensor | None = None,
    *,
    backend: str = "auto",
) -> None:
    """``p -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)``, in place; nothing waits for the device.

    Before that ``t += 1``, ``m = beta1 m + (1 - beta1) g`` and ``v = beta2 v + (1 - beta2) g^2``, where g is the
    gradient divided by ``grad_scale``, plus ``weight_decay p``; or else, decoupled, ``p -= lr weight_decay p``.

    Args:
        parameters: P tensors p of any shape.
        gradients: of these shapes and types, divided by ``grad_scale`` in place.
        exp_avgs: of these shapes and types, averages m of the gradients.
        exp_avg_sqs: of these shapes and types, averages v of their squares.
        steps: P float32 tensors () on the devices of the parameters, numbers t of updates.
        rule: learning rate and all other numbers.
        grad_scale: () float32 on the device; None: 1.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Raises:
        ValueError: not every parameter has a gradient, two averages and a number of updates, or a beta lies outside
            of [0, 1).
    """
    counts = [len(each) for each in (parameters, gradients, exp_avgs, exp_avg_sqs, steps)]
    if len(set(counts)) > 1:
        raise ValueError(f"every parameter needs a gradient, two averages and a number of updates, received {counts}")
    if not all(0 <= beta < 1 for beta in rule.betas):
        raise ValueError(f"betas must be in [0, 1), received {rule.betas}")
    if parameters:
        implementation = _IMPLEMENTATIONS.choose(backend, parameters[0])
        implementation(parameters, gradients, exp_avgs, exp_avg_sqs, steps, rule, grad_scale)
