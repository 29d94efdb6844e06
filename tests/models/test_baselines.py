"""The baselines against PyTorch Geometric's operators with the same weights, or against their dense formulas."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import APPNP as PygAPPNP
from torch_geometric.nn import GCNConv, JumpingKnowledge, SGConv
from torch_geometric.transforms import SIGN as PygSIGN
from torch_geometric.utils import add_self_loops

from graphbench import registry
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.layers.local.gcn import GCN
from graphbench.models.decoupled import APPNP, GPRGNN, H2GCN, SGC, SIGN
from graphbench.models.jknet import JKNet
from graphbench.models.pre_layers import LayerSettings, pre_layers
from graphbench.structures import GraphBatch, Ragged

NODES, FEATURES, DIM, CLASSES = 20, 6, 8, 3


@pytest.fixture
def graph() -> GraphBatch:
    """Undirected, without loops; one node is alone."""
    pairs = torch.randint(0, NODES - 1, (2, 40))
    pairs = torch.unique(pairs[:, pairs[0] != pairs[1]].sort(0).values, dim=1)
    x = torch.randn(NODES, FEATURES, dtype=torch.float64)
    return GraphBatch(Ragged.from_sizes([NODES]), torch.cat([pairs, pairs.flip(0)], dim=1), x=x)


def build(model: type[nn.Module], **own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(None, {}, FEATURES, batch_norm=False),
        "dim_encoded": FEATURES,
        "dim": DIM,
        "head": lambda width: NodeHead(width, CLASSES),
    }
    return registry.construct(model, {**arguments, **own}).double().eval()


def one_layer() -> nn.ModuleList:
    """One linear layer before the propagation, with an activation and nothing else."""
    return pre_layers(FEATURES, DIM, 1, LayerSettings(batchnorm=False, l2norm=False))


def linear(model: Any) -> nn.Linear:
    """The head."""
    return model.head.mlp.lin[0]


def normalised(graph: GraphBatch, *, loops: bool, reach: Tensor | None = None) -> Tensor:
    """Dense D^-1/2 A D^-1/2."""
    matrix = torch.zeros(NODES, NODES, dtype=torch.float64)
    matrix[graph.edge_index[1], graph.edge_index[0]] = 1
    matrix = matrix if reach is None else reach
    matrix = matrix + torch.eye(NODES) if loops else matrix
    scale = matrix.sum(1).clamp(min=1e-30).rsqrt() * (matrix.sum(1) > 0)
    return scale[:, None] * matrix * scale


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_sgc_is_sgconv(graph: GraphBatch, hops: int) -> None:
    model, peer = build(SGC, hops=hops), SGConv(FEATURES, CLASSES, K=hops).double()
    peer.lin.load_state_dict(linear(model).state_dict())
    expected = peer(graph.x, graph.edge_index)
    torch.testing.assert_close(model(graph), expected)
    torch.testing.assert_close(model(graph), expected)  # from what the batch kept


def test_sgc_propagates_learned_states_anew(graph: GraphBatch) -> None:
    """What is kept with the batch is the product with its features, and nothing else."""
    model = build(SGC, hops=2, pre_mp=one_layer())
    build(SGC, hops=2)(graph)
    first = model(graph)
    hidden = model.pre_mp[0](graph.x)
    power = torch.linalg.matrix_power(normalised(graph, loops=True), 2)
    torch.testing.assert_close(first, linear(model)(power @ hidden))
    with torch.no_grad():
        model.pre_mp[0].lin.weight.mul_(2)
    assert not torch.allclose(model(graph), first)


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")  # PyG's sparse product
@pytest.mark.parametrize("hops", [0, 1, 3])
def test_sign_reads_the_columns_of_pygs_transform(graph: GraphBatch, hops: int) -> None:
    """SIGN's transform adds no loops, so they are among its edges; it knows single precision only."""
    model = build(SIGN, hops=hops)
    nn.init.normal_(model.bias)
    edges, _ = add_self_loops(graph.edge_index, num_nodes=NODES)
    data = PygSIGN(hops)(Data(x=graph.x.float(), edge_index=edges, num_nodes=NODES)) if hops else {}
    columns = [graph.x, *(data[f"x{hop}"].double() for hop in range(1, hops + 1))]
    mapped = [each @ weight.t() for each, weight in zip(columns, model.lin.weight.split(DIM), strict=True)]
    expected = linear(model)(torch.relu(torch.cat(mapped, 1) + model.bias))
    torch.testing.assert_close(model(graph), expected, rtol=1e-5, atol=1e-5)
    power = [torch.linalg.matrix_power(normalised(graph, loops=True), hop) for hop in range(hops + 1)]
    mapped = [each @ graph.x @ weight.t() for each, weight in zip(power, model.lin.weight.split(DIM), strict=True)]
    torch.testing.assert_close(model(graph), linear(model)(torch.relu(torch.cat(mapped, 1) + model.bias)))


