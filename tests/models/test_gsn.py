"""GSN as its release trains it on ogbg-molhiv: graph by graph from the equations, in float64."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphbench.config import load_config
from graphbench.factory.model import build_model
from graphbench.structures import DataInfo, GraphBatch
from tests.contract import example_batch, shaken
from tests.paths import ROOT

DIM, LAYERS = 6, 5
ROWS = [3, 3, 5, 5]
OVERRIDES = [
    "gnn.dim_inner",
    "6",
    "gnn.dim_edge",
    "36",
    "gnn.OGBGIN.dim_edge",
    "6",
    "posenc_SubstructuresEdge.dim_pe",
    "6",
]


def build() -> Any:
    info = DataInfo("molecules", "graph", "classification", 9, 3, 1, "auc", maximize=True)
    return shaken(build_model(load_config(ROOT / "configs/ogb/gsn-molhiv.yaml", OVERRIDES), info).double()).eval()


def molecules() -> GraphBatch:
    """Graphs with categories, and counts of which some are larger than any table."""
    batch = example_batch((6, 1, 4), node_types=(5, 3, 5, 5, 4, 3, 3, 2, 2), edge_types=(4, 3, 2), pairs=False)
    counts = torch.randint(0, 7, (batch.num_edges, 4), generator=torch.Generator().manual_seed(0)).int()
    return batch.replace(edge_pe={"SubstructuresEdge.counts": counts})


def normed(norm: Any, h: Tensor) -> Tensor:
    return (h - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias


def plain(model: Any, batch: GraphBatch) -> Tensor:
    """h + v; relu(h_j + id_ij + e_ij), where id_ij is read by the first layer alone; W BN relu W; BN; relu; v's MLP."""
    weights = dict(model.named_parameters())
    atoms = [value for name, value in weights.items() if "atom_emb" in name]
    bonds = [value for name, value in weights.items() if "bond_emb" in name]
    kinds = [value for name, value in weights.items() if "SubstructuresEdge" in name]
    assert [len(table) for table in kinds] == ROWS
    counts, rows = batch.edge_pe["SubstructuresEdge.counts"].long(), []
    for graph in range(batch.num_graphs):
        nodes = (batch.ragged.graph_id == graph).nonzero().flatten()
        h = sum(table[batch.x[nodes, column]] for column, table in enumerate(atoms))
        v = weights["stack.virtual"][0]
        for number, (conv, norm) in enumerate(zip(model.stack.layers, model.stack.norms, strict=True)):
            x, heard = h + v, []
            for node in nodes.tolist():
                total = x[node - int(nodes[0])].clone()
                for edge in (batch.edge_index[1] == node).nonzero().flatten().tolist():
                    message = x[int(batch.edge_index[0, edge]) - int(nodes[0])].clone()
                    for column, table in enumerate(bonds):
                        message += table[batch.edge_attr[edge, column], number * DIM : (number + 1) * DIM]
                    for column, table in enumerate(kinds) if number == 0 else ():
                        message += table[min(int(counts[edge, column]), ROWS[column] - 1)]
                    total += message.relu()
                heard.append(total)
            first, inner, _, second = conv.mlp
            h = normed(norm, second(normed(inner, first(torch.stack(heard))).relu()))
            if number < LAYERS - 1:
                h = h.relu()
                first, inner, _, second, _ = model.stack.virtual_updates[number]
                v = second(normed(inner, first(v + x.sum(0))).relu()).relu()
        rows.append(model.head.mlp(h.mean(0, keepdim=True)))
    return torch.cat(rows)


def test_the_shipped_model_is_its_equations() -> None:
    model, batch = build(), molecules()
    torch.testing.assert_close(model(batch), plain(model, batch), rtol=1e-10, atol=1e-10)
    assert sum("eps" in name for name, _ in model.named_parameters()) == 0


def test_counts_change_predictions_and_larger_ones_share_a_row() -> None:
    model, batch = build(), molecules()
    counts = batch.edge_pe["SubstructuresEdge.counts"]
    none = batch.replace(edge_pe={"SubstructuresEdge.counts": torch.zeros_like(counts)})
    assert not torch.allclose(model(batch), model(none))
    clamped = batch.replace(edge_pe={"SubstructuresEdge.counts": counts.minimum(torch.tensor(ROWS) - 1).int()})
    assert torch.equal(model(batch), model(clamped))
