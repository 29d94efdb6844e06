"""ANS-GT against dense matrices and a loop over its sequences; samplers, bandit and resumed state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench import registry
from graphbench.config import load_config
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.models.ans_gt.bandit import SamplerBandit
from graphbench.models.ans_gt.model import ANSGT
from graphbench.models.ans_gt.proximity import Proximities
from graphbench.models.ans_gt.sampling_tables import Candidates, coarse_powers, coarsened, normalised_adjacency
from graphbench.preflight import describe
from graphbench.structures import GraphBatch, SparseRows
from tests.contract import alone, example_batch, shaken
from tests.paths import ROOT

DIM, CLASSES, HEADS = 8, 3, 2
LIKE = torch.empty(0, dtype=torch.float64)


def build(**own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(None, {}, 12, batch_norm=False),
        "dim_encoded": 12,
        "dim": DIM,
        "layers": 2,
        "head": lambda width: NodeHead(width, CLASSES),
        "num_heads": HEADS,
        "attention_dropout": 0.0,
        "input_dropout": 0.0,
    }
    return shaken(registry.construct(ANSGT, {**arguments, **own}).double()).eval()


@pytest.fixture
def graph() -> GraphBatch:
    return example_batch((12, 5))


def dense(batch: GraphBatch) -> Tensor:
    matrix = torch.eye(batch.num_nodes, dtype=torch.float64)
    matrix[batch.edge_index[1], batch.edge_index[0]] = 1
    scale = matrix.sum(1).rsqrt()
    return scale[:, None] * matrix * scale


def samplers(batch: GraphBatch, count: int, teleport: float, steps: int) -> list[Tensor]:
    """Rows of the four samplers, from their definitions."""
    a, eye = dense(batch), torch.eye(batch.num_nodes, dtype=torch.float64)
    rank = eye
    for _ in range(steps):
        rank = teleport * eye + (1 - teleport) * a @ rank
    same = batch.ragged.graph_id[:, None] == batch.ragged.graph_id
    rows = []
    for matrix in (a, a @ a, rank, F.normalize(batch.x, dim=1) @ F.normalize(batch.x, dim=1).t() * same):
        kept = matrix.fill_diagonal_(0).clamp(min=0)
        border = kept.sort(1, descending=True).values[:, min(count, kept.shape[1]) - 1, None]
        kept = torch.where(kept >= border, kept, 0)
        rows.append(kept / kept.sum(1, keepdim=True).clamp(min=1e-300))
    return rows


@pytest.mark.parametrize("count", [3, 64])
def test_candidates_are_the_rows_of_the_samplers(graph: GraphBatch, count: int) -> None:
    found = Candidates.of(graph, normalised_adjacency(graph), count, 0.15, 4)
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(found.ptr))
    for sampler, expected in enumerate(samplers(graph, count, 0.15, 4)):
        matrix = torch.zeros_like(expected)
        matrix[rows, found.node] = torch.from_numpy(found.weight[:, sampler])
        torch.testing.assert_close(matrix, expected)


def test_sparse_features_have_the_same_neighbours(graph: GraphBatch) -> None:
    x = graph.x * (graph.x > 0.5)
    both = [graph.replace(x=x), graph.replace(x=SparseRows.of(x))]
    one, other = (Candidates.of(batch, normalised_adjacency(batch), 4, 0.15, 4) for batch in both)
    assert np.array_equal(one.node, other.node)
    np.testing.assert_allclose(one.weight, other.weight, rtol=1e-6)  # as float32 where they are sparse


def test_draws_follow_the_mixture_without_replacement() -> None:
    weight, repeats = np.array([[0.4, 0.1], [0.6, 0.2], [0.0, 0.0], [0.0, 0.7]]), 4000
    every = np.tile(np.concatenate([weight, np.zeros((4, 2))], axis=1), (repeats, 1))
    ptr = np.arange(repeats + 1) * 4
    candidates = Candidates(ptr, ptr[[0, -1]], np.tile(np.arange(4), repeats), every)
    share = np.array([0.75, 0.25, 0.0, 0.0])
    node, drawn = candidates.draw(share, 4, np.random.default_rng(1).standard_exponential(4 * repeats))
    assert (node[:, 3] == -1).all()  # nobody draws the third
    assert all(set(row) == {0, 1, 3} for row in node[:, :3])
    np.testing.assert_array_equal(drawn[:, :3, :2], weight[node[:, :3]])
    chance = weight @ share[:2]
    first = np.bincount(node[:, 0], minlength=4) / repeats
    np.testing.assert_allclose(first, chance, atol=5 * (0.25 / repeats) ** 0.5)


@pytest.mark.parametrize("orders", [1, 2, 5])
def test_proximities_are_powers(graph: GraphBatch, orders: int) -> None:
    sequences, a = torch.tensor([[0, 3, 11, 4], [16, 12, -1, -1], [5, 5, 2, -1]]), dense(graph)
    for is_dense in (True, False):
        found = Proximities(normalised_adjacency(graph), orders, LIKE, is_dense)(sequences)
        for k in range(orders):
            power = torch.linalg.matrix_power(a, k + 1)
            expected = power[sequences[:, :, None], sequences[:, None, :]]
            there = sequences >= 0
            expected = expected * (there[:, :, None] & there[:, None, :])
            torch.testing.assert_close(found[..., k], expected)


def test_super_nodes_are_connected_and_as_many_as_asked() -> None:
    path = torch.stack([torch.arange(29), torch.arange(1, 30)])
    batch = example_batch((30, 3), edges=False).replace(edge_index=torch.cat([path, path.flip(0)], 1))
    cluster = coarsened(batch, 0.2)
    assert len(set(cluster[:30])) == 6
    assert (np.diff(cluster[:30]) != 0).sum() == 5  # pieces of the path
    assert len(set(cluster[30:])) == 3  # without edges nothing is contracted
    assert not set(cluster[:30]) & set(cluster[30:])


def test_coarse_powers_are_those_of_the_contracted_graph(graph: GraphBatch) -> None:
    cluster = coarsened(graph, 0.4)
    spread = F.one_hot(torch.from_numpy(cluster)).double()
    spread = spread / spread.sum(0).sqrt()
    links = torch.zeros(17, 17, dtype=torch.float64)
    links[graph.edge_index[1], graph.edge_index[0]] = 1
    coarse = spread.t() @ links @ spread + torch.eye(spread.shape[1])
    scale = coarse.sum(1).rsqrt()
    coarse = scale[:, None] * coarse * scale
    expected = torch.stack([torch.linalg.matrix_power(coarse, k) for k in (1, 2, 3)])
    torch.testing.assert_close(coarse_powers(graph, cluster, 3), expected)


def by_hand(model: Any, batch: GraphBatch) -> tuple[Tensor, Tensor]:
    """Predictions, and the significance of the tokens (N, S, T) before the global ones, sequence by sequence."""
    s, drawn, a = model.settings, model._drawn, dense(batch)
    h, cluster = model.lin_in(batch.x), torch.from_numpy(coarsened(batch, s.coarsening))
    coarse = coarse_powers(batch, cluster.numpy(), s.orders)
    states, significance = [], torch.zeros(batch.num_nodes, s.samples, s.length + 2, dtype=torch.float64)
    for i in range(batch.num_nodes):
        of_node = []
        for sample in range(s.samples):
            nodes = [i, *[int(j) for j in drawn.node[i, sample] if j >= 0]]
            t = torch.cat([h[nodes], h[cluster == cluster[i]].mean(0, keepdim=True), model.global_tokens.weight])
            phi = model.global_encodings.weight[0].expand(len(t), len(t), -1).clone()
            for k in range(s.orders):
                own = cluster[[*nodes, i]]
                fine = coarse[k][own[:, None], own]
                fine[:-1, :-1] = torch.linalg.matrix_power(a, k + 1)[nodes][:, nodes]
                phi[:-1, :-1, k] = fine
            for block in model.blocks:
                t, score = block_by_hand(block, t, phi)
            of_node.append(model.norm(t[0]))
            significance[i, sample, : len(nodes)] = score[: len(nodes)]
        states.append(torch.stack(of_node).mean(0))
    return model.head.mlp(torch.stack(states)), significance


def block_by_hand(block: Any, t: Tensor, phi: Tensor) -> tuple[Tensor, Tensor]:
    x = block.norm(t)
    q, k, v = block.attention.qkv(x).view(len(t), 3, HEADS, -1).permute(1, 2, 0, 3)
    scores = q @ k.transpose(1, 2) / q.shape[2] ** 0.5 + (phi @ block.lin_bias.weight.t()).permute(2, 0, 1)
    weights = scores.softmax(2)
    t = t + block.attention.out((weights @ v).transpose(0, 1).flatten(1))
    inner = F.gelu(block.feed_forward.lin_in(block.norm_ffn(t)))
    return t + block.feed_forward.lin_out(inner), (weights[:, 0] * v.norm(dim=2)).mean(0)


def test_model_is_its_equations(graph: GraphBatch) -> None:
    model = build(length=3, samples=2, candidates=5, orders=3, coarsening=0.3)
    found = model(graph)
    assert (model._drawn.node[:, 0] != model._drawn.node[:, 1]).any()  # sequences differ
    assert (model._drawn.node < 0).any()  # and some are shorter
    torch.testing.assert_close(found, by_hand(model, graph)[0])


def test_a_graph_is_read_alike_alone_and_in_a_batch(graph: GraphBatch) -> None:
    model = build(length=3, samples=2, candidates=5, coarsening=0.3)
    together = model(graph).split(graph.ragged.sizes)
    for i, expected in enumerate(together):
        torch.testing.assert_close(model(alone(graph, i)), expected)


def test_sequences_may_have_no_global_tokens(graph: GraphBatch) -> None:
    model = build(length=3, samples=2, global_nodes=0)
    assert model(graph).shape == (graph.num_nodes, CLASSES)


def test_shares_follow_the_reward(graph: GraphBatch) -> None:
    own = {"length": 3, "samples": 1, "candidates": 5, "orders": 2, "coarsening": 0.3}
    model = build(**own, update_period=1, bandit_rate=0.5, exploration=0.1).train()
    model(graph)
    drawn, p = model._drawn, torch.full((4,), 0.25, dtype=torch.float64)
    score = by_hand(model, graph)[1][:, 0, 1:4]
    weight = drawn.weight[:, 0]
    reward = (score[:, :, None] * weight / ((weight @ p)[:, :, None] + 1e-5)).sum((0, 1)) / graph.num_nodes
    u = torch.exp(0.5 * (reward + 0.1 / p))
    torch.testing.assert_close(model.bandit.shares(), (1 - 0.2) * u / u.sum() + 0.05)
    assert int(model.bandit.round) == 1
    before = drawn.node
    model(graph)
    assert not torch.equal(model._drawn.node, before)


@pytest.mark.parametrize("first", ["mixture", "ppr"])
def test_first_round_may_read_pagerank_alone(graph: GraphBatch, first: str) -> None:
    model = build(length=4, samples=2, ppr_steps=1, first_round=first, update_period=1).train()
    only = []
    for _ in range(2):
        model(graph)
        drawn = model._drawn
        only.append(bool((drawn.weight[drawn.node >= 0][:, 2] > 0).all()))
    assert only == [first == "ppr", False]  # one step of PageRank reaches neighbours, similar nodes lie anywhere


def test_resumed_state_draws_the_same_sequences(graph: GraphBatch) -> None:
    own = {"length": 2, "samples": 2, "candidates": 6, "update_period": 2}
    first, second = build(**own).train(), build(**own).train()
    for _ in range(3):
        first(graph)
    second.load_state_dict(first.state_dict())
    for model in (first, second):
        torch.manual_seed(0)
        for _ in range(3):
            model(graph)
    assert torch.equal(first._drawn.node, second._drawn.node)
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


def test_nodes_that_are_not_asked_are_not_read(graph: GraphBatch) -> None:
    model = build(length=3, samples=2)
    whole, asked = model(graph), torch.tensor([14, 3])
    some = model(graph.with_state(seed_nodes=asked))
    torch.testing.assert_close(some[asked], whole[asked])
    others = torch.ones(graph.num_nodes, dtype=torch.bool)
    others[asked] = False
    assert torch.equal(some[others], model.head.mlp.lin[0].bias.expand(int(others.sum()), -1))


def test_a_bandit_without_end_stays_in_its_first_round() -> None:
    bandit = SamplerBandit(0, 0.05, 2.0, 0.01)
    torch.testing.assert_close(bandit.shares(), torch.full((4,), 0.25))
    bandit.add(torch.zeros(0, 3), torch.zeros(0, 3, 4))
    assert not bandit.reward.any()


def test_parameters_are_those_of_the_release() -> None:
    """On Cora, by its model's constructor; less the bias of every map of encodings to heads, which softmax cancels."""
    features, classes, dim, layers, heads, orders = 1433, 7, 128, 4, 8, 6
    attention, network, norms = 4 * dim * (dim + 1) + heads * (orders + 1), 2 * dim * (dim + 1), 4 * dim
    released = (features + 1) * dim + layers * (attention + network + norms) + 2 * dim + (dim + 1) * classes
    released += dim + orders
    count = describe(load_config(ROOT / "configs/nodes/ans-gt-cora.yaml", [])).params
    assert count == released - layers * heads


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"length": 0}, "length must be at least 1, received 0"),
        ({"coarsening": 2.0}, r"coarsening must lie in \[0, 1\], received 2.0"),
        ({"min_share": 0.3}, r"min_share must lie in \(0, 0.25\], received 0.3"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**own)
