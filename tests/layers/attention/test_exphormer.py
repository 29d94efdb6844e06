"""Exphormer's attention and layers against recorded outputs and gradients of the released code."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.encoders.expander import ExpanderEdges
from graphbench.layers.attention.e_transformer import ETransformer
from graphbench.layers.attention.exphormer import Exphormer
from graphbench.layers.gps import GPSBlock
from graphbench.layers.local.gcn import GCN
from graphbench.layers.local.gin import GINE
from graphbench.layers.single import SingleBlock
from graphbench.structures import EdgeSet, GraphBatch
from tests.contract import CHECKS, Subject, check_corner_cases, example_batch, shaken
from tests.joined import joined
from tests.layers.recorded import batch_of, close

ATTENTIONS = ["edges_virtual1_dimedge", "expander_edges_virtual2", "expander_only", "expander_virtual4"]
LAYERS = [
    "CustomGatedGCN_Exphormer_batch",
    "CustomGatedGCN_Exphormer_graphnorm",
    "Exphormer_batch",
    "GCN_Exphormer_batch",
    "GINE_Exphormer_batch_2layers",
]


class Recorded(nn.Module):
    """What a recording went through: the preparation, then attention or layers."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self.prepare = ExpanderEdges(
            config["dim"],
            config.get("dim_edge", config["dim"]),
            expander=config["expander"],
            add_edge_index=config["add_edge_index"],
            num_virtual_nodes=config["num_virt_node"],
        )
        names = config.get("layer_type", "Exphormer").split("+")
        context = {key: config["dim"] for key in ("dim", "dim_in", "dim_out", "dim_edge")}
        context |= {"heads": config["heads"], "act": "relu"}
        if "dim_edge" in config:
            self.attention = Exphormer(config["dim"], config["heads"], dim_edge=config["dim_edge"])
            return
        self.layers = nn.ModuleList(
            GPSBlock(config["dim"], [_part(name, context) for name in names], norm=config["norm"])
            for _ in range(config["layers"])
        )

    def forward(self, batch: GraphBatch) -> dict[str, Tensor]:
        h, e, seen = batch.x, batch.edge_attr, self.prepare(batch.x, batch.edge_attr, batch)
        if hasattr(self, "attention"):
            h, seen = self.attention(h, e, seen)
        else:
            for layer in self.layers:
                h, e, seen = layer(h, e, seen)
        outputs = {"x": h, "edge_attr": e}
        return outputs | {"virtual": seen.state.virtual_nodes} if seen.state.virtual_nodes is not None else outputs


def _part(name: str, context: dict[str, Any]) -> nn.Module:
    namespace = "layers/attention" if name == "Exphormer" else "layers/local"
    return registry.construct(registry.lookup(namespace, name), context)


RENAMES = (
    (r"^edge_type_emb\.expander\.", "prepare.expander."),
    (r"^virtual\.(\w+?)_emb\.", r"prepare.virtual.\1."),
    (r"\.ffn\.(in|out)\.", r".feed_forward.lin_\1."),
    (r"\.norm_local\.", ".branches.0.norm."),
    (r"\.norm_attn\.", ".branches.-1.norm."),
    (r"\.local\.mlp\.1\.", ".local.mlp.2."),
    (r"\.local\.", ".branches.0.part."),
    (r"^attn\.", "attention."),
    (r"\.attn\.", ".branches.-1.part."),
)


def renamed(arrays: dict[str, Any], kind: str) -> dict[str, Tensor]:
    """Recorded weights or gradients under our names."""
    last = str(len(arrays["config"].get("layer_type", "").split("+")) - 1)
    found = {}
    for key, value in arrays.items():
        if key.startswith(f"{kind}/"):
            name = key.removeprefix(f"{kind}/")
            for pattern, replacement in RENAMES:
                name = re.sub(pattern, replacement, name)
            found[name.replace("branches.-1", f"branches.{last}")] = value.double()
    return found


def recorded_batch(arrays: dict[str, Any]) -> GraphBatch:
    """The recorded graphs with their expander edges."""
    batch = batch_of(arrays)
    count = arrays["in/expander_edges_per_graph"]
    ptr = torch.cat([torch.zeros(1, dtype=torch.int64), count.cumsum(0)])
    first = torch.repeat_interleave(batch.ragged.ptr[:-1], count)
    return batch.replace(edge_sets={"expander": EdgeSet(arrays["in/expander_edges_local"].T + first, ptr)})


