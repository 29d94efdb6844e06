"""Recorded weights of the original implementations, under the names of our parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graphbench.structures import GraphBatch, LayerState, Ragged

# (recorded prefix, ours), the first that fits; q, k, v of a softmax attention are packed into one map.
PREFIXES = (
    ("local.mlp.0.", "local.mlp.0."),
    ("local.mlp.1.", "local.mlp.2."),
    ("local.pe_gate.1.", "local.pe_gate.2."),
    ("pe_gate.1.", "pe_gate.2."),
    ("ffn.in.", "feed_forward.lin_in."),
    ("ffn.out.", "feed_forward.lin_out."),
    ("norm_attn.", "norm_attention."),
    ("attn.out.", "attention.out."),
)


def ours(name: str) -> str:
    """Our name of a recorded weight or gradient of a GPS layer."""
    for recorded, own in PREFIXES:
        if name.startswith(recorded):
            return own + name.removeprefix(recorded)
    return name


Rename = Callable[[str], str]


def packed(arrays: dict[str, Any], kind: str, rename: Rename = lambda name: name) -> dict[str, Tensor]:
    """Recorded arrays of one kind (``"w"`` or ``"grad"``) under our names, in float64.

    Args:
        arrays: as the ``golden`` fixture returns them.
        kind: prefix of the wanted arrays.
        rename: from the name inside a layer to the name inside what holds the layer.
    """
    found = {
        key.removeprefix(f"{kind}/"): value.double() for key, value in arrays.items() if key.startswith(f"{kind}/")
    }
    for part in ("weight", "bias"):
        if f"attn.q.{part}" in found:
            found[f"attention.qkv.{part}"] = torch.cat([found.pop(f"attn.{each}.{part}") for each in "qkv"])
    return {rename(ours(name)): value for name, value in found.items()}


def load(module: nn.Module, arrays: dict[str, Any], ours: Rename = lambda name: name) -> nn.Module:
    """Puts the recorded weights into a module; every parameter and statistic must be among them."""
    weights = packed(arrays, "w", ours)
    counters = {name for name in module.state_dict() if name.endswith("num_batches_tracked")}
    left_out = module.double().load_state_dict(weights, strict=False)
    assert not left_out.unexpected_keys
    assert set(left_out.missing_keys) <= counters
    return module.eval()


def batch_of(arrays: dict[str, Any]) -> GraphBatch:
    """The recorded graphs; features in float64 that collect gradients."""
    ptr = arrays.get("in/ptr", torch.tensor([0, len(arrays["in/x"])]))
    edge_attr = arrays.get("in/edge_attr")
    state = LayerState(stable_encoding=arrays["in/pe"].double().requires_grad_()) if "in/pe" in arrays else LayerState()
    return GraphBatch(
        ragged=Ragged.from_sizes((ptr[1:] - ptr[:-1]).tolist()),
        edge_index=arrays.get("in/edge_index", torch.empty(2, 0, dtype=torch.int64)),
        x=arrays["in/x"].double().requires_grad_(),
        edge_attr=None if edge_attr is None else edge_attr.double().requires_grad_(),
        state=state,
    )


def close(value: Tensor | None, expected: Tensor, what: str, tolerance: float = 1e-10) -> None:
    """Agreement relative to the largest entry."""
    assert value is not None, f"{what} is missing"
    error = ((value - expected).abs().max() / expected.abs().max().clamp(min=1e-3)).item()
    assert value.shape == expected.shape, what
    assert error <= tolerance, f"{what}: relative difference {error:.1e}"


def check_gradients(
    module: nn.Module,
    batch: GraphBatch,
    outputs: dict[str, Tensor],
    arrays: dict[str, Any],
    ours: Rename = lambda name: name,
) -> None:
    """Backward of the recorded loss; every recorded gradient must be met and no other exist."""
    sum((outputs[name] * arrays[f"in/grad_seed.{name}"]).sum() for name in outputs).backward()
    expected = packed(arrays, "grad", ours)
    inputs = {"x": batch.x, "edge_attr": batch.edge_attr, "pe": batch.state.stable_encoding}
    for name, value in inputs.items():
        if f"in.{name}" in expected:
            close(value.grad, expected.pop(f"in.{name}"), f"gradient of input {name}")
    for name, parameter in module.named_parameters():
        if name in expected:
            close(parameter.grad, expected.pop(name), f"gradient of {name}")
        else:
            assert parameter.grad is None, f"{name} should get no gradient"
    assert not expected
