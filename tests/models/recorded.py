"""Names of weights in the recorded numbers -> names in our modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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


GPS_NAMES = {
    ".local.mlp.1.": ".local.mlp.2.",
    ".local.": ".branches.0.part.",
    ".norm_local.": ".branches.0.norm.",
    ".attn.out.": ".branches.1.part.out.",
    ".norm_attn.": ".branches.1.norm.",
    ".ffn.in.": ".feed_forward.lin_in.",
    ".ffn.out.": ".feed_forward.lin_out.",
    ".attn.in_proj_": ".branches.1.part.qkv.",
}
"""Part of a recorded name inside a GPS layer -> ours, applied in order."""


def with_packed_attention(recorded: dict[str, Any]) -> dict[str, Any]:
    """Recorded arrays with q, k and v of a layer in one tensor."""
    arrays = {key: value for key, value in recorded.items() if ".attn." not in key or ".attn.out." in key}
    for key, q in recorded.items():
        if ".attn.q." in key:
            k, v = (recorded[key.replace(".attn.q.", f".attn.{each}.")] for each in "kv")
            arrays[key.replace(".attn.q.", ".attn.in_proj_")] = torch.cat([q, k, v])
    return arrays
