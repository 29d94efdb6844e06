from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch

from graphbench.data.loading.hidden_pairs import without_hidden_pairs
from graphbench.data.loading.loader import GraphLoaders, num_examples
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore, StoredEdges
from graphbench.errors import UserError
from tests.link_graphs import Contacts
from tests.loader_options import process_of

# graph g has g + 1 nodes and target g, so that a batch tells which graphs are in it
GRAPHS = GraphStore.from_arrays(range(1, 41), [0] * 40, torch.empty(2, 0), y=torch.arange(40))
SPLITS = Splits.of(range(23), range(23, 30), range(30, 40))
NODES = GraphStore.from_arrays([6], [2], torch.tensor([[0, 1], [1, 0]]), y=torch.arange(6), y_level="node")
NODE_SPLITS = Splits.of([4, 0, 2], [1], [3, 5])


def _loaders(**changes: Any) -> GraphLoaders:
    given = {"store": GRAPHS, "splits": SPLITS, "batch_size": 5, "transductive": False} | changes
    return GraphLoaders(given.pop("store"), given.pop("splits"), process_of(given), **given)


def _order(loaders: GraphLoaders, epoch: int) -> list[int]:
    batches = list(loaders.train(epoch))
    assert len(batches) == loaders.num_train_batches
    assert all(rows is None for _, rows in batches)
    return [graph for batch, _ in batches for graph in batch.y.tolist()]


def test_an_epoch_visits_every_training_graph_once() -> None:
    loaders = _loaders()
    assert loaders.num_train_batches == 5
    assert sorted(_order(loaders, 0)) == list(range(23))
    assert [batch.num_graphs for batch, _ in loaders.train(0)] == [5, 5, 5, 5, 3]


def test_order_depends_on_seed_and_epoch_only() -> None:
    first = _order(_loaders(), 7)
    loaders = _loaders()
    for epoch in (0, 3):  # what was drawn before does not matter
        list(loaders.train(epoch))
    torch.manual_seed(99)
    assert _order(loaders, 7) == first
    others = [_order(_loaders(), 8), _order(_loaders(seed=1), 7), _order(_loaders(seed=1), 6)]
    assert all(other != first for other in others)


def test_evaluation_is_one_pass_per_part_in_order() -> None:
    passes = _loaders().passes
    assert [dict(evaluation.rows) for evaluation in passes] == [{"train": None}, {"val": None}, {"test": None}]
    for _ in range(2):
        seen = [[graph for batch, _ in evaluation.batches() for graph in batch.y.tolist()] for evaluation in passes]
        assert seen == [list(range(23)), list(range(23, 30)), list(range(30, 40))]