@pytest.mark.parametrize("loops", [False, True])
def test_joint_sign_is_one_map_of_all_powers(graph: GraphBatch, loops: bool) -> None:
    model = build(SIGN, hops=2, joint=True, self_loops=loops)
    peer = nn.Linear(3 * FEATURES, DIM).double()
    assert sum(each.numel() for each in (model.lin.weight, model.bias)) == sum(
        each.numel() for each in peer.parameters()
    )
    assert model.lin.weight.abs().max() < (3 * FEATURES) ** -0.5
    peer.weight = nn.Parameter(torch.cat(model.lin.weight.split(DIM), dim=1))
    peer.bias = model.bias
    one = normalised(graph, loops=loops)
    columns = torch.cat([graph.x, one @ graph.x, one @ one @ graph.x], dim=1)
    torch.testing.assert_close(model(graph), linear(model)(torch.relu(peer(columns))))


@pytest.mark.parametrize(("hops", "alpha"), [(10, 0.1), (2, 0.5), (3, 1.0), (0, 0.1)])
def test_appnp_is_pygs(graph: GraphBatch, hops: int, alpha: float) -> None:
    """Without the bias of the head, propagating predictions and predicting from propagated states are one."""
    model = build(APPNP, hops=hops, alpha=alpha, pre_mp=one_layer())
    nn.init.zeros_(linear(model).bias)
    local = linear(model)(model.pre_mp[0](graph.x))
    torch.testing.assert_close(model(graph), PygAPPNP(hops, alpha)(local, graph.edge_index))


def test_appnp_propagates_predictions(graph: GraphBatch) -> None:
    """With their bias, as its paper."""
    model = build(APPNP, predict_first=True, pre_mp=one_layer())
    local = linear(model)(model.pre_mp[0](graph.x))
    torch.testing.assert_close(model(graph), PygAPPNP(10, 0.1)(local, graph.edge_index))


@pytest.mark.parametrize(("hops", "alpha"), [(4, 0.1), (0, 0.5)])
def test_gprgnn_is_its_formula(graph: GraphBatch, hops: int, alpha: float) -> None:
    model = build(GPRGNN, hops=hops, alpha=alpha, pre_mp=one_layer())
    start = [alpha * (1 - alpha) ** hop for hop in range(hops)] + [(1 - alpha) ** hops]
    torch.testing.assert_close(model.gamma.float(), torch.tensor(start))
    nn.init.normal_(model.gamma)
    local = model.pre_mp[0](graph.x)
    steps = [torch.linalg.matrix_power(normalised(graph, loops=True), hop) @ local for hop in range(hops + 1)]
    expected = sum(weight * step for weight, step in zip(model.gamma, steps, strict=True))
    torch.testing.assert_close(model(graph), linear(model)(expected))


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_h2gcn_is_its_formula(graph: GraphBatch, rounds: int) -> None:
    model = build(H2GCN, rounds=rounds, pre_mp=one_layer())
    loops = torch.tensor([[3, 4], [3, 4]])
    with_loops = graph.replace(edge_index=torch.cat([graph.edge_index, loops], dim=1))
    one = normalised(graph, loops=False)
    joined = (one > 0).double()
    two = ((joined @ joined > 0) & (joined == 0)).double().fill_diagonal_(0)
    two = normalised(graph, loops=False, reach=two)
    found = [model.pre_mp[0](graph.x)]
    for _ in range(rounds):
        found.append(torch.cat([one @ found[-1], two @ found[-1]], dim=1))
    expected = linear(model)(torch.cat(found, dim=1))
    torch.testing.assert_close(model(graph), expected)
    torch.testing.assert_close(model(with_loops), expected)
    model.probabilities = True
    torch.testing.assert_close(model(graph), torch.softmax(expected, dim=1))


