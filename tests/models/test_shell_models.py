"""DRew against PyG's GCNConv on the edges of every distance, GRED against its recurrence step by step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.nn import GCNConv

from graphbench import registry
from graphbench.config import load_config
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.models.drew import DRew
from graphbench.models.gred import GRED
from graphbench.models.pre_layers import LayerSettings
from graphbench.preflight import describe
from graphbench.structures import GraphBatch
from tests.contract import example_batch, shaken
from tests.layers.test_spn import listed
from tests.paths import ROOT

DIM, SIZES = 12, (9, 1, 6)


def build(model: Any, **own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(None, {}, DIM, batch_norm=False),
        "dim_encoded": DIM,
        "edge_encoder": EdgeEncoder(None, {}, DIM, batch_norm=False),
        "dim_edge": DIM,
        "dim": DIM,
        "layers": 3,
        "head": lambda width: NodeHead(width, 3),
        **own,
    }
    known = registry.parameters(model)
    taken = {name: value for name, value in arguments.items() if name in known or name in own}
    return shaken(registry.construct(model, taken).double()).eval()


def shell(batch: GraphBatch, hops: int) -> Tensor:
    """(N, N) whether j is so many hops from i."""
    return torch.block_diag(*(batch.pairs.block(graph) == hops for graph in range(batch.num_graphs))).double()


@pytest.mark.parametrize(("nu", "hops"), [(1, 3), (2, 3), (None, 2)])
@pytest.mark.parametrize("steps", [{}, {"batchnorm": False, "l2norm": False, "act": "tanh"}])
def test_drew_is_gcnconv_along_shells(nu: int | None, hops: int, steps: dict[str, Any]) -> None:
    model, batch = build(DRew, post=LayerSettings(**steps), nu=nu, hops=hops), example_batch(SIZES)
    states = [batch.x]
    for t, layer in enumerate(model.layers):
        total = torch.zeros_like(batch.x)
        for k in range(1, min(t + 1, hops) + 1):
            target, source = shell(batch, k).nonzero().t()
            peer = GCNConv(DIM, DIM, bias=layer.bias is not None).double()
            peer.lin.weight.data = layer.weight[k - 1].t()
            if layer.bias is not None:
                peer.bias.data = layer.bias[k - 1]
            new = peer(states[t if nu is None else t - max(k - nu, 0)], torch.stack([source, target]))
            if not steps:
                of_hop = slice((k - 1) * DIM, k * DIM)
                norm = layer.norm
                new = F.batch_norm(
                    new, *(x[of_hop] for x in (norm.running_mean, norm.running_var, norm.weight, norm.bias))
                )
            new = F.normalize(new.relu(), dim=1) if not steps else new.tanh()
            total = total + new
        new = states[-1] + total.relu()
        states.append(new if steps else F.normalize(new, dim=1))
    for known in (batch, listed(batch, hops)):
        torch.testing.assert_close(model(known), model.head.mlp(states[-1]))


def recurrence(layer: Any, u: list[Tensor]) -> Tensor:
    """The last state, in complex numbers, from the furthest shell on."""
    r = layer.recurrence
    eigenvalues = torch.exp(torch.complex(-r.nu.exp(), r.theta.exp()))
    reads = torch.complex(*r.reads) * r.gamma.exp()
    state = torch.zeros(1, dtype=torch.complex128)
    for each in reversed(u):
        state = eigenvalues * state + F.layer_norm(each, (DIM,), layer.norm.weight, layer.norm.bias).to(reads) @ reads
    return state


@pytest.mark.parametrize("own", [{}, {"state_dim": 5, "expand": 2, "hops": 2}])
def test_gred_is_its_recurrence(own: dict[str, Any]) -> None:
    model, batch = build(GRED, **own), example_batch(SIZES)
    x = model.lin_in(F.gelu(batch.x))
    arriving = torch.zeros(batch.num_nodes, batch.num_edges, dtype=torch.float64)
    arriving[batch.edge_index[1], torch.arange(batch.num_edges)] = 1
    mean = arriving @ model.lin_edge(F.gelu(batch.edge_attr)) / arriving.sum(1, keepdim=True).clamp(min=1)
    x = x + mean
    hops = own.get("hops", 4)
    for layer in model.layers:
        norm = layer.norm_shells
        u = [shell(batch, k) @ x for k in range(hops + 1)]
        u = [each + layer.mlp(F.layer_norm(each, (DIM,), norm.weight, norm.bias)) for each in u]
        y = F.gelu((recurrence(layer, u) @ torch.complex(*layer.writes)).real)
        x = u[0] + layer.lin(y) * torch.sigmoid(layer.gate(y))
    for known in (batch, listed(batch, hops)):
        torch.testing.assert_close(model(known), model.head.mlp(x))


def test_eigenvalues_begin_in_their_ring() -> None:
    torch.manual_seed(0)
    model = registry.construct(
        GRED,
        {
            "encoder": NodeEncoder(None, {}, 64, batch_norm=False),
            "dim_encoded": 64,
            "edge_encoder": None,
            "dim_edge": 0,
            "dim": 64,
            "layers": 1,
            "head": lambda width: NodeHead(width, 3),
            "r_min": 0.9,
        },
    )
    recurrence = model.layers[0].recurrence
    modulus = (-recurrence.nu.exp()).exp()
    assert 0.9 <= modulus.min() < 0.95 < modulus.max() <= 1
    torch.testing.assert_close(recurrence.gamma.exp(), (1 - modulus**2).sqrt(), rtol=1e-2, atol=1e-4)


def gred_count(layers: int, d: int, v: int, tables: int, out: int, hidden: bool) -> int:
    """Of the released program: norms, MLP, recurrence, gated map; tables of categories, first map, prediction."""
    square = d * d + d
    layer = 2 * d + 2 * square + 2 * d + 3 * v + 4 * d * v + 2 * square
    return layers * layer + tables * d + square + (square if hidden else 0) + d * out + out


@pytest.mark.parametrize(
    ("path", "count"),
    [
        # the second table and map are those of the bonds
        ("gnnbench/gred-zinc", gred_count(11, 72, 72, 28, 1, hidden=True) + 4 * 72 + 72 * 72 + 72),
        ("lrgb/gred-peptides-func", gred_count(8, 88, 88, 174, 10, hidden=True)),
        ("lrgb/gred-peptides-struct", gred_count(4, 128, 96, 174, 11, hidden=True)),
        # W (d x d) and BatchNorm of every hop of every layer, tables of OGB's atoms, a linear head
        ("lrgb/drew-peptides-func", 23 * 24 // 2 * (42 * 42 + 2 * 42) + 174 * 42 + 42 * 10 + 10),
    ],
)
def test_count_is_that_of_the_released_program(path: str, count: int) -> None:
    config = load_config(ROOT / f"configs/{path}.yaml", ["ogb_atom_vocabulary", "5"])
    assert describe(config).params == count


@pytest.mark.parametrize(
    ("model", "own", "message"),
    [
        (DRew, {"hops": 0}, "hops must be at least 1, received 0"),
        (DRew, {"nu": 0}, "nu must be at least 1, received 0"),
        (DRew, {"dim_encoded": 5}, "received 5 and 12 columns"),
        (GRED, {"r_min": 1.0}, "received r_min=1.0, r_max=1.0"),
        (GRED, {"stem": False}, "received 12 columns and an edge encoder"),
        (GRED, {"expand": 0}, "expand must be at least 1, received 0"),
    ],
)
def test_wrong_values_are_named(model: Any, own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(model, **own)


def test_the_shells_of_gred_have_no_direction() -> None:
    """As its release computes them; edges of superpixels have one."""
    needed = GRED.required_transforms({"hops": 3})
    assert needed == {"HopNeighbors": {"cutoff": 3, "undirected": True}}