@pytest.mark.parametrize("world", [2, 3, 4])
def test_processes_step_together_and_cover_everything(world: int) -> None:
    ranks = [_loaders(rank=rank, world_size=world) for rank in range(world)]
    assert len({loader.num_train_batches for loader in ranks}) == 1
    orders = [_order(loader, 1) for loader in ranks]
    assert len({len(order) for order in orders}) == 1
    joined = [graph for order in orders for graph in order]
    assert set(joined) == set(range(23))
    assert len(joined) == -(-23 // world) * world
    # together they walk through the permutation of a single process
    assert [order[0] for order in orders] == _order(_loaders(), 1)[:world]


@pytest.mark.parametrize("world", [2, 3, 50])
def test_evaluation_shares_together_are_a_split_in_its_order(world: int) -> None:
    ranks = [_loaders(rank=rank, world_size=world) for rank in range(world)]
    for part, expected in enumerate([range(23), range(23, 30), range(30, 40)]):
        seen = [graph for loader in ranks for batch, _ in loader.passes[part].batches() for graph in batch.y.tolist()]
        assert seen == list(expected)


def test_more_processes_than_training_graphs() -> None:
    ranks = [_loaders(splits=Splits.of([0, 1], [2], [3]), rank=rank, world_size=5) for rank in range(5)]
    assert [len(_order(loader, 0)) for loader in ranks] == [1] * 5


def test_one_big_graph_is_the_same_object_every_time() -> None:
    loaders = _loaders(store=NODES, splits=NODE_SPLITS, transductive=True)
    [(batch, rows)] = loaders.train(0)
    assert rows.tolist() == [4, 0, 2]
    calls = []
    batch.derived(calls.append)
    [(again, _)] = loaders.train(1)
    [evaluation] = loaders.passes
    [(evaluated, _)] = evaluation.batches()
    assert again is batch
    assert evaluated is batch
    again.derived(calls.append)
    assert len(calls) == 1
    assert {part: index.tolist() for part, index in evaluation.rows.items()} == {
        "train": [4, 0, 2],
        "val": [1],
        "test": [3, 5],
    }
    assert loaders.num_train_batches == 1


def test_transductive_rows_are_shared_out() -> None:
    ranks = [_loaders(store=NODES, splits=NODE_SPLITS, transductive=True, rank=r, world_size=2) for r in range(2)]
    rows = [next(loader.train(0))[1].tolist() for loader in ranks]
    assert rows == [[4, 2], [0, 4]]
    tested = [loader.passes[0].rows["test"].tolist() for loader in ranks]
    assert tested == [[3], [5]]
    evaluated = [loader.passes[0].rows["train"].tolist() for loader in ranks]
    assert evaluated == [[4, 0], [2]]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, received 0"),
        ({"rank": 2, "world_size": 2}, ValueError, r"rank must lie in 0 \.\. 1, received 2"),
        ({"splits": Splits.of([], [1], [2])}, ValueError, "the training part of the split is empty"),
        ({"splits": Splits.of([0], [1], [40])}, UserError, "example 40, but the data set has 40"),
        ({"transductive": True}, ValueError, "needs one target per node"),
        ({"batching": "sorted"}, ValueError, "batching must be one of shuffled, bucketed; received 'sorted'"),
        ({"node_budget": 39}, ValueError, "the largest graph, which has 40 nodes; received 39"),
        ({"eval_node_budget": 39}, ValueError, "eval_node_budget must be 0 .no limit. or hold the largest graph"),
        ({"resident": "yes"}, ValueError, "resident must be one of auto, always, never; received 'yes'"),
        (
            {"store": NODES, "splits": NODE_SPLITS, "transductive": True, "node_budget": 9},
            ValueError,
            "a transductive data set is one batch",
        ),
    ],
)
def test_impossible_requests_are_refused(changes: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        _loaders(**changes)


OPTIONS = [{"batching": "bucketed"}, {"node_budget": 90}, {"batching": "bucketed", "node_budget": 90}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_way_of_batching_visits_every_graph_once(options: dict[str, Any]) -> None:
    loaders = _loaders(**options)
    first = _order(loaders, 3)
    assert sorted(first) == list(range(23))
    assert first == _order(_loaders(**options), 3)
    assert first != _order(loaders, 4)
    if "node_budget" in options:
        nodes = [batch.num_nodes for batch, _ in loaders.train(3)]
        assert max(nodes) <= 90
        assert len(nodes) < 23


@pytest.mark.parametrize("options", [{}, *OPTIONS], ids=str)
def test_an_epoch_resumed_in_the_middle_goes_on_as_it_would_have(options: dict[str, Any]) -> None:
    whole = [batch.y.tolist() for batch, _ in _loaders(**options).train(2)]
    resumed = [batch.y.tolist() for batch, _ in islice(_loaders(**options).train(2), 2, None)]
    assert resumed == whole[2:]
    assert resumed


def test_evaluation_stays_in_order_and_within_the_budget() -> None:
    *_, test = _loaders(node_budget=90, batching="bucketed").passes
    batches = [batch for batch, _ in test.batches()]
    assert [graph for batch in batches for graph in batch.y.tolist()] == list(range(30, 40))
    assert [batch.num_nodes for batch in batches] == [31 + 32, 33 + 34, 35 + 36, 37 + 38, 39 + 40]


def test_evaluation_has_a_budget_of_its_own() -> None:
    *_, test = _loaders(batch_size=2, eval_node_budget=150).passes
    assert [batch.num_nodes for batch, _ in test.batches()] == [31 + 32 + 33 + 34, 35 + 36 + 37 + 38 + 0, 39 + 40]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("resident", ["auto", "always", "never"])
def test_batches_arrive_on_the_gpu(resident: str) -> None:
    loaders = _loaders(device="cuda", resident=resident)
    batches = [batch for batch, _ in loaders.train(0)]
    assert all(batch.device.type == "cuda" for batch in batches)
    assert [batch.y.tolist() for batch in batches] == [batch.y.tolist() for batch, _ in _loaders().train(0)]
    assert (loaders._source is GRAPHS) == (resident == "never")
    transductive = _loaders(store=NODES, splits=NODE_SPLITS, transductive=True, device="cuda")
    [(batch, rows)] = transductive.train(0)
    assert rows.device.type == "cuda"
    assert next(transductive.passes[0].batches())[0] is batch


# ---- pairs -----------------------------------------------------------------------------------------------------------


def _pair_store(encodings: bool = False, edges: torch.Tensor | None = None) -> GraphStore:
    """Path 0-1-2-3-4 in both directions; all 10 pairs are asked about, the linked ones are true."""
    path = torch.stack([torch.arange(4), torch.arange(1, 5)])
    edges = torch.cat([path, path.flip(0)], dim=1) if edges is None else edges
    asked = torch.triu_indices(5, 5, 1)
    store = GraphStore.from_arrays(
        [5], [edges.shape[1]], edges, x=torch.randn(5, 2), edge_attr=torch.arange(edges.shape[1])[:, None].float()
    ).replace(
        y=(asked[1] - asked[0] == 1).long(),
        y_level="pair",
        edge_sets={"label": StoredEdges(torch.tensor([0, 10]), asked)},
    )
    return store.with_encodings(pe={"LapPE.vectors": torch.randn(5, 1)}) if encodings else store


# Pairs in the order of triu_indices: 01 02 03 04 12 13 14 23 24 34
PAIR_SPLITS = Splits.of([0, 1, 2, 7], [3, 4, 5], [6, 8, 9])


def _pair_loaders(store: GraphStore, **changes: Any) -> GraphLoaders:
    return GraphLoaders(store, PAIR_SPLITS, process_of(changes), batch_size=1, transductive=True, **changes)


def test_pairs_of_one_graph_are_examples() -> None:
    store = _pair_store()
    assert num_examples(store, True) == 10
    assert num_examples(store, False) == 1
    loaders = _pair_loaders(store)
    ((batch, rows),) = loaders.train(0)
    assert rows.tolist() == [0, 1, 2, 7]
    (both,) = loaders.passes
    assert {name: rows.tolist() for name, rows in both.rows.items()} == {
        "train": [0, 1, 2, 7],
        "val": [3, 4, 5],
        "test": [6, 8, 9],
    }
    assert batch.num_edges == 8  # nobody asked to hide any


def test_link_prediction_hides_the_edges_it_asks_for_later() -> None:
    hidden = without_hidden_pairs(_pair_store(), PAIR_SPLITS)
    ((batch, _),) = _pair_loaders(hidden).train(0)
    # 1-2 is asked about in validation, 3-4 in test: gone in both directions, features too.
    assert sorted(batch.edge_index.T.tolist()) == [[0, 1], [1, 0], [2, 3], [3, 2]]
    assert batch.edge_attr[:, 0].tolist() == [0, 2, 4, 6]


def test_edges_of_several_graphs_are_hidden_graph_by_graph() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 1, 0]])  # 0-1-2, and 0-1
    asked = StoredEdges(torch.tensor([0, 2, 3]), torch.tensor([[0, 1, 0], [1, 2, 1]]))
    store = GraphStore.from_arrays([3, 2], [4, 2], edges, x=torch.randn(5, 2))
    store = store.replace(y=torch.ones(3, dtype=torch.int64), y_level="pair", edge_sets={"label": asked})
    first = without_hidden_pairs(store, Splits.of([1, 2], [0], []))
    assert first.edge_ptr.tolist() == [0, 2, 4]
    assert first.edge_index.T.tolist() == [[1, 2], [2, 1], [0, 1], [1, 0]]
    assert without_hidden_pairs(store, Splits.of([0], [1], [2])).edge_ptr.tolist() == [0, 2, 2]
    assert without_hidden_pairs(store, Splits.of([0, 1, 2], [], [])) is store