def test_h2gcn_of_sgformers_release(graph: GraphBatch) -> None:
    """Two maps without biases; two hops are pairs with more walks of two edges than of one and none."""
    graph = graph.replace(edge_index=torch.cat([graph.edge_index, torch.tensor([[3, 4], [3, 4]])], dim=1))
    model = build(H2GCN, plain_maps=True, two_hops="walks")
    matrix = (normalised(graph, loops=False) > 0).double().fill_diagonal_(0)
    one = normalised(graph, loops=False, reach=matrix)
    two = (matrix @ matrix - matrix - torch.eye(NODES) > 0).double()
    assert two.diagonal().any()
    assert (two * matrix).any()
    two = normalised(graph, loops=False, reach=two)
    found = [torch.relu(graph.x @ model.embedding.weight.t())]
    for _ in range(2):
        found.append(torch.cat([one @ found[-1], two @ found[-1]], dim=1))
    torch.testing.assert_close(model(graph), torch.cat(found, dim=1) @ linear(model).weight.t())
    assert sum(each.numel() for each in model.parameters()) == DIM * FEATURES + 7 * DIM * CLASSES


@pytest.mark.parametrize("jump", ["cat", "max"])
def test_jknet_is_gcnconv_with_jumping_knowledge(graph: GraphBatch, jump: str) -> None:
    model = build(JKNet, edge_encoder=None, layers=3, local=GCN, jump=jump, batchnorm=False)
    peers = [GCNConv(FEATURES if i == 0 else DIM, DIM).double() for i in range(3)]
    h, states = graph.x, []
    for peer, layer in zip(peers, model.layers, strict=True):
        nn.init.normal_(layer.bias)
        peer.lin.load_state_dict(layer.lin.state_dict())
        peer.bias = layer.bias
        h = torch.relu(peer(h, graph.edge_index))
        states.append(h)
    torch.testing.assert_close(model(graph), linear(model)(JumpingKnowledge(jump)(states)))


def test_bare_last_layer_of_jknet(graph: GraphBatch) -> None:
    """Norms, activations and dropout between the layers only; the jump reads what is not dropped out."""
    own = {"edge_encoder": None, "layers": 2, "local": GCN, "jump": "max", "dropout": 1.0, "bare_last": True}
    model = build(JKNet, **own)
    first, last = model.layers
    nn.init.normal_(last.bias)
    state = torch.relu(model.norms[0](first(graph.x, None, graph)[0], graph))
    expected = torch.maximum(state, last(state, None, graph)[0])
    torch.testing.assert_close(model(graph), linear(model)(expected))
    assert len(model.norms) == 1
    model.norms[0].eval()
    model.dropout.train()
    torch.testing.assert_close(model(graph), linear(model)(torch.maximum(state, last.bias.expand_as(state))))


@pytest.mark.parametrize(
    ("model", "own"),
    [
        (SIGN, {"dropout": 0.5}),
        (APPNP, {"pre_mp": 0.5}),
        (APPNP, {"input_dropout": 0.5}),
        (GPRGNN, {"dropout": 0.5}),
        (H2GCN, {"dropout": 0.5}),
        (SGC, {"pre_mp": 0.5}),
        (JKNet, {}),
    ],
)
def test_dropout_acts_in_training_only(graph: GraphBatch, model: type[nn.Module], own: dict[str, Any]) -> None:
    if model is JKNet:
        own = {"edge_encoder": None, "layers": 2, "local": GCN, "dropout": 0.5}
    if "pre_mp" in own:
        own = {"pre_mp": pre_layers(FEATURES, DIM, 1, LayerSettings(dropout=own["pre_mp"]))}
    built = build(model, **own)
    assert torch.equal(built(graph), built(graph))
    built.train()
    assert not torch.equal(built(graph), built(graph))


@pytest.mark.parametrize(
    ("model", "own", "message"),
    [
        (SGC, {"hops": -1}, "hops must be at least 0, received -1"),
        (SIGN, {"hops": -2}, "hops must be at least 0, received -2"),
        (APPNP, {"alpha": 1.5}, r"alpha must lie in \[0, 1\], received 1.5"),
        (GPRGNN, {"alpha": -0.5}, r"alpha must lie in \[0, 1\], received -0.5"),
        (H2GCN, {"rounds": -1}, "rounds must be at least 0, received -1"),
        (H2GCN, {"two_hops": "all"}, "distance, walks; received 'all'"),
        (H2GCN, {"plain_maps": True, "head": lambda width: nn.Identity()}, "begins with a linear map: node"),
        (
            JKNet,
            {"edge_encoder": None, "layers": 0, "local": GCN},
            "1 or more local layers are needed, received 0 of one kind",
        ),
        (JKNet, {"edge_encoder": None, "layers": 2, "local": None}, "received 2 of none"),
        (
            JKNet,
            {"edge_encoder": None, "layers": 1, "local": GCN, "jump": "lstm"},
            "sum, last; received 'lstm'",
        ),
    ],
)
def test_wrong_values_are_named(model: type[nn.Module], own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(model, **own)
