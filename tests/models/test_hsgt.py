"""HSGT graph by graph, level by level and head by head from its equations, in float64."""

from __future__ import annotations

import copy
import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import NodeEncoder
from graphbench.encoders.node.linear import LinearNode
from graphbench.heads.node import NodeHead
from graphbench.models.hsgt import HSGT, SETS, TransformerLayer
from graphbench.structures import EdgeSet, GraphBatch
from graphbench.transforms.hierarchy import Hierarchy, HierarchyPairs
from tests.contract import Subject, alone, check_gradients, check_second_device, check_untouched, example_batch, shaken

SIZES, DIM, HEADS, HOPS = (14, 1, 9, 2), 8, 2, 2
RATIOS = [0.5, 0.5]


def build(**own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(LinearNode(DIM, 12), {}, DIM, batch_norm=False),
        "dim_encoded": DIM,
        "dim": DIM,
        "layers": 2,
        "head": lambda width: NodeHead(width, 3, layers_post_mp=1),
        "coarsening": RATIOS,
        "partition": "rcm",
        "hops": HOPS,
        "heads": HEADS,
        "readout_layers": 2,
        "ffn_expansion": 2,
        "max_degree": 3,
    }
    return shaken(registry.construct(HSGT, {**arguments, **own}).double()).eval()


def with_levels(batch: GraphBatch, hops: int = HOPS, ratios: list[float] = RATIOS) -> GraphBatch:
    graph = batch.ragged.graph_id[batch.edge_index[0]]
    sizes = batch.ragged.sizes
    edges = batch.edge_index - batch.ragged.ptr[graph]
    store = GraphStore.from_arrays(sizes, torch.bincount(graph, minlength=len(sizes)), edges)
    sets = {}
    for name, transform in (
        ("Hierarchy", Hierarchy(ratios, "rcm")),
        ("HierarchyPairs", HierarchyPairs(ratios, "rcm", hops)),
    ):
        out = transform(store)
        of = torch.repeat_interleave(torch.arange(len(sizes)), out["ptr"].diff())
        sets[name] = EdgeSet(out["index"].long() + batch.ragged.ptr[of], out["ptr"], out["attr"].long())
    return batch.replace(edge_sets=sets)


def example(sizes: Any = SIZES, **own: Any) -> GraphBatch:
    return with_levels(example_batch(sizes, **own))


def transformer(layer: TransformerLayer, x: Tensor, s: Tensor, score: Tensor) -> Tensor:
    """``score`` (T, S) is added to all scores; minus infinity where nobody attends."""
    width, mixed = DIM // HEADS, []
    for head in range(HEADS):
        c = slice(head * width, (head + 1) * width)
        q, k, v = x @ layer.query.weight[c].t(), s @ layer.key.weight[c].t(), s @ layer.value.weight[c].t()
        mixed.append(torch.softmax(q @ k.t() / math.sqrt(width) + score, 1) @ v)
    y = x + torch.cat(mixed, 1) @ layer.out.weight.t()
    ffn = layer.feed_forward
    inner = nn.functional.gelu(layer.norm_in(y) @ ffn.lin_in.weight.t() + ffn.lin_in.bias)
    return layer.norm_out(y + inner @ ffn.lin_out.weight.t() + ffn.lin_out.bias)


def of_one_graph(model: HSGT, graph: GraphBatch) -> Tensor:
    """Predictions, with dense masks and clusters as dictionaries of names."""
    nodes, pairs = (graph.edge_sets[name] for name in SETS)
    assert nodes.attr is not None
    assert pairs.attr is not None
    names: list[list[int]] = [[] for _ in range(3)]
    cluster: list[dict[int, int]] = [{} for _ in range(3)]
    for (name, above), level in zip(nodes.index.t().tolist(), nodes.attr.tolist(), strict=True):
        names[level].append(name)
        cluster[level][name] = above
    mean = (model.encoder(graph)[0] @ model.lin_in.weight.t()).unbind()
    z = dict(enumerate(mean))
    states: list[dict[int, Tensor]] = []
    for level in range(3):
        order = names[level]
        distance = torch.full((len(order), len(order)), math.inf)
        distance.fill_diagonal_(0)
        for (a, b), (of, d) in zip(pairs.index.t().tolist(), pairs.attr.tolist(), strict=True):
            if of == level:
                distance[order.index(b), order.index(a)] = d
        if level == 0:
            degree = (distance == 1).sum(1).clamp(max=3)
            x = torch.stack([z[name] for name in order]) + model.degrees.weight[degree]
        else:
            below = names[level - 1]
            z = {j: torch.stack([z[i] for i in below if cluster[level - 1][i] == j]).mean(0) for j in order}
            member = torch.tensor([[0.0 if cluster[level - 1][i] == j else -math.inf for i in below] for j in order])
            s = torch.stack([states[-1][i] for i in below])
            x = transformer(model.vertical[level - 1], torch.stack([z[j] for j in order]), s, member.double())
        block = model.horizontal[level]
        score = torch.full_like(distance, -math.inf).double()
        score[distance == 0] = 0
        for d in range(1, HOPS + 1):
            score[distance == d] = block.bias[d - 1]
        for layer in block.layers:
            x = transformer(layer, x, x, score)
        states.append(dict(zip(order, x)))
    rows = []
    for node in range(graph.num_nodes):
        middle = cluster[0][node]
        tokens = torch.stack([states[0][node], states[1][middle], states[2][cluster[1][middle]]])
        for layer in model.readout:
            tokens = transformer(layer, tokens, tokens, tokens.new_zeros(3, 3))
        rows.append(tokens[0])
    return model.head.mlp(torch.stack(rows))


