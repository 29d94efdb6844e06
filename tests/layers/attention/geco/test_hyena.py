"""Hyena: the recorded operator, causality, what the ends of a graph see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.layers.attention.geco.hyena import Hyena
from graphbench.layers.attention.geco.implicit_filter import decay_rates, decay_window, positional_embedding
from tests.contract import example_batch, shaken
from tests.layers.attention.geco.test_implicit_filter import filter_weights
from tests.layers.recorded import close

NAMES = {"filter.skip_bias": "skip_bias"}


def weights_of(arrays: dict[str, Any], kind: str) -> dict[str, Tensor]:
    """Weights or gradients under our names; what is fixed here stays under its own."""
    found = {
        key: value.flatten() if key.endswith("sine_frequency") else value
        for key, value in filter_weights(arrays, kind).items()
    }
    return {NAMES.get(key, key): value for key, value in found.items()}


class AtRecordedTimes(Hyena):
    """What the network reads and what the decay reads were recorded separately, and belong to longer sequences."""

    z: Tensor
    t: Tensor

    def filters(self, z: Tensor) -> Tensor:
        assert z.shape == self.z.shape
        return self.filter(self.z) * decay_window(self.t, self.rates)


@pytest.mark.parametrize("name", ["operator_order2", "operator_order3_short"])
def test_the_operator_is_that_of_the_released_code(name: str, golden: Callable[[str], dict[str, Any]]) -> None:
    recorded = golden(f"hyena/{name}")
    config, weights = recorded["config"], weights_of(recorded, "w")
    module = AtRecordedTimes(
        config["dim"],
        order=3 if "order3" in name else 2,
        emb_dim=config["emb_dim"],
        filter_width=config["filter_width"],
    ).double()
    fixed = {"filter.pos_emb.z", "filter.pos_emb.t", "filter.modulation.decay_rates"}
    assert set(module.state_dict()) == set(weights) - fixed
    module.load_state_dict({key: value for key, value in weights.items() if key not in fixed})
    module.rates = weights["filter.modulation.decay_rates"].flatten().abs()
    module.eval()

    x, length = recorded["in/x"].double().requires_grad_(), config["length"]
    module.z, module.t = weights["filter.pos_emb.z"][0, :length], weights["filter.pos_emb.t"][0, :length]
    close(module.filters(module.z), recorded["out/filter"], "filter")
    batch = example_batch([length] * len(x), edges=False)
    y = module(x.flatten(0, 1), None, batch).view_as(x)
    close(y, recorded["out/y"], "y")
    (y * recorded["in/grad_seed.y"]).sum().backward()
    expected = weights_of(recorded, "grad")
    close(x.grad, expected["in.x"], "gradient of the input")
    for key, parameter in module.named_parameters():
        close(parameter.grad, expected[key], f"gradient of {key}")


def test_filters_decay() -> None:
    module, z = Hyena(4).double(), positional_embedding((2, 9), 5)
    torch.testing.assert_close(module.filters(z), module.filter(z) * decay_window(z[:, :1], module.rates))
    torch.testing.assert_close(module.rates, decay_rates(4), atol=1e-6, rtol=1e-6)
    end = decay_window(torch.ones(1, 1), decay_rates(4))[0]
    assert end[0] == pytest.approx(0.01 ** (1 / 1.5), rel=1e-5)
    assert end[3] == pytest.approx(0.01 ** (1 / 0.3), rel=1e-5)


def test_a_node_sees_what_comes_before_it_and_nothing_else() -> None:
    module, batch = shaken(Hyena(4, order=3)).double(), example_batch((6, 5), node_dim=4)
    x = batch.x.clone().requires_grad_()
    out = module(x, None, batch)
    for node in (0, 2, 5, 6, 8):
        (seen,) = torch.autograd.grad(out[node].sum(), x, retain_graph=True)
        first = 0 if node < 6 else 6
        assert (seen.abs().sum(1) > 1e-12).tolist() == [first <= other <= node for other in range(11)]


def test_at_least_one_convolution() -> None:
    with pytest.raises(ValueError, match="order must be at least 2, received 1"):
        Hyena(4, order=1)
