"""Local layers: recorded GatedGCN, PyG's convolutions with the same weights, refused arguments."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, GINConv, GINEConv, PNAConv, SAGEConv
from torch_geometric.nn import GENConv as PyGGENConv
from torch_geometric.nn.aggr import DegreeScalerAggregation

from graphbench.layers.local.gat import GAT
from graphbench.layers.local.gated_gcn import CustomGatedGCN
from graphbench.layers.local.gcn import GCN
from graphbench.layers.local.gen import GENConv
from graphbench.layers.local.gin import GIN, GINE
from graphbench.layers.local.pna import PNA
from graphbench.layers.local.pna_simple import PNASimple, PNATowers
from graphbench.layers.local.sage import SAGE
from graphbench.structures import GraphBatch, Ragged
from tests.contract import CHECKS, Subject, check_corner_cases, example_batch, shaken
from tests.layers.recorded import batch_of, check_gradients, close, load


@pytest.mark.parametrize("name", ["gatedgcn_relu", "gatedgcn_gelu_nores", "gatedgcn_equivstable"])
def test_gated_gcn_equals_graphgps(name: str, golden: Any) -> None:
    arrays = golden(f"graphgps/{name}")
    config = arrays["config"]
    layer = CustomGatedGCN(
        8,
        8,
        dim_edge=8,
        act=config["act"],
        residual=config["residual"],
        dropout=config["dropout"],
        equivstable=config["equivstable_pe"],
    )
    load(layer, arrays)
    batch = batch_of(arrays)
    h, e = layer(batch.x, batch.edge_attr, batch)
    close(h, arrays["out/x"], "nodes")
    close(e, arrays["out/edge_attr"], "edges")
    check_gradients(layer, batch, {"x": h, "edge_attr": e}, arrays)


def awkward_batch() -> GraphBatch:
    """Given self loops, repeated edges, one-way edges, isolated nodes."""
    edges = [[0, 0], [0, 1], [1, 0], [1, 0], [3, 2], [2, 2], [2, 2], [5, 6], [6, 5]]
    return GraphBatch(
        ragged=Ragged.from_sizes([5, 0, 3]),
        edge_index=torch.tensor(edges).T.contiguous(),
        x=torch.randn(8, 6, dtype=torch.float64, requires_grad=True),
        edge_attr=torch.randn(len(edges), 6, dtype=torch.float64, requires_grad=True),
    )


def plain_batch() -> GraphBatch:
    batch = example_batch(node_dim=6, edge_dim=6)
    return batch.replace(x=batch.x.requires_grad_(), edge_attr=batch.edge_attr.requires_grad_())


def compare(ours: Any, theirs: Any, names: dict[str, str], batch: GraphBatch, edges: bool) -> None:
    """Outputs and gradients of both, ours after taking over their parameters."""
    ours, theirs = ours.double(), theirs.double()
    state = theirs.state_dict()
    ours.load_state_dict({own: state[name] for own, name in names.items()})
    out, _ = ours(batch.x, batch.edge_attr, batch)
    arguments = (batch.x, batch.edge_index, batch.edge_attr) if edges else (batch.x, batch.edge_index)
    expected = theirs(*arguments)
    torch.testing.assert_close(out, expected, rtol=1e-11, atol=1e-12)
    inputs = (batch.x, batch.edge_attr) if edges else (batch.x,)
    seed = torch.randn_like(out)
    found = torch.autograd.grad(out, (*inputs, *ours.parameters()), seed)
    wanted = dict(zip(("x", "e")[: len(inputs)], torch.autograd.grad(expected, inputs, seed, retain_graph=True)))
    parameters = dict(theirs.named_parameters())
    wanted |= {
        own: torch.autograd.grad(expected, parameters[names[own]], seed, retain_graph=True)[0]
        for own, _ in ours.named_parameters()
    }
    for value, (name, reference) in zip(found, wanted.items(), strict=True):
        torch.testing.assert_close(value, reference, rtol=1e-10, atol=1e-11, msg=name)


BATCHES = pytest.mark.parametrize("make", [plain_batch, awkward_batch])
MLP = {f"mlp.{i}.{part}": f"nn.{i}.{part}" for i in (0, 2) for part in ("weight", "bias")}


@BATCHES
def test_gcn_equals_pyg(make: Any) -> None:
    compare(GCN(6, 4), GCNConv(6, 4), {"lin.weight": "lin.weight", "bias": "bias"}, make(), edges=False)


@BATCHES
def test_gcn_without_self_loops_equals_pyg(make: Any) -> None:
    theirs = GCNConv(6, 4, add_self_loops=False, bias=False)
    compare(GCN(6, 4, bias=False, self_loops=False), theirs, {"lin.weight": "lin.weight"}, make(), edges=False)


@BATCHES
def test_gin_equals_pyg(make: Any) -> None:
    ours = GIN(6, 4, eps=0.3, train_eps=True)
    compare(ours, GINConv(ours.mlp, eps=0.3, train_eps=True), MLP | {"eps": "eps"}, make(), edges=False)


@BATCHES
@pytest.mark.parametrize("dim_edge", [6, 5])
def test_gine_equals_pyg(make: Any, dim_edge: int) -> None:
    batch, ours = make(), GINE(6, 4, dim_edge=dim_edge)
    batch = batch.replace(edge_attr=batch.edge_attr.detach()[:, :dim_edge].clone().requires_grad_())
    theirs = GINEConv(ours.mlp, edge_dim=None if dim_edge == 6 else dim_edge)
    names = MLP | {"eps": "eps"} | ({} if dim_edge == 6 else {f"edge_lin.{p}": f"lin.{p}" for p in ("weight", "bias")})
    compare(ours, theirs, names, batch, edges=True)


@BATCHES
def test_gat_equals_pyg(make: Any) -> None:
    names = {"lin.weight": "lin.weight", "bias": "bias", "att_source": "att_src", "att_target": "att_dst"}
    with_edges = {"lin_edge.weight": "lin_edge.weight", "att_edge": "att_edge"}
    compare(GAT(6, 8, heads=2), GATConv(6, 4, heads=2), names, make(), edges=False)
    theirs = GATConv(6, 4, heads=2, edge_dim=6)
    compare(GAT(6, 8, heads=2, dim_edge=6), theirs, names | with_edges, make(), edges=True)


def test_gat_drops_out_attention_weights() -> None:
    """One of them, in training: rows that sum to 0 or 2 where the node itself is the only neighbour."""
    batch = GraphBatch(Ragged.from_sizes([50]), torch.zeros(2, 0, dtype=torch.int64), x=torch.ones(50, 3))
    layer = GAT(3, 1, attention_dropout=0.5)
    whole = layer.eval()(batch.x, None, batch)[0]
    found = layer.train()(batch.x, None, batch)[0]
    kept = found != 0
    assert kept.any()
    assert not kept.all()
    torch.testing.assert_close(found[kept], 2 * whole[kept])


@BATCHES
def test_sage_equals_pyg(make: Any) -> None:
    names = {
        "lin_neighbor.weight": "lin_l.weight",
        "lin_neighbor.bias": "lin_l.bias",
        "lin_self.weight": "lin_r.weight",
    }
    compare(SAGE(6, 4), SAGEConv(6, 4), names, make(), edges=False)


@BATCHES
def test_gine_of_one_map_equals_pyg(make: Any) -> None:
    ours = GINE(6, 4, dim_edge=6, mlp="norm_and_map")
    names = {
        f"mlp.{i}.{part}": f"nn.{i}.{part}"
        for i, parts in (
            (0, ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")),
            (1, ("weight",)),
        )
        for part in parts
    }
    names |= {"mlp.1.bias": "nn.1.bias", "eps": "eps"}
    compare(ours, GINEConv(torch.nn.Sequential(torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 4))), names, make(), True)


@BATCHES
@pytest.mark.parametrize("dim_edge", [6, 5])
def test_pna_equals_pyg(make: Any, dim_edge: int) -> None:
    batch = make()
    batch = batch.replace(edge_attr=batch.edge_attr.detach()[:, :dim_edge].clone().requires_grad_())
    theirs = PNAConv(
        6, 4, ["mean", "max", "sum"], ["identity"], torch.tensor([1, 3, 2]), dim_edge, 1, 1, 1, divide_input=False
    )
    pairs = {"edge_lin": "edge_encoder", "pre": "pre_nns.0.0", "post": "post_nns.0.0", "lin_out": "lin"}
    names = {f"{own}.{part}": f"{each}.{part}" for own, each in pairs.items() for part in ("weight", "bias")}
    compare(PNA(6, 4, dim_edge=dim_edge), theirs, names, batch, edges=True)


@BATCHES
@pytest.mark.parametrize("degrees", [[1, 3, 2], [4], None])
def test_simple_pna_equals_pygs_aggregation(make: Any, degrees: list[int] | None) -> None:
    batch, layer = make(), PNASimple(6, 4, degrees=degrees).double()
    scalers = ["identity", "amplification", "attenuation"]
    histogram = torch.tensor([1, 3, 2])
    peer = DegreeScalerAggregation(["mean", "max", "min", "std"], scalers, histogram).double()
    peer.avg_deg_log.data.fill_(0.5 * math.log(2) + math.log(3) / 3 if degrees == [1, 3, 2] else 1.0)
    source, target = batch.edge_index
    order = target.argsort(stable=True)
    aggregates = peer(batch.x[source[order]], target[order], dim_size=batch.num_nodes)
    torch.testing.assert_close(layer(batch.x, None, batch)[0], layer.lin(aggregates))


@BATCHES
@pytest.mark.parametrize("towers", [1, 2])
def test_pna_in_towers_equals_pyg(make: Any, towers: int) -> None:
    batch, layer = make(), shaken(PNATowers(6, 4, degrees=[1, 3, 2], towers=towers).double())
    scalers = ["identity", "amplification", "attenuation"]
    histogram = torch.tensor([1, 3, 2])
    peer = PNAConv(6, 4, ["mean", "max", "min", "std"], scalers, histogram, towers=towers, divide_input=True).double()
    peer.aggr_module.avg_deg_log.data.copy_(layer.mean_log_degree)
    for tower in range(towers):
        pre, post = peer.pre_nns[tower][0], peer.post_nns[tower][0]
        pre.weight.data = torch.cat([layer.target.weight[tower], layer.source.weight[tower]]).t()
        pre.bias.data, post.bias.data = layer.target.bias[tower, 0], layer.post.bias[tower, 0]
        post.weight.data = layer.post.weight[tower].t()
    peer.lin.load_state_dict(layer.lin.state_dict())
    torch.testing.assert_close(layer(batch.x, None, batch)[0], peer(batch.x, batch.edge_index))


def test_towers_share_channels_equally() -> None:
    with pytest.raises(ValueError, match="received dim_in=6, dim_out=4, towers=4"):
        PNATowers(6, 4, towers=4)


@BATCHES
@pytest.mark.parametrize(("dim_out", "dim_edge"), [(6, 6), (4, 6), (6, 5)])
def test_gen_conv_equals_pyg(make: Any, dim_out: int, dim_edge: int) -> None:
    batch = make()
    batch = batch.replace(edge_attr=batch.edge_attr.detach()[:, :dim_edge].clone().requires_grad_())
    ours, theirs = GENConv(6, dim_out, dim_edge=dim_edge), PyGGENConv(6, dim_out, edge_dim=dim_edge)
    named = {"lin_source": "lin_src", "lin_target": "lin_dst", "lin_edge": "lin_edge", "mlp.3": "mlp.4"}
    names = {}
    for own in ours.state_dict():
        layer, part = own.rsplit(".", 1)
        names[own] = f"{named.get(layer, layer)}.{part}"
    compare(ours, theirs, names, batch, edges=True)


def test_gen_conv_without_edge_states_equals_pyg() -> None:
    ours, theirs = GENConv(6, 6, dim_edge=6), PyGGENConv(6, 6)
    names = {own: own.replace("mlp.3", "mlp.4") for own in ours.state_dict()}
    batch = plain_batch().replace(edge_attr=None)
    ours, theirs = ours.double(), theirs.double()
    ours.load_state_dict({own: theirs.state_dict()[name] for own, name in names.items()})
    h, e = ours(batch.x, None, batch)
    torch.testing.assert_close(h, theirs(batch.x, batch.edge_index))
    assert e is None


def with_encoding(batch: GraphBatch) -> GraphBatch:
    return batch.with_state(stable_encoding=batch.x[:, :3])


def test_gine_with_distance_gates_by_hand() -> None:
    """Every node adds its own state (the released variant added node 1's), messages are weighted edge by edge."""
    batch = with_encoding(plain_batch())
    layer = shaken(GINE(6, 4, dim_edge=6, act="gelu", eps=0.2, equivstable=True).double())
    expected = 1.2 * batch.x
    for (s, t), e in zip(batch.edge_index.T.tolist(), batch.edge_attr):
        squared = sum((a - b) ** 2 for a, b in zip(batch.x[s, :3], batch.x[t, :3])).view(1)
        gate = torch.sigmoid(layer.pe_gate[2](layer.pe_gate[0](squared).relu()))
        row = torch.zeros(batch.num_nodes, 1, dtype=torch.float64)
        row[t] = 1.0
        expected = expected + row * ((batch.x[s] + e).relu() * gate)
    torch.testing.assert_close(layer(batch.x, batch.edge_attr, batch)[0], layer.mlp(expected))
    assert sum(each.numel() for each in layer.pe_gate.parameters()) == 3 * 4 + 1


@pytest.mark.parametrize("kind", [CustomGatedGCN, GINE])
def test_gated_messages_need_the_encoding(kind: Any) -> None:
    batch = plain_batch()
    with pytest.raises(ValueError, match=r"no encoder has supplied: name one that does in dataset\.node_encoder_name"):
        kind(6, 6, dim_edge=6, equivstable=True).double()(batch.x, batch.edge_attr, batch)


@pytest.mark.parametrize("check", [*CHECKS, "corner_cases"])
@pytest.mark.parametrize("kind", [CustomGatedGCN, GINE])
def test_contract_with_distance_gates(kind: Any, check: str) -> None:
    torch.manual_seed(0)
    subject = Subject(
        shaken(kind(12, 12, dim_edge=12, equivstable=True).double()),
        lambda module, batch: dict(zip("he", module(batch.x, batch.edge_attr, with_encoding(batch)))),
        {"h": "node", "e": "edge"},
        {"h": 12, "e": 12},
    )
    if check == "corner_cases":
        check_corner_cases(subject)
    else:
        CHECKS[check](subject, example_batch())


def test_gine_refuses_an_unknown_mlp() -> None:
    with pytest.raises(ValueError, match="'deep'"):
        GINE(4, 4, dim_edge=4, mlp="deep")  # type: ignore[arg-type]


def test_gat_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="dim_out=10, heads=4"):
        GAT(10, 10, heads=4)


def test_gcn_refuses_an_unknown_normalisation() -> None:
    with pytest.raises(ValueError, match="'symmetric'"):
        GCN(4, 4, norm="symmetric")  # type: ignore[arg-type]


def test_adjacency_is_computed_once_per_batch() -> None:
    batch, calls = example_batch(), []
    first = GCN(12, 12).double()
    first(batch.x, None, batch)
    kept = dict(batch._memo)
    GCN(12, 12).double()(batch.x, None, batch)
    calls = [name for name, value in batch._memo.items() if kept.get(name) is not value]
    assert kept
    assert not calls
