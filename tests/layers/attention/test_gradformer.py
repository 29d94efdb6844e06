"""Gradformer's masks and layers against the recorded numbers of the released code, and what its options say."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.layers.attention.gradformer import Gradformer
from graphbench.layers.attention.transformer import Transformer
from graphbench.layers.gps import GPSBlock
from graphbench.ops.decay_attention import Decay
from graphbench.structures import GraphBatch, PairBlocks
from tests.contract import example_batch
from tests.layers.recorded import batch_of, check_gradients, close, load
from tests.layers.test_gps import ours

MASKS = ("mask_gamma03_start0", "mask_large_start", "mask_slope0", "mask_slope01")
LAYERS = ("layer_GINE_slope01", "layer_GIN_slope0", "layer_GatedGCN", "layer_GatedGCN_equivstable", "layer_noconv")


def hops_of(arrays: dict[str, Any]) -> PairBlocks:
    """The recorded distances, 510 where there is no path."""
    distance = arrays["in/spd_flat"].long()
    return PairBlocks(distance.masked_fill(distance == 510, 255).to(torch.uint8), _sizes(arrays))


def _sizes(arrays: dict[str, Any]) -> tuple[int, ...]:
    return tuple(arrays["in/ptr"].diff().tolist())


def flat(padded: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """(G, heads, n, n) -> (sum n_g^2, heads)."""
    return torch.cat([block[:, :n, :n].permute(1, 2, 0).flatten(0, 1) for block, n in zip(padded, sizes, strict=True)])


@pytest.mark.parametrize("name", MASKS)
def test_masks_equal_the_released_ones(golden: Any, name: str) -> None:
    arrays = golden(f"gradformer/{name}")
    config, sizes = arrays["config"], _sizes(arrays)
    start = arrays["w/start"].double().requires_grad_()
    factors = Decay(config["gamma"], config["slope"]).factors(hops_of(arrays).distance, start)
    close(factors, flat(arrays["out/mask"], sizes), "mask", 1e-13)
    (factors * flat(arrays["in/grad_seed.mask"].double(), sizes)).sum().backward()
    # What is recorded includes padding, at distance 0.
    padding = [size for size in sizes if size < arrays["out/mask"].shape[-1]]
    if padding:
        beyond = arrays["in/grad_seed.mask"].double().clone()
        for graph, size in enumerate(sizes):
            beyond[graph, :, :size, :size] = 0
        again = Decay(config["gamma"], config["slope"]).factors(torch.zeros(1, dtype=torch.uint8), start)
        (again[0] * beyond.sum((0, 2, 3))).sum().backward()
    close(start.grad, arrays["grad/start"], "gradient of the start points", 1e-12)


def block_of(config: dict[str, Any]) -> GPSBlock:
    dim = config["dim"]
    local = None
    if config["local"] != "None":
        own = {"update_edges": False, "residual_again": True} if config["local"] == "GatedGCN" else {}
        context = {key: dim for key in ("dim_in", "dim_out", "dim_edge")}
        local = registry.construct(
            registry.lookup("layers/local", config["local"]),
            {**(context | {"equivstable": config["equivstable_pe"]}), **own},
        )
    attention = Gradformer(dim, config["heads"], decay=config["gamma"], slope=config["slope"])
    return GPSBlock(dim, [local, attention])


def in_block(name: str) -> str:
    return "branches.1.part.start" if name == "start" else ours(name)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_equal_the_released_ones(golden: Any, name: str) -> None:
    arrays = golden(f"gradformer/{name}")
    config = arrays["config"]
    block = load(block_of(config), arrays, in_block)
    batch = batch_of(arrays).replace(pairs=hops_of(arrays))
    h, e, _ = block(batch.x, batch.edge_attr, batch)
    close(h, arrays["out/x"], "nodes")
    assert e is batch.edge_attr
    weights = block.branches[1].part.attention_weights(batch.x, None, batch)
    recorded = arrays["out/attention_weights_padded"]
    for found, expected in zip(weights, recorded, strict=True):
        close(found, expected[:, : found.shape[1], : found.shape[2]], "attention weights")
    check_gradients(block, batch, {"x": h}, arrays, in_block)


def test_without_decay_it_is_the_transformer() -> None:
    batch = example_batch()
    plain, decaying = Transformer(12, 3).double(), Gradformer(12, 3, decay=1.0).double()
    decaying.load_state_dict(plain.state_dict() | {"start": torch.tensor([0.0, 1.0, 2.0])})
    torch.testing.assert_close(decaying(batch.x, None, batch), plain(batch.x, None, batch))
    for pair in zip(*(each.attention_weights(batch.x, None, batch) for each in (decaying, plain)), strict=True):
        torch.testing.assert_close(*pair)


@pytest.mark.parametrize("learn", [True, False])
def test_start_points_learn_and_are_reported(learn: bool) -> None:
    batch = example_batch()
    layer = Gradformer(12, 3, start=0.5, learn_start=learn).double()
    layer(batch.x, None, batch).square().sum().backward()
    assert (layer.start.grad is not None) is learn
    reported = layer.statistics(batch.x, None, batch)
    assert {name: values.tolist() for name, values in reported.items()} == {f"start_{i}": [0.5] * 5 for i in range(3)}


@pytest.mark.parametrize("share", [True, False])
def test_layers_share_start_points_or_not(share: bool) -> None:
    from graphbench.layers.sharing import tie_layers

    layers = nn.ModuleList(Gradformer(12, 3, share_start=share) for _ in range(4))
    tie_layers(layers)
    assert len({id(layer.start) for layer in layers}) == (1 if share else 4)


@pytest.mark.parametrize(
    ("index", "key"), [("ricci", "RicciCurvature.length"), ("cosine", "CosineSimilarity.dissimilarity")]
)
def test_other_indices_take_the_place_of_hops(index: str, key: str) -> None:
    batch = example_batch()
    as_numbers = batch.pairs.distance.double().masked_fill(batch.pairs.distance == 255, torch.inf)
    other = batch.replace(pairs=None, pair_pe={key: as_numbers})
    hops, numbers = Gradformer(12, 3, start=1.0).double(), Gradformer(12, 3, start=1.0, index=index).double()
    numbers.load_state_dict(hops.state_dict())
    torch.testing.assert_close(numbers(batch.x, None, other), hops(batch.x, None, batch))
    with pytest.raises(ValueError, match=f"with index '{index}' reads what"):
        numbers(batch.x, None, batch)


def test_the_token_is_at_no_distance() -> None:
    from graphbench.encoders.positional.graph_token import GraphToken

    batch = example_batch([4])
    h, after = GraphToken(12).double()(batch.x, batch)
    layer = Gradformer(12, 3, start=0.0, decay=0.0).double()
    weights = layer.attention_weights(h, None, after)[0]
    with torch.no_grad():
        plain = torch.einsum("ihd,jhd->hij", *layer._projections(h).unbind(1)[:2])[:, 0] / 2
    torch.testing.assert_close(weights[:, 0], plain.softmax(1))
    rest = weights[:, 1:, 1:]
    assert isinstance(after, GraphBatch)
    # decay 0 and start 0: all other nodes have score 0, and so the same weight
    off = rest[:, ~torch.eye(4, dtype=torch.bool)].view(3, 4, 3)
    torch.testing.assert_close(off, off[..., :1].expand_as(off))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"index": "hops"}, "index must be one of spd, ricci, cosine; received 'hops'"),
        ({"decay": 2.0}, r"decay must lie in \[0, 1\], received 2.0"),
        ({"kind": "linear"}, "needs end"),
    ],
)
def test_wrong_values(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Gradformer(12, 3, **own)


def test_projections_may_start_equal() -> None:
    layer = Gradformer(8, 2, equal_start=True)
    q, k, v = layer.qkv.weight.chunk(3)
    assert torch.equal(q, k)
    assert torch.equal(q, v)
    assert torch.equal(q, layer.out.weight)
    assert torch.equal(layer.qkv.bias[:8], layer.out.bias)
    assert layer.out.weight.data_ptr() != layer.qkv.weight.data_ptr()
