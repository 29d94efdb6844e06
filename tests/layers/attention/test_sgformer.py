"""SGFormer's attention layer inside the recorded attention branches of the released code."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench.layers.attention.sgformer import SGFormer
from graphbench.structures import GraphBatch
from tests.contract import example_batch
from tests.layers.recorded import batch_of, check_gradients, close, load


class Branch(nn.Module):
    """Just enough of the released branch: stem, attention layers, residual, LayerNorm, activation."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        dim, large = config["dim"], "large" in config["cls"]
        self.alpha = 0.5 if large else config["alpha"]
        self.residual = large or config["use_residual"]
        self.norm = large or config["use_bn"]
        self.act = config.get("use_act", large)
        self.lin_in = nn.Linear(config["dim_in"], dim)
        weight = config.get("use_weight", True)
        self.layers = nn.ModuleList(SGFormer(dim, config["heads"], use_weight=weight) for _ in range(config["layers"]))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(config["layers"] + 1))

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        z = self.lin_in(x)
        z = torch.relu(self.norms[0](z) if self.norm else z)
        for layer, norm in zip(self.layers, self.norms[1:]):
            new = layer(z, None, batch)
            z = torch.lerp(z, new, self.alpha) if self.residual else new
            z = norm(z) if self.norm else z
            z = torch.relu(z) if self.act else z
        return z


@pytest.mark.parametrize(
    "name",
    [
        "medium_1layer",
        "medium_3layers_2heads_alpha",
        "medium_noweight",
        "medium_nobn_nores",
        "large_1layer",
        "large_2layers_2heads",
    ],
)
def test_equals_released_branch(name: str, golden: Any) -> None:
    arrays = golden(f"sgformer/transconv_{name}")
    branch, batch = load(Branch(arrays["config"]), arrays), batch_of(arrays)
    out = branch(batch.x, batch)
    close(out, arrays["out/x"], "branch")
    check_gradients(branch, batch, {"x": out}, arrays)


def test_a_batch_does_not_mix_graphs_and_one_graph_has_one_norm() -> None:
    layer, batch = SGFormer(12, 2).double(), example_batch((40, 3))
    doubled = batch.x.clone()
    doubled[40:] *= 100
    before, after = layer(batch.x, None, batch), layer(doubled, None, batch)
    assert torch.equal(before[:40], after[:40])
    assert not torch.allclose(before[40:], after[40:])


@pytest.mark.parametrize(("use_weight", "maps"), [(True, 3), (False, 2)])
def test_parameters(use_weight: bool, maps: int) -> None:
    d, heads = 6, 3
    count = sum(p.numel() for p in SGFormer(d, heads, use_weight=use_weight).parameters())
    assert count == maps * heads * d * (d + 1)
    combined = sum(p.numel() for p in SGFormer(d, heads, use_weight=use_weight, combine="concat").parameters())
    assert combined == count + heads * d * d + d


def test_heads_are_averaged() -> None:
    """One head repeated is the layer with that head alone, up to the norm that heads share."""
    one, batch = SGFormer(12, 1).double(), example_batch()
    two = SGFormer(12, 2, norm="l2").double()
    one.norm = "l2"
    two.load_state_dict({name: torch.cat([value, value]) for name, value in one.state_dict().items()})
    torch.testing.assert_close(one(batch.x, None, batch), two(batch.x, None, batch))


def test_without_self_loop_only_the_pairs_speak() -> None:
    """The paper's Figure 5: C = Q~ K~^T, rows divided by their sum; every node then says the same to all."""
    layer, batch = SGFormer(12, 1, use_weight=False, self_loop=False).double(), example_batch((9,))
    with torch.no_grad():  # all rows of q point one way, so that all nodes weigh the others alike
        layer.q.weight.zero_()
        layer.q.bias.fill_(1.0)
        layer.k.bias.fill_(50.0)
    out = layer(batch.x, None, batch)
    weights = layer.k(batch.x).sum(1)
    expected = (weights / weights.sum()) @ batch.x
    torch.testing.assert_close(out, expected.expand_as(out))


@pytest.mark.parametrize("argument", [{"combine": "sum"}, {"norm": "l1"}])
def test_refused_arguments(argument: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(argument.values()))):
        SGFormer(12, 1, **argument)