@pytest.mark.parametrize(
    "name", [f"attention_{each}" for each in ATTENTIONS] + [f"multilayer_{each}" for each in LAYERS]
)
def test_equals_released_code(name: str, golden: Any) -> None:
    arrays = golden(f"exphormer/{name}")
    module, batch = Recorded(arrays["config"]).double().eval(), recorded_batch(arrays)
    missing = module.load_state_dict(renamed(arrays, "w"), strict=False)
    assert not missing.unexpected_keys
    assert all(key.endswith("num_batches_tracked") for key in missing.missing_keys)
    outputs = module(batch)
    for key, value in outputs.items():
        if f"out/{key}" in arrays:
            close(value, arrays[f"out/{key}"], key)
    seeds = {key: arrays[f"in/grad_seed.{key}"] for key in outputs if f"in/grad_seed.{key}" in arrays}
    sum((outputs[key] * seed).sum() for key, seed in seeds.items()).backward()
    expected = renamed(arrays, "grad")
    for key, value in {"x": batch.x, "edge_attr": batch.edge_attr}.items():
        if f"in.{key}" in expected:
            close(value.grad, expected.pop(f"in.{key}"), f"gradient of input {key}")
        else:
            assert value.grad is None
    for key, parameter in module.named_parameters():
        if key in expected:
            close(parameter.grad, expected.pop(key), f"gradient of {key}")
        else:
            assert parameter.grad is None or not parameter.grad.any(), key
    assert not expected


def _with_expander(*args: Any, **more: Any) -> GraphBatch:
    """The example graphs; both directions of a ring serve as expander edges."""
    batch = example_batch(*args, **more)
    sizes, ptr = batch.ragged.sizes, batch.ragged.ptr.tolist()
    rings = [torch.stack([torch.arange(n), (torch.arange(n) + 1) % max(n, 1)]) + at for n, at in zip(sizes, ptr)]
    both = [torch.cat([ring, ring.flip(0)], dim=1) for ring in rings]
    index = torch.cat([torch.empty(2, 0, dtype=torch.int64), *both], dim=1)
    return batch.replace(edge_sets={"expander": EdgeSet(index, 2 * batch.ragged.ptr)})


class _Stack(nn.Module):
    def __init__(self, virtual: int) -> None:
        super().__init__()
        self.prepare = ExpanderEdges(12, 12, num_virtual_nodes=virtual)
        self.layers = nn.ModuleList(Exphormer(12, 3, dim_edge=12) for _ in range(2))

    def forward(self, batch: GraphBatch) -> dict[str, Tensor]:
        h, seen = batch.x, self.prepare(batch.x, batch.edge_attr, batch)
        for layer in self.layers:
            h, seen = layer(h, batch.edge_attr, seen)
        return {"h": h}


@pytest.mark.parametrize("virtual", [0, 3])
@pytest.mark.parametrize("check", [name for name in CHECKS if name not in ("permutation", "batch_independence")])
def test_contract_with_prepared_pairs(check: str, virtual: int) -> None:
    module = shaken(_Stack(virtual).double())
    CHECKS[check](Subject(module, lambda m, b: m(b), {"h": "node"}, {"h": 12}), _with_expander())


@pytest.mark.parametrize("virtual", [0, 3])
def test_corner_cases_with_prepared_pairs(virtual: int) -> None:
    module = shaken(_Stack(virtual).double())
    check_corner_cases(Subject(module, lambda m, b: m(b), {"h": "node"}, {"h": 12}), _with_expander)


@pytest.mark.parametrize("virtual", [0, 2])
def test_a_graph_does_not_depend_on_its_batch(virtual: int) -> None:
    module = shaken(_Stack(virtual).double()).eval()
    graphs = [_with_expander((n,), seed=n) for n in (4, 1, 0, 9)]
    together = module(joined(graphs))["h"]
    alone = torch.cat([module(graph)["h"] for graph in graphs])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)


