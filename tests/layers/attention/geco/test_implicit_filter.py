"""The implicit filter: Hyena's recorded numbers, one evaluation per distinct size, precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.layers.attention.geco.implicit_filter import (
    ImplicitFilter,
    decay_rates,
    decay_window,
    positional_embedding,
    positions_of,
)
from tests.contract import example_batch
from tests.layers.recorded import close

Golden = Callable[[str], dict[str, Any]]


@pytest.mark.parametrize("name", ["e3", "e5", "e9"])
def test_positions_are_those_of_hyena(name: str, golden: Golden) -> None:
    recorded = golden(f"hyena/positional_embedding_{name}")
    length, emb_dim = recorded["config"]["seq_len"], recorded["config"]["emb_dim"]
    ours = positional_embedding([length], emb_dim)
    torch.testing.assert_close(ours.float(), recorded["out/z"][0], atol=1e-5, rtol=0)
    torch.testing.assert_close(ours[:, :1].float(), recorded["out/t"][0], atol=1e-6, rtol=0)
    torch.testing.assert_close(ours[: length // 2].float(), recorded["out/z_half"][0], atol=1e-5, rtol=0)


def test_positions_of_several_sizes_lie_behind_each_other() -> None:
    together = positional_embedding([1, 2, 7], 5)
    assert together.shape == (10, 5)
    assert torch.equal(together, torch.cat([positional_embedding([size], 5) for size in (1, 2, 7)]))
    assert together[:, 0].tolist() == [0, 0, 1, *(k / 6 for k in range(7))]
    assert positional_embedding([], 3).shape == (0, 3)


@pytest.mark.parametrize("name", ["default", "shift"])
def test_the_window_is_that_of_hyena(name: str, golden: Golden) -> None:
    recorded = golden(f"hyena/modulation_{name}")
    config = recorded["config"]
    names = {"fast_decay_pct": "fast", "slow_decay_pct": "slow", "target": "target"}
    rates = decay_rates(config["dim"], **{ours: config[theirs] for theirs, ours in names.items() if theirs in config})
    torch.testing.assert_close(rates.float(), recorded["out/decay_rates"][0, 0].abs(), atol=0, rtol=1e-6)
    window = decay_window(torch.linspace(0, 1, config["seq_len"])[:, None], rates.float()) + config.get("shift", 0.0)
    torch.testing.assert_close(window, recorded["out/window"][0], atol=1e-6, rtol=0)


def filter_weights(arrays: dict[str, Any], kind: str, prefix: str = "") -> dict[str, Tensor]:
    """Weights or gradients of a recorded filter under our names."""
    start = f"{kind}/{prefix}"
    found = {key.removeprefix(start): value.double() for key, value in arrays.items() if key.startswith(start)}
    return {name: value.flatten() if name == "sine_frequency" else value for name, value in found.items()}


@pytest.mark.parametrize("name", ["filter_e3", "filter_e5_1inner", "filter_e5_short_w14"])
def test_the_network_is_that_of_hyena(name: str, golden: Golden) -> None:
    recorded = golden(f"hyena/{name}")
    config, weights = recorded["config"], filter_weights(recorded, "w")
    z = weights["pos_emb.z"][0, : config["length"]].requires_grad_()
    module = ImplicitFilter(
        config["dim"],
        emb_dim=config["emb_dim"],
        width=config["filter_width"],
        inner_layers=config["inner_layers"],
        omega=config["omega"],
    ).double()
    assert set(module.state_dict()) == {key for key in weights if key.startswith(("mlp", "sine"))}
    module.load_state_dict({key: weights[key] for key in module.state_dict()})
    taps = module(z)
    close(taps, recorded["out/filter_before_modulation"], "filter")
    window = decay_window(weights["pos_emb.t"][0, : config["length"]], weights["modulation.decay_rates"][0, 0].abs())
    filters = taps * window if config.get("modulate", True) else taps
    close(filters, recorded["out/filter"], "filter with decay")

    # y = causal convolution + skip: the recorded gradients of everything in front of it
    x, skip = recorded["in/x"].double(), weights["skip_bias"]
    length = config["length"]
    padded = torch.fft.rfft(filters.t(), n=2 * length)
    y = torch.fft.irfft(torch.fft.rfft(x, n=2 * length) * padded, n=2 * length)[..., :length] + x * skip[:, None]
    close(y, recorded["out/y"], "y")
    (y * recorded["in/grad_seed.y"]).sum().backward()
    expected = filter_weights(recorded, "grad")
    for key, parameter in module.named_parameters():
        close(parameter.grad, expected[key], f"gradient of {key}")
    close(z.grad, expected["pos_emb.z"][0, :length], "gradient of the positions")


def make(channels: int = 6, **own: Any) -> ImplicitFilter:
    return ImplicitFilter(channels, **{"emb_dim": 5, "width": 8, "inner_layers": 1, "omega": 2.0, **own})


def test_one_evaluation_per_distinct_size_and_shared_positions() -> None:
    batch = example_batch((5, 3, 0, 5, 1, 3))
    z = positions_of(batch, 5, torch.float64)
    assert torch.equal(z, positional_embedding((1, 3, 5), 5))
    assert positions_of(batch, 5, torch.float64) is z
    assert positions_of(batch, 3, torch.float32).shape == (9, 3)
    assert make().double()(z).shape == (9, 6)


def test_the_first_frequency_is_omega_and_is_learned() -> None:
    module = make(omega=3.0)
    assert module.sine_frequency.tolist() == [3.0] * 8
    module(positional_embedding((4,), 5)).square().sum().backward()
    assert (module.sine_frequency.grad != 0).all()


@pytest.mark.parametrize("how", ["autocast", "parameters"])
def test_positions_are_told_apart_in_half_precision(how: str) -> None:
    module, z = make(), positional_embedding((3000,), 5)
    full = module(z)
    if how == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            half = module(z)
        assert torch.equal(half, full)
    else:
        half = module.bfloat16()(z)
        assert half.dtype == torch.float32
        assert (half.diff(dim=0).abs().amax(1) > 0).all()


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"emb_dim": 4}, "emb_dim must be odd and at least 3, received 4"),
        ({"emb_dim": 1}, "emb_dim must be odd and at least 3, received 1"),
        ({"width": 0}, "filter_width must be at least 1, received 0"),
        ({"inner_layers": -1}, "inner_layers must be at least 0, received -1"),
    ],
)
def test_wrong_arguments(own: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**own)
