"""Gradients clipped to a common norm, on a device by the kernels of the optimiser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.optim import Optimizer

_OTHERS = ("cpu", "mps")  # whose gradients torch.nn.utils.clip_grad_norm_ scales
_EPS = 1e-6  # of torch.nn.utils.clip_grad_norm_


@contextmanager
def clipped_gradients(optimizer: Optimizer, max_norm: float, *, by_optimizer: bool = True) -> Iterator[None]:
    """Inside, ``optimizer.step()`` moves by gradients times ``min(1, max_norm / (norm + 1e-6))``, and leaves these.

    Fused optimisers divide gradients by ``grad_scale``, a number on the device, as they read them, and store the
    quotients: no pass of its own multiplies. Elsewhere, and for gradients that are not float32, the type of that
    number, it is :func:`torch.nn.utils.clip_grad_norm_`, from whose gradients the quotients differ by rounding. A norm
    that is not finite is no error, because finding out waits for the device.

    Args:
        optimizer: optimizer of the parameters, whose gradients are there.
        max_norm: largest norm of all gradients together.
        by_optimizer: False: never by ``grad_scale``, which a :class:`torch.amp.GradScaler` sets itself.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not (by_optimizer and _divides(optimizer, gradients)):
        torch.nn.utils.clip_grad_norm_(parameters, max_norm, error_if_nonfinite=False)
        yield
        return
    norm = torch.linalg.vector_norm(torch.cat([gradient.reshape(-1) for gradient in gradients]))
    eps = torch.tensor(_EPS / max_norm, dtype=norm.dtype)  # on the host, an argument of the kernel
    optimizer.grad_scale = torch.add(eps, norm, alpha=1.0 / max_norm).clamp_(min=1.0)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del optimizer.grad_scale  # type: ignore[attr-defined]


def _divides(optimizer: Optimizer, gradients: list[Tensor]) -> bool:
    """Whether the step divides by ``grad_scale``."""
    alike = {(gradient.device, gradient.dtype, gradient.layout) for gradient in gradients}
    fused = all(group.get("fused") for group in optimizer.param_groups)
    if not fused or len(alike) != 1:
        return False
    ((device, dtype, layout),) = alike
    return device.type not in _OTHERS and dtype == torch.float32 and layout == torch.strided