def test_the_numbering_of_nodes_does_not_matter() -> None:
    module, batch = shaken(_Stack(2).double()).eval(), _with_expander((9,))
    order = torch.randperm(9)
    pairs = batch.edge_sets["expander"]
    other = dataclasses.replace(
        batch,
        x=batch.x[order],
        edge_index=order.argsort()[batch.edge_index],
        edge_sets={"expander": EdgeSet(order.argsort()[pairs.index], pairs.ptr)},
    )
    torch.testing.assert_close(module(other)["h"], module(batch)["h"][order])


def test_virtual_nodes_carry_news_across_a_graph() -> None:
    """Without edges, node 0 hears of node 3 through a virtual node, one layer later."""
    batch = _with_expander((4,), edges=False).replace(edge_sets={})
    module = _Stack(1)
    module.prepare = ExpanderEdges(12, 12, expander=False, num_virtual_nodes=1)
    shaken(module.double()).eval()
    moved = batch.replace(x=batch.x + torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)[:, None])
    assert not torch.allclose(module(batch)["h"][0], module(moved)["h"][0])
    first = module.layers[0]
    before, after = (first(b.x, b.edge_attr, module.prepare(b.x, b.edge_attr, b))[0] for b in (batch, moved))
    torch.testing.assert_close(before[0], after[0])


def test_attention_without_preparation_reads_the_edges() -> None:
    batch, ours, theirs = example_batch(), Exphormer(12, 3, dim_edge=12).double(), ETransformer(12, 3, dim_edge=12)
    theirs.double().load_state_dict(ours.state_dict())
    expected, after = ours(batch.x, batch.edge_attr, batch)
    assert after is batch
    torch.testing.assert_close(theirs(batch.x, batch.edge_attr, batch), expected)
    with pytest.raises(ValueError, match="edge encoder"):
        ours(batch.x, None, batch)


def test_edge_attention_without_features() -> None:
    batch = example_batch()
    layer = ETransformer(12, 3, dim_edge=12, use_edge_attr=False).double()
    assert sum(each.numel() for each in layer.parameters()) == 3 * 12 * 12
    torch.testing.assert_close(layer(batch.x, None, batch), layer(batch.x, batch.edge_attr, batch))
    owner = ETransformer(12, 3, dim_edge=5).double()
    owner.load_state_dict(layer.state_dict() | {"edge.weight": torch.randn(12, 5)})
    torch.testing.assert_close(owner(batch.x, None, batch), layer(batch.x, None, batch))


def test_parameter_count() -> None:
    assert sum(each.numel() for each in Exphormer(12, 3, dim_edge=8).parameters()) == 3 * 12 * 12 + 12 * 8


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="dim=12, heads=5"):
        Exphormer(12, 5, dim_edge=12)
    with pytest.raises(ValueError, match="dim=12, heads=5"):
        ETransformer(12, 5, dim_edge=12)


def test_single_block_is_one_part_and_relu() -> None:
    batch = example_batch()
    block = shaken(SingleBlock(12, GCN(12, 12), norm="batch").double()).eval()
    h, e, after = block(batch.x, batch.edge_attr, batch)
    expected = block.branch.norm(batch.x + block.branch.part(batch.x, None, batch)[0], batch).relu()
    torch.testing.assert_close(h, expected)
    assert e is batch.edge_attr
    assert after is batch
    assert sum(each.numel() for each in block.parameters()) == 12 * 12 + 12 + 24


def test_single_block_carries_virtual_nodes_and_reads_edge_sets() -> None:
    batch = _with_expander()
    prepare = ExpanderEdges(12, 12, num_virtual_nodes=2).double()
    seen = prepare(batch.x, batch.edge_attr, batch)
    attention = SingleBlock(12, Exphormer(12, 3, dim_edge=12)).double().eval()
    _, _, after = attention(batch.x, batch.edge_attr, seen)
    assert not torch.equal(after.state.virtual_nodes, seen.state.virtual_nodes)
    local = SingleBlock(12, GINE(12, 12, dim_edge=12), edges="exp").double().eval()
    h, e, _ = local(batch.x, batch.edge_attr, seen)
    pairs = seen.edge_sets["exp"]
    alone = batch.replace(edge_index=pairs.index, edge_attr=seen.state.edge_states["exp"])
    expected = SingleBlock(12, local.branch.part).double().eval()(batch.x, alone.edge_attr, alone)[0]
    torch.testing.assert_close(h, expected)
    assert e is batch.edge_attr