def test_the_model_is_its_equations() -> None:
    model, batch = build(), example()
    with torch.no_grad():
        expected = torch.cat([of_one_graph(model, alone(batch, graph)) for graph in range(len(SIZES))])
        torch.testing.assert_close(model(batch), expected, rtol=0, atol=1e-12)


def test_names_of_nodes_may_come_in_any_order() -> None:
    model, batch = build(), example()
    nodes, pairs = (batch.edge_sets[name] for name in SETS)
    generator = torch.Generator().manual_seed(0)
    order = torch.cat([a + torch.randperm(b - a, generator=generator) for a, b in pairwise(nodes.ptr.tolist())])
    shuffled = EdgeSet(nodes.index[:, order], nodes.ptr, None if nodes.attr is None else nodes.attr[order])
    other = batch.replace(edge_sets={"Hierarchy": shuffled, "HierarchyPairs": pairs})
    torch.testing.assert_close(model(other), model(batch), rtol=0, atol=1e-12)


def subject() -> Subject:
    return Subject(build(), lambda module, batch: {"y": module(batch)}, {"y": "node"}, {"y": 3})


def test_gradients_reach_everything_and_the_batch_is_untouched() -> None:
    check_gradients(subject(), example())
    check_untouched(subject(), example())


def test_on_another_device_the_host_waits_for_the_levels_once() -> None:
    check_second_device(subject(), example())


@pytest.mark.parametrize("sizes", [(), (0,), (0, 3, 0), (1,), (2, 1)])
@pytest.mark.parametrize("edges", [True, False])
def test_graphs_without_nodes_or_edges(sizes: tuple[int, ...], edges: bool) -> None:
    model = build()
    out = model(example(sizes, edges=edges))
    assert out.shape == (sum(sizes), 3)
    assert out.isfinite().all()


def test_levels_above_reach_nodes_that_no_edge_reaches() -> None:
    """Two components in one cluster: what changes in one is seen in the other, but for one level only."""
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]])
    x = torch.randn(4, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    batch = example_batch((4,), edges=False)
    model = build(coarsening=[0.25])
    before, after = (
        model(with_levels(batch.replace(edge_index=edges, x=each), ratios=[0.25]))
        for each in (x, x + torch.tensor([[1.0], [0], [0], [0]]))
    )
    assert ((before - after).abs().amax(1) > 1e-6).all()


def test_training_falls() -> None:
    torch.manual_seed(0)
    model, batch = build(dropout=0.1, max_degree=20).train(), example((40, 25))
    target = torch.randint(0, 3, (65,))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    losses = []
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])


def test_parameters_are_those_of_the_equations() -> None:
    """Nobody prints a count; per layer four maps, a feed-forward network and two norms."""
    layer = 4 * DIM**2 + 2 * (2 * DIM**2) + 2 * DIM + DIM + 4 * DIM
    model = copy.deepcopy(build())
    model.encoder, model.head = nn.Identity(), nn.Identity()
    levels = len(RATIOS) + 1
    expected = DIM**2 + 4 * DIM + levels * (2 * layer + HOPS) + len(RATIOS) * layer + 2 * layer
    assert sum(p.numel() for p in model.parameters()) == expected


def test_levels_are_needed_and_asked_for() -> None:
    with pytest.raises(ValueError, match="HSGT reads the edge sets Hierarchy and HierarchyPairs"):
        build()(example_batch(SIZES))
    asked = HSGT.required_transforms({"coarsening": [0.1], "partition": "metis", "hops": 3})
    assert asked["Hierarchy"] == {"coarsening": [0.1], "method": "metis"}
    assert asked["HierarchyPairs"] == {"coarsening": [0.1], "method": "metis", "hops": 3}


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"heads": 3}, "dim must be a multiple of heads, received dim=8, heads=3"),
        ({"coarsening": []}, r"coarsening must be one or more ratios in \(0, 1\], received \[\]"),
        ({"layers": 0}, "layers must be at least 1, received 0"),
        ({"hops": 0}, "hops must be at least 1, received 0"),
        ({"readout_layers": 0}, "readout_layers must be at least 1"),
        ({"max_degree": -1}, "max_degree must be at least 0"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**own)
