"""DeepGraph graph by graph from its equations, in float64; covers with the same draws, and orders, by definition."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.commands.train import main
from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.model import build_model
from graphbench.factory.transforms import build_transforms
from graphbench.models.deep_graph import DeepGraph
from graphbench.models.motif_sampling import SETS, MotifLists, cover, ordered_adjacency
from graphbench.structures import DataInfo, GraphBatch
from graphbench.structures.substructure_kinds import CYCLE, NEIGHBOURHOOD
from graphbench.transforms.algorithms.cache import with_outputs
from tests.contract import shaken
from tests.models.ego_net_graphs import graphs_of
from tests.paths import ROOT

DIM, HEADS, SIZES = 8, 2, (9, 1, 12, 2)
SMALL = {
    "gt.dim_hidden": DIM,
    "gnn.dim_inner": DIM,
    "graphormer.num_heads": HEADS,
    "gt.DeepGraph.heads": HEADS,
    "gt.DeepGraph.max_nodes": 12,
    "gt.layers": 2,
}


def overrides(own: dict[str, Any]) -> list[str]:
    return [str(each) for pair in {**SMALL, **own}.items() for each in pair]


def build(**own: Any) -> tuple[Any, Any]:
    """Model, and graphs with all that it reads."""
    info = DataInfo("molecules", "graph", "regression", 1, 1, 1, "mae", maximize=False, max_nodes=max(SIZES))
    config = load_config(ROOT / "configs/gnnbench/deepgraph-zinc.yaml", overrides(own))
    torch.manual_seed(0)
    model = shaken(build_model(config, info).double()).eval()
    store, transforms = graphs_of(SIZES, (21,), (4,)), build_transforms(config)
    return model, with_outputs(store, transforms, {name: each(store) for name, each in transforms.items()})


def recorded(lists: MotifLists) -> tuple[Any, list[Tensor]]:
    """The draws of evaluation, and a list that they are written to."""
    draw, seen = lists.fixed(), []

    def recording() -> Tensor:
        seen.append(draw())
        return seen[-1]

    return recording, seen


def slowly_covered(motifs: list[tuple[int, int, set[int]]], n: int, redundancy: int, draws: list[Tensor]) -> set[int]:
    """Numbers of chosen motifs of one graph; every motif as (number, kind, nodes)."""
    calls = iter(draws)

    def smallest(among: list[int], count: int, score: dict[int, int] | None = None) -> set[int]:
        key = next(calls)
        return set(sorted(among, key=lambda m: float(key[m]) - (score[m] if score else 0))[:count])

    numbers, size = [number for number, _, _ in motifs], len(motifs)
    kind, nodes = {m: k for m, k, _ in motifs}, {m: v for m, _, v in motifs}
    near = [m for m in numbers if kind[m] == NEIGHBOURHOOD]
    others = [m for m in numbers if kind[m] != NEIGHBOURHOOD]
    left_out = smallest(numbers, size // 2)
    left_out |= smallest(others, max(0, len(others) - len(near)) if near else 0)
    chosen = smallest([m for m in numbers if kind[m] == CYCLE], max(n // 5, 1))
    chosen |= smallest(numbers, 1)
    each = max(3 * n // size, 1)
    while True:
        times = [sum(v in nodes[m] for m in chosen) for v in range(n)]
        if min(times) >= redundancy:
            return chosen
        unused = {v for v in range(n) if times[v] == min(times)}
        score = {m: len(unused & nodes[m]) for m in numbers if m not in chosen | left_out}
        usable = [m for m in score if score[m]]
        if not usable:
            return chosen
        best = smallest(usable, 2 * each, score)
        chosen |= smallest(sorted(best), min(each, n - len(chosen)))
        if len(chosen) >= n:
            return chosen


@pytest.mark.parametrize("redundancy", [1, 3])
@pytest.mark.parametrize("walks", [False, True])
def test_covers_are_those_of_their_definition(redundancy: int, walks: bool) -> None:
    names = dict.fromkeys(("cycles", "paths", "stars", "hops"), 0) | {"walk": 4} if walks else {"paths": 5}
    _, store = build(**{f"gt.DeepGraph.{name}": value for name, value in names.items()})
    for graphs in ([0], [1], [2], [3]):
        batch = store.gather(graphs)
        lists = MotifLists(batch)
        draw, draws = recorded(lists)
        chosen = cover(lists, batch, redundancy, draw)
        members: list[set[int]] = [set() for _ in range(len(chosen))]
        for motif, node in zip(lists.motif.tolist(), lists.node.tolist(), strict=True):
            members[motif].add(node)
        motifs = [(number, int(lists.kind[number]), nodes) for number, nodes in enumerate(members)]
        expected = slowly_covered(motifs, batch.num_nodes, redundancy, draws)
        assert set(chosen.nonzero().view(-1).tolist()) == expected


def test_covers_of_a_graph_do_not_depend_on_its_batch_in_evaluation() -> None:
    _, store = build()
    together = store.gather(range(len(SIZES)))
    lists = MotifLists(together)
    chosen = cover(lists, together, 3, lists.fixed())
    for graph in range(len(SIZES)):
        batch = store.gather([graph])
        alone = MotifLists(batch)
        assert torch.equal(cover(alone, batch, 3, alone.fixed()), chosen[lists.graph == graph])
    assert not torch.equal(cover(lists, together, 3, lists.drawn()), cover(lists, together, 3, lists.drawn()))


def test_orders_are_breadth_first_searches_from_the_smallest_degree() -> None:
    _, store = build(**{"gt.DeepGraph.paths": 5})
    batch = store.gather([0, 2])
    lists, size = MotifLists(batch), 12
    every = torch.arange(len(lists.graph))
    joined = ordered_adjacency(lists, batch, every, size, lists.drawn()())
    edges = {(a, b) for a, b in batch.edge_index.T.tolist()}
    for motif in every.tolist():
        nodes = lists.node[lists.motif == motif].tolist()
        inside = joined[motif]
        pairs = torch.tensor([[(a, b) in edges for b in nodes] for a in nodes])
        n, degrees = len(nodes), inside.sum(1)
        assert not inside[n:].any()
        assert not inside[:, n:].any()
        assert sorted(degrees[:n].tolist()) == sorted(pairs.sum(1).tolist())
        assert torch.equal(inside, inside.T)
        assert degrees[0] == degrees[:n].min()
        seen, queue = [0], [0]
        while queue:
            now = queue.pop(0)
            new = [v for v in range(n) if inside[now, v] and v not in seen]
            assert new == list(range(len(seen), len(seen) + len(new)))  # numbers are those of the search
            assert degrees[new].tolist() == sorted(degrees[new].tolist())
            seen, queue = seen + new, queue + new
        assert seen == list(range(n))


def plain(model: Any, graph: GraphBatch) -> Tensor:
    """Prediction of one graph, by dense attention with a mask."""
    h, state = model.encoder(graph)
    lists = MotifLists(graph)
    draw = lists.fixed()
    chance = draw()
    chosen = cover(lists, graph, model.motif.redundancy, draw).nonzero().view(-1)
    adjacency = ordered_adjacency(lists, graph, chosen, model.motif.max_nodes, chance).double()
    x = torch.cat([model.token, h, model.of_motif(adjacency.flatten(1))])
    n, total = graph.num_nodes, len(x)
    bias = torch.full((total, total, HEADS), -torch.inf, dtype=torch.float64)
    bias[1 : n + 1, 1 : n + 1] = state.state.pair_bias.view(n, n, HEADS)
    for place, motif in enumerate(chosen.tolist(), start=n + 1):
        for node in lists.node[lists.motif == motif].tolist():
            bias[place, node + 1] = bias[node + 1, place] = model.motif_bias
    bias[0], bias[:, 0] = model.token_bias, model.token_bias
    x = model.norm_in(x)
    for layer in model.layers:
        q, k, v = (part.unflatten(1, (HEADS, -1)).transpose(0, 1) for part in layer.attention.qkv(x).chunk(3, dim=1))
        weights = (q @ k.mT / q.shape[2] ** 0.5 + bias.permute(2, 0, 1)).softmax(2)
        x = layer.norm_attention(4**0.25 * x + layer.attention.out((weights @ v).transpose(0, 1).flatten(1)))
        inner = torch.nn.functional.gelu(layer.feed_forward.lin_in(x))
        x = layer.norm_ffn(4**0.25 * x + layer.feed_forward.lin_out(inner))
    rows = x[:1] if model.motif.of_graphs else x[1 : n + 1]
    return model.head.mlp(model.norm_out(torch.nn.functional.gelu(model.hidden(rows))))


def test_the_model_is_its_equations_and_so_are_gradients() -> None:
    model, store = build()
    expected = torch.cat([plain(model, store.gather([graph])) for graph in range(len(SIZES))])
    received = model(store.gather(range(len(SIZES))))
    torch.testing.assert_close(received, expected, rtol=1e-10, atol=1e-10)
    learned = [model.token, model.token_bias, model.motif_bias, model.of_motif[0].weight, model.hidden.weight]
    weights = torch.arange(1.0, 5.0).double().unsqueeze(1)
    ours, theirs = (torch.autograd.grad((each * weights).sum(), learned) for each in (received, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_nodes_are_read_where_they_are_predicted() -> None:
    model, store = build(**{"gt.DeepGraph.of_graphs": False})
    model.head.forward = lambda rows, batch: model.head.mlp(rows)
    with torch.no_grad():
        expected = torch.cat([plain(model, store.gather([graph])) for graph in range(len(SIZES))])
        received = model(store.gather(range(len(SIZES))))
    assert len(received) == sum(SIZES)
    torch.testing.assert_close(received, expected, rtol=1e-10, atol=1e-10)


def test_motifs_are_asked_for_and_needed() -> None:
    listed = {"cycles": 8, "paths": 8, "stars": 6, "hops": 2, "walk": 0}
    asked = DeepGraph.required_transforms({**listed, "redundancy": 6})
    assert asked == {"Motifs": listed, "MotifNodes": listed}
    model, store = build()
    batch = store.gather([0])
    for name in SETS:
        kept = {key: value for key, value in batch.edge_sets.items() if key != name}
        with pytest.raises(ValueError, match="read the edge sets Motifs and MotifNodes"):
            model(batch.replace(edge_sets=kept))


def test_motifs_that_are_too_large_are_named() -> None:
    balls = {f"gt.DeepGraph.{name}": 0 for name in ("cycles", "paths", "stars")}
    model, store = build(**balls, **{"gt.DeepGraph.max_nodes": 3})
    with pytest.raises(ValueError, match=r"max_nodes: a motif has \d+ nodes, allowed are 3"):
        model(store.gather([0]))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"graphormer.num_heads": 4}, r"graphormer.num_heads .* must equal gt.DeepGraph.heads, received 4 and 2"),
        ({"gt.DeepGraph.cycles": 2}, "command line: gt.DeepGraph.cycles: cycles must be 0 or at least 3, received 2"),
        ({"gt.DeepGraph.walk": 12}, "max_nodes must be at least 13, the nodes of the largest motif, received 12"),
        ({"gt.DeepGraph.stars": 12}, "max_nodes must be at least 13, the nodes of the largest motif, received 12"),
    ],
)
def test_what_a_run_refuses_a_dry_run_refuses(
    own: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["--cfg", str(ROOT / "configs/gnnbench/deepgraph-zinc.yaml"), "out_dir", str(tmp_path), *overrides(own)]
    told = []
    for more in (["--dry_run"], []):
        assert main([*command[:2], *more, *command[2:]]) == 2
        told.append(capsys.readouterr().err)
    assert told[0] == told[1]
    assert told[0].count("error: ") == 1
    assert re.search(message, told[0])
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"gt.layers": 0}, "layers must be at least 1, received 0"),
        ({"gt.DeepGraph.redundancy": 0}, "redundancy must be at least 1, received 0"),
        ({"gt.DeepGraph.heads": 3}, "dim must be a multiple of heads"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(**own)
