"""Prediction heads against GraphGPS, and the contract of every registered one."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from graphbench import registry
from graphbench.errors import UserError
from graphbench.heads import edge
from graphbench.heads.convolution import GATHead
from graphbench.heads.edge import EdgeHead, InductiveEdgeHead
from graphbench.heads.graph import GraphHead
from graphbench.heads.link_ranking import ranking_statistics
from graphbench.heads.mlp_graph import BatchNormMLPNodeHead, MLPGraphHead, PCQM4MGraphHead, ZINCGraphHead
from graphbench.heads.node import NodeHead
from graphbench.heads.ogb_code_graph import OGBCodeGraphHead
from graphbench.heads.san_graph import SANGraphHead
from graphbench.structures import EdgeSet, GraphBatch, Ragged
from graphbench.testing import check_batch_independence, check_gradients, check_head, check_permutation, example_batch
from graphbench.testing.examples import labelled
from graphbench.testing.heads import head_subject

RECORDED = {
    "graphgps/head_default_add_L2": GraphHead,
    "graphgps/head_default_max_L2": GraphHead,
    "graphgps/head_default_mean_L1": GraphHead,
    "graphgps/head_default_mean_L3": GraphHead,
    "graphgps/head_inductive_node_L1": NodeHead,
    "graphgps/head_inductive_node_L3": NodeHead,
    "graphgps/head_san_graph_add": SANGraphHead,
    "lrgb/head_mlp_graph_max_L1": MLPGraphHead,
    "lrgb/head_mlp_graph_mean_L3": MLPGraphHead,
    "lrgb/head_mlp_graph_node_ensemble_L2": MLPGraphHead,
    "lrgb/head_mlp_graph_zinc_add_L3": ZINCGraphHead,
}


def _batch(sizes):
    """No edges; two pairs asked about per graph: (first, last) and (last, first)."""
    ragged = Ragged.from_sizes(sizes)
    ends = torch.tensor([[int(a), int(b) - 1] for a, b in zip(ragged.ptr, ragged.ptr[1:]) if b > a])
    ends = ends.to(torch.int64).view(-1, 2)
    pairs = torch.stack([ends, ends.flip(1)], dim=1).view(-1, 2).T
    asked = torch.tensor([0, *(2 * (size > 0) for size in sizes)]).cumsum(0)
    return GraphBatch(ragged, torch.zeros(2, 0, dtype=torch.int64), edge_sets={"label": EdgeSet(pairs, asked)})


@pytest.mark.parametrize("name", RECORDED)
def test_equals_graphgps(golden, name):
    recorded = golden(name)
    config = recorded["config"]
    context = {
        "dim_in": config["dim_in"],
        "out_dim": config["dim_out"],
        "layers_post_mp": config["layers_post_mp"],
        "pooling": config["pooling"],
        "act": config["act"],
    }
    head = registry.construct(RECORDED[name], context).double()
    ours, theirs = ("lin.", "lin.") if RECORDED[name] is SANGraphHead else ("mlp.lin.", "lin.")
    if name.startswith("lrgb"):
        ours, theirs = "lin.", "mlp."
    weights = {key[2:]: value.double() for key, value in recorded.items() if key.startswith("w/")}
    head.load_state_dict({ours + key.removeprefix(theirs): value for key, value in weights.items()})
    h = recorded["in/x"].double().requires_grad_()
    pred = head(h, _batch(recorded["in/ptr"].diff().tolist()))
    torch.testing.assert_close(pred, recorded["out/pred"], rtol=0, atol=1e-12)
    (pred * recorded["in/grad_seed.pred"]).sum().backward()
    torch.testing.assert_close(h.grad, recorded["grad/in.x"], rtol=0, atol=1e-12)
    for key, parameter in head.named_parameters():
        torch.testing.assert_close(
            parameter.grad, recorded[f"grad/{theirs}{key.removeprefix(ours)}"], rtol=0, atol=1e-12
        )


def test_hidden_rows_have_length_one():
    head = NodeHead(8, 3, layers_post_mp=2)
    h = torch.randn(5, 8)
    doubled = NodeHead(8, 3, layers_post_mp=2)
    doubled.load_state_dict(head.state_dict())
    with torch.no_grad():
        for parameter in doubled.mlp.lin[0].parameters():
            parameter.mul_(2)
    torch.testing.assert_close(head(h, _batch([5])), doubled(h, _batch([5])))


def test_an_empty_graph_is_predicted_from_zeros():
    head = GraphHead(4, 2, layers_post_mp=1, pooling="max")
    pred = head(-torch.rand(3, 4), _batch([0, 3, 0]))
    torch.testing.assert_close(pred[0], head.mlp.lin[0].bias)
    assert torch.equal(pred[0], pred[2])


def test_zero_layers_count_as_one():
    assert len(GraphHead(4, 2, layers_post_mp=0).mlp.lin) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GraphHead(4, 2, pooling="median"), "add, sum, mean, max.*; received 'median'"),
        (lambda: NodeHead(4, 2, layers_post_mp=-1), "layers_post_mp must be at least 0, received -1"),
        (lambda: EdgeHead(4, 2), "dot gives one number per pair, received out_dim = 2"),
        (lambda: EdgeHead(4, 1, decoding="sum"), "dot, cosine_similarity, concat; received 'sum'"),
        (lambda: OGBCodeGraphHead(4, 9, positions=0), "positions must be at least 1, received 0"),
        (
            lambda: registry.lookup("heads", "infer_links")(4, 2, infer_link_label="None"),
            "must be 'edge' for the head infer_links, received 'None'",
        ),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ---- every registered head -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", registry.names("heads"))
def test_head(name):
    head = registry.lookup("heads", name)
    check_head(head)
    graphs = labelled(partial(example_batch, node_dim=12))
    subject, batch = head_subject(head, example=graphs), graphs()
    check_batch_independence(subject, batch, 1e-12)
    check_permutation(subject, batch, 1e-12)
    check_gradients(subject, batch, vectors=True)
    h = batch.x.clone().requires_grad_()
    [pred] = subject(batch.replace(x=h)).values()
    (pred * torch.randn_like(pred)).sum().backward()
    assert h.grad.abs().sum() > 0
    for pooling in ("add", "max") if "pooling" in registry.parameters(head) else ():
        check_batch_independence(head_subject(head, example=graphs, pooling=pooling), batch, 1e-12)


@pytest.mark.parametrize(
    ("name", "peer"), [("gcn_node", GCNConv(8, 3)), ("gat_node", GATConv(8, 3)), ("sage_node", SAGEConv(8, 3))]
)
def test_convolution_onto_the_classes_equals_pyg(name, peer):
    head = registry.construct(registry.lookup("heads", name), {"dim_in": 8, "out_dim": 3, "act": "elu"}).double()
    names = {"att_src": "att_source", "att_dst": "att_target"}
    names |= {
        "lin_l.weight": "lin_neighbor.weight",
        "lin_l.bias": "lin_neighbor.bias",
        "lin_r.weight": "lin_self.weight",
    }
    head.layer.load_state_dict({names.get(key, key): value for key, value in peer.double().state_dict().items()})
    h = torch.randn(6, 8, dtype=torch.float64)
    edge_index = torch.tensor([[0, 1, 1, 2, 4, 5], [1, 0, 2, 1, 5, 4]])
    pred = head(h, _batch([6]).replace(edge_index=edge_index))
    torch.testing.assert_close(pred, peer(torch.nn.functional.elu(h), edge_index))


def test_a_convolution_head_drops_out_states_and_attention():
    h, batch = torch.randn(6, 8), _batch([6])
    for rates in ({"dropout": 1.0}, {"attention_dropout": 1.0}):
        head = GATHead(8, 3, **rates)
        torch.testing.assert_close(head(h, batch), head.layer.bias.expand(6, 3))
        assert not torch.equal(head.eval()(h, batch), head.layer.bias.expand(6, 3))


# ---- pairs -----------------------------------------------------------------------------------------------------------


def _asked(recorded):
    pairs = recorded["in/pairs_per_graph"]
    return GraphBatch(
        Ragged.from_sizes(recorded["in/ptr"].diff().tolist()),
        recorded["in/edge_index"],
        y=recorded["in/label"],
        edge_sets={"label": EdgeSet(recorded["in/pairs"], torch.cat([pairs.new_zeros(1), pairs.cumsum(0)]))},
    )


@pytest.mark.parametrize("layers", [1, 2])
def test_pairs_equal_graphgps(golden, layers):
    recorded = golden(f"graphgps/head_inductive_edge_dot_L{layers}")
    head = InductiveEdgeHead(8, 1, layers_post_mp=layers).double()
    head.load_state_dict({"mlp." + key[2:]: value.double() for key, value in recorded.items() if key.startswith("w/")})
    h, batch = recorded["in/x"].double().requires_grad_(), _asked(recorded)
    score = head(h, batch)[:, 0]
    torch.testing.assert_close(score, recorded["out/score"], rtol=0, atol=1e-12)
    (score * recorded["in/grad_seed.score"]).sum().backward()
    torch.testing.assert_close(h.grad, recorded["grad/in.x"], rtol=0, atol=1e-12)
    for key, parameter in head.named_parameters():
        torch.testing.assert_close(parameter.grad, recorded[f"grad/{key[4:]}"], rtol=0, atol=1e-12)
    statistics = head.statistics(h.detach(), batch)
    for name, expected in zip(recorded["config"]["stat_keys"], recorded["out/stats"], strict=True):
        assert float(statistics[name].mean()) == pytest.approx(float(expected), abs=1e-7), name  # theirs is float32


@pytest.mark.parametrize("case", ["mrr_filtered", "mrr_filtered_with_empty_graph"])
def test_ranks_equal_the_re_tuned_benchmark(golden, case):
    recorded = golden(f"lrgb/{case}")
    batch = _asked(recorded)
    found = ranking_statistics(recorded["in/x"], batch.ragged, recorded["in/pairs"], batch.y == 1)
    assert set(found) == set(recorded["config"]["keys"])
    for column, name in enumerate(recorded["config"]["keys"]):
        expected = recorded["out/stats_per_graph"][:, column].float()
        torch.testing.assert_close(found[name], expected, rtol=0, atol=1e-6, equal_nan=True)
        assert float(found[name].nanmean()) == pytest.approx(float(recorded["out/stats"][column]), abs=1e-6), name


def _counted(z, sizes, pairs, positive):
    """Rank by rank, as defined."""
    first, result = 0, {name: [] for name in ("mrr", "mrr_filt", "mrr_filt_self", "hits@3_filt_self")}
    for size in sizes:
        true = [(s - first, t - first) for (s, t), p in zip(pairs.T.tolist(), positive.tolist()) if p]
        true = [(s, t) for s, t in true if 0 <= s < size]
        score = z[first : first + size] @ z[first : first + size].T
        values = {name: [] for name in result}
        for s, t in true:
            others = [j for j in range(size) if j != t]
            filtered = [j for j in others if (s, j) not in true]
            for name, among in (
                ("mrr", others),
                ("mrr_filt", filtered),
                ("mrr_filt_self", [j for j in filtered if j != s]),
            ):
                rank = 1 + sum((score[s, j] > score[s, t]).item() + 0.5 * (score[s, j] == score[s, t]) for j in among)
                values[name].append(1 / float(rank))
                if name == "mrr_filt_self":
                    values["hits@3_filt_self"].append(float(rank <= 3))
        for name, each in values.items():
            empty = 0.0 if name == "mrr" else torch.nan
            result[name].append(sum(each) / len(each) if each else empty)
        first += size
    return result


def test_ranks_of_ragged_graphs_with_ties_and_repeated_pairs():
    sizes = [9, 0, 1, 40, 3, 12, 11]
    generator = torch.Generator().manual_seed(0)
    ragged = Ragged.from_sizes(sizes)
    z = torch.randint(-2, 3, (sum(sizes), 2), generator=generator).double()  # whole numbers: many exact ties
    graph = torch.tensor([0] * 6 + [3] * 30 + [5] * 8 + [6] * 4)
    inside = torch.rand(2, len(graph), generator=generator)
    pairs = ragged.ptr[graph] + (inside * ragged.size_tensor[graph]).long()
    pairs = torch.cat([pairs[:, :1], pairs], dim=1)  # the first pair twice
    positive = torch.rand(pairs.shape[1], generator=generator) < 0.6
    positive[:2] = True
    found = ranking_statistics(z, ragged, pairs, positive)
    for name, expected in _counted(z, sizes, pairs, positive).items():
        torch.testing.assert_close(
            found[name], torch.tensor(expected, dtype=torch.float64), equal_nan=True, rtol=0, atol=1e-12
        )


def test_equal_scores_share_their_rank():
    found = ranking_statistics(torch.ones(5, 2), Ragged.from_sizes([5]), torch.tensor([[0], [3]]), torch.tensor([True]))
    assert float(found["mrr"]) == pytest.approx(1 / 3)  # the middle of five, not the first
    assert float(found["hits@1"]) == 0


def test_cosine_similarity_has_length_one_and_concat_ranks_nothing():
    batch, h = _batch([4, 3]).replace(y=torch.ones(4)), torch.randn(7, 6)
    head = InductiveEdgeHead(6, 1, decoding="cosine_similarity")
    z = head.mlp(h)
    source, target = batch.edge_sets["label"].index
    expected = torch.nn.functional.cosine_similarity(z[source], z[target])
    torch.testing.assert_close(head(h, batch)[:, 0], expected)
    assert head.statistics(h, batch)["mrr"].shape == (2,)
    assert InductiveEdgeHead(6, 3, decoding="concat").statistics(h, batch) == {}


def test_ranks_are_not_computed_in_reduced_precision():
    head, batch, h = InductiveEdgeHead(6, 1), _batch([40]).replace(y=torch.ones(2)), torch.randn(40, 6)
    exact = head.statistics(h, batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(torch.equal(value, exact[name]) for name, value in head.statistics(h, batch).items())


def test_a_data_set_without_pairs_is_refused():
    with pytest.raises(UserError, match="this data set asks about none"):
        EdgeHead(4, 1)(torch.randn(3, 4), _batch([3]).replace(edge_sets={}))


@pytest.mark.parametrize(
    ("head", "parameters"),
    [
        (lambda: EdgeHead(10, 1, layers_post_mp=2), 2 * (100 + 10)),
        (lambda: EdgeHead(10, 4, layers_post_mp=1, decoding="concat"), 20 * 4 + 4),
        (lambda: EdgeHead(10, 4, layers_post_mp=3, decoding="concat"), 210 + 110 + 44),  # hidden width: gnn.dim_inner
        (lambda: OGBCodeGraphHead(256, 5002), 5 * (256 * 5002 + 5002)),
        (lambda: registry.lookup("heads", "infer_links")(10, 2), 4),
        (lambda: MLPGraphHead(10, 3, layers_post_mp=3), 110 + 110 + 33),
        (lambda: BatchNormMLPNodeHead(10, 3, layers_post_mp=3, dim_hidden=20), 200 + 40 + 400 + 40 + 63),
    ],
)
def test_parameters_are_those_of_the_originals(head, parameters):
    assert sum(each.numel() for each in head().parameters()) == parameters


def test_scales_of_published_targets():
    torch.manual_seed(0)
    plain, h, batch = MLPGraphHead(4, 1), torch.randn(5, 4), _batch([5])
    for kind, scale, shift in ((ZINCGraphHead, 2.0109, 0.0153), (PCQM4MGraphHead, 1.1623, 5.6896)):
        scaled = kind(4, 1)
        scaled.load_state_dict(plain.state_dict())
        torch.testing.assert_close(scaled(h, batch), scale * plain(h, batch) + shift)


@pytest.mark.parametrize("decoding", ["dot", "cosine_similarity", "concat"])
def test_pairs_are_scored_in_pieces_where_nothing_is_trained(decoding, monkeypatch):
    monkeypatch.setattr(edge, "PIECE", 3)
    head = EdgeHead(4, 1, decoding=decoding)
    for pairs in (0, 3, 8):
        index = torch.randint(0, 6, (2, pairs))
        batch = GraphBatch(
            Ragged.from_sizes([6]), torch.empty(2, 0, dtype=torch.int64),
            edge_sets={"label": EdgeSet(index, torch.tensor([0, pairs]))},
        )  # fmt: skip
        h = torch.randn(6, 4)
        with torch.no_grad():
            scored = head(h, batch)
        assert scored.shape == (pairs, 1)
        torch.testing.assert_close(scored, head(h, batch).detach())
