"""CRaWl walk by walk from its equations, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.model import build_model
from graphbench.models.random_walks import fixed_walks
from graphbench.structures import DataInfo, GraphBatch
from tests.contract import example_batch, shaken
from tests.models.ego_net_graphs import ATOMS, BONDS, normed
from tests.paths import ROOT

DIM, WIDTH, DIM_EDGE, WINDOW, KERNEL, STEPS = 5, 6, 2, 3, 4, 9
SMALL = {
    "gnn.dim_inner": DIM,
    "gnn.dim_edge": DIM_EDGE,
    "gnn.layers_mp": 3,
    "gt.CRaWl.width": WIDTH,
    "gt.CRaWl.window": WINDOW,
    "gt.CRaWl.kernel": KERNEL,
    "gt.CRaWl.steps": STEPS,
    "gt.CRaWl.eval_steps": STEPS,
}


def build(**own: Any) -> Any:
    info = DataInfo("molecules", "graph", "classification_multilabel", 9, 3, 4, "ap", maximize=True)
    overrides = [str(each) for pair in {**SMALL, **own}.items() for each in pair]
    return shaken(build_model(load_config(ROOT / "configs/ogb/crawl-molpcba.yaml", overrides), info).double()).eval()


def molecules() -> GraphBatch:
    return example_batch((8, 1, 5), node_types=ATOMS, edge_types=BONDS, pairs=False)


def described(h: Tensor, e: Tensor, batch: GraphBatch, nodes: list[int], edges: list[int]) -> Tensor:
    """(L, ..) states, edges, identities and edges to earlier nodes along a walk."""
    pairs, rows = set(map(tuple, batch.edge_index.T.tolist())), []
    for i, node in enumerate(nodes):
        same = [i >= o and node == nodes[i - o] for o in range(WINDOW, 0, -1)]
        joined = [i >= o and (node, nodes[i - o]) in pairs for o in range(WINDOW, 1, -1)]
        walked = e[edges[i - 1]] if i else torch.zeros(DIM_EDGE).double()
        rows.append(torch.cat([h[node], walked, torch.tensor(same + joined).double()]))
    return torch.stack(rows)


def plain(model: Any, batch: GraphBatch) -> Tensor:
    h, e, walks = model.encoder(batch)[0], model.edge_encoder(batch), fixed_walks(batch, STEPS)
    virtual = [torch.zeros(WIDTH).double()] * batch.num_graphs
    for number, layer in enumerate(model.layers):
        passing: list[list[Tensor]] = [[] for _ in range(batch.num_nodes)]
        for nodes, edges, moving in zip(walks.nodes.tolist(), walks.edges.tolist(), walks.moving, strict=True):
            if not moving:
                continue
            x = described(h, e, batch, nodes, edges) @ layer.lin_in.weight.T
            for i in range(len(nodes) - KERNEL + 1):
                seen = (x[i : i + KERNEL] * layer.conv.weight[:, 0].T).sum(0)
                passing[nodes[i + KERNEL // 2]].append(
                    (normed(layer.norm, seen).relu() @ layer.lin_out.weight.T).relu()
                )
        means = torch.stack([torch.stack(rows).mean(0) if rows else torch.zeros(WIDTH).double() for rows in passing])
        first, norm, _, second = layer.mlp
        h = (h if layer.rescale is None else h @ layer.rescale.weight.T) + second(normed(norm, first(means)).relu())
        if number < len(model.updates):
            first, norm, _, _, second = model.updates[number]
            for graph in range(batch.num_graphs):
                own = batch.ragged.graph_id == graph
                virtual[graph] = second(normed(norm, first(virtual[graph] + h[own].sum(0))).relu())
                h = torch.where(own[:, None], h + virtual[graph], h)
    rows = normed(model.norm, h).relu()
    means = torch.stack([rows[batch.ragged.graph_id == graph].mean(0) for graph in range(batch.num_graphs)])
    return model.head.lin[0](means)


@pytest.mark.parametrize("own", [{}, {"gt.CRaWl.virtual_node": False}, {"gt.CRaWl.kernel": 5}], ids=str)
def test_the_model_is_its_equations(own: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "KERNEL", own.get("gt.CRaWl.kernel", KERNEL))
    model, batch = build(**own), molecules()
    with torch.no_grad():
        torch.testing.assert_close(model(batch), plain(model, batch), rtol=1e-10, atol=1e-10)


def test_walks_are_drawn_in_training_and_fixed_in_evaluation() -> None:
    model, batch = build(), molecules()
    assert torch.equal(model(batch), model(batch))
    for module in model.modules():
        module.training = not isinstance(module, torch.nn.BatchNorm1d)  # statistics as they are
    model.head.dropout.p = 0.0
    for update in model.updates:
        update[3].p = 0.0
    assert not torch.equal(model(batch), model(batch))


def test_a_node_without_edges_hears_no_walk() -> None:
    model, batch = build(), molecules()
    node = int(batch.ragged.ptr[1])
    assert node not in batch.edge_index
    means = []
    model.layers[0].mlp.register_forward_pre_hook(lambda module, inputs: means.append(inputs[0]))
    model(batch)
    assert (means[0][node] == 0).all()
    assert (means[0][: node - 1] != 0).any(1).all()


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"gt.CRaWl.steps": 2}, "a walk of steps 2 is shorter than a convolution over 4 nodes"),
        ({"gt.CRaWl.eval_steps": 1}, "a walk of eval_steps 1 is shorter"),
        ({"gt.CRaWl.window": 0}, "window must be at least 1, received 0"),
        ({"gt.CRaWl.start_ratio": 0.0}, r"must lie in \(0, 1\], received 0.0"),
        ({"gnn.layers_mp": 0}, "gnn.layers_mp: layers must be at least 1, received 0"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(**own)