def test_encodings_computed_with_hidden_edges_are_refused() -> None:
    with pytest.raises(ValueError, match="4 edges of the graph are asked about in validation or test"):
        without_hidden_pairs(_pair_store(encodings=True), PAIR_SPLITS)
    training = torch.tensor([[0, 1], [1, 0]])
    store = _pair_store(encodings=True, edges=training)
    assert without_hidden_pairs(store, PAIR_SPLITS) is store


def test_negatives_are_drawn_per_epoch_and_fixed_in_evaluation() -> None:
    loaded = Contacts("x").load(None)
    given = {"batch_size": 4, "transductive": False, "resample_negatives": True}
    loaders = GraphLoaders(loaded.store, loaded.published["standard"][0], process_of({}), **given)

    def pairs(batches: Any) -> list:
        return [batch.edge_sets["label"].index.tolist() for batch, _ in batches]

    def epoch(number: int) -> list:
        return pairs(loaders.train(number))

    assert epoch(0) == epoch(0)
    assert epoch(0) != epoch(1)
    val = loaders.passes[1]
    assert pairs(val.batches()) == pairs(val.batches())
    first, _ = next(val.batches())
    assert set(first.y.tolist()) == {0.0, 1.0}
    without, _ = next(
        GraphLoaders(
            loaded.store, loaded.published["standard"][0], process_of({}), **{**given, "resample_negatives": False}
        )
        .passes[1]
        .batches()
    )
    assert set(without.y.tolist()) == {1.0}


def test_negatives_are_for_pairs_of_many_graphs() -> None:
    with pytest.raises(ValueError, match="resample_negative is for many graphs"):
        _loaders(resample_negatives=True)
    with pytest.raises(ValueError, match="resample_negative is for many graphs"):
        _pair_loaders(_pair_store(), resample_negatives=True)


def test_negatives_cannot_be_drawn_where_the_graphs_are_resident() -> None:
    loaded = Contacts("x").load(None)
    with pytest.raises(ValueError, match="leave resident at auto"):
        GraphLoaders(
            loaded.store,
            loaded.published["standard"][0],
            process_of({}),
            batch_size=4,
            transductive=False,
            resample_negatives=True,
            resident="always",
        )
