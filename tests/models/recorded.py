"""Names of weights in the recorded numbers -> names in our modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn


def load(module: nn.Module, recorded: Mapping[str, Tensor], rename: Callable[[str], str | None]) -> None:
    """Puts recorded weights into a float64 module; every parameter and buffer must be given.

    Args:
        module: in float64.
        recorded: as the ``golden`` fixture returns it.
        rename: recorded name (without ``w/``) -> our name; None for a weight that ours does not own.
    """
    weights = {rename(key[2:]): value.double() for key, value in recorded.items() if key.startswith("w/")}
    weights.pop(None, None)
    missing, unexpected = module.load_state_dict(weights, strict=False)
    assert not unexpected, unexpected
    assert not [key for key in missing if not key.endswith("num_batches_tracked")], missing


def close(ours: Tensor | None, expected: Tensor, what: str, tolerance: float = 1e-10) -> None:
    """Equality relative to the largest entry."""
    assert ours is not None, f"{what} has no gradient"
    scale = max(float(expected.abs().max()), 1e-12) if expected.numel() else 1.0
    torch.testing.assert_close(
        ours / scale, expected.to(ours) / scale, rtol=0, atol=tolerance, msg=lambda text: f"{what}: {text}"
    )
