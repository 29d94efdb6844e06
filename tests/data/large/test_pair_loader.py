"""Mini-batches of pairs: what they ask, what they see, and evaluation against the whole graph."""

from __future__ import annotations

import pytest
import torch

from graphbench.data.large.pair_loader import PairLoader
from graphbench.data.loading.hidden_pairs import without_hidden_pairs
from graphbench.data.splits import Splits
from graphbench.data.store import StoredEdges
from tests.data.large.large_graphs import one_graph
from tests.loader_options import options_of

PAIRS = 50


def asked_graph(**fields):
    """Pairs of random nodes; the target of a pair is its number."""
    pairs = torch.randint(0, 60, (2, PAIRS), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    label = {"label": StoredEdges(torch.tensor([0, PAIRS]), pairs)}
    store = one_graph(**fields)
    return store.replace(y=torch.arange(PAIRS), y_level="pair", edge_sets=label)


SPLITS = Splits.of(range(0, PAIRS, 2), range(1, 30, 2), range(31, PAIRS, 2))


def loader(store, splits=SPLITS, **options):
    return PairLoader(store, splits, options_of(options), **{"sizes": [3, 2], "batch_size": 7, **options})


def _ends(batch):
    """Pairs asked about, in numbers of the whole graph."""
    return batch.x[:, 0].long()[batch.edge_sets["label"].index]


def test_an_epoch_asks_every_training_pair_once():
    store, made = asked_graph(), loader(_hidden_safe())
    asked = []
    for batch, rows in made.train(0):
        assert rows.tolist() == list(range(len(batch.y)))
        assert torch.equal(_ends(batch), store.edge_sets["label"].index[:, batch.y].long())
        asked += batch.y.tolist()
    assert sorted(asked) == SPLITS.train.tolist()
    assert made.num_train_batches == 4


def _hidden_safe():
    """As a run has it: encodings cannot stay where edges are taken out."""
    return without_hidden_pairs(asked_graph().replace(pe={}, edge_pe={}), SPLITS)


def test_pairs_of_validation_and_test_are_no_edges():
    store = asked_graph()
    index = store.edge_sets["label"].index[:, torch.cat([SPLITS.val, SPLITS.test])].T.tolist()
    forbidden = {tuple(pair) for pair in index} | {(t, s) for s, t in index}
    assert {tuple(edge) for edge in store.edge_index.T.tolist()} & forbidden, "or nothing is tested"
    made = loader(_hidden_safe(), sizes=[-1, -1])
    ((whole, _),) = next(iter(made.passes)).batches()
    for batch in [whole, *(batch for batch, _ in made.train(0))]:
        nodes = batch.x[:, 0].long()
        edges = {tuple(edge) for edge in nodes[batch.edge_index].T.tolist()}
        assert edges
        assert not edges & forbidden
        ends = store.edge_index.T[batch.edge_attr[:, 0].long()].long()
        assert torch.equal(nodes[batch.edge_index].T, ends), "attributes stay with their edges"
    with pytest.raises(ValueError, match="encodings in the data were computed with them"):
        without_hidden_pairs(store, SPLITS)


@pytest.mark.parametrize(
    ("sampler", "evaluation"), [("neighbor", "full_batch"), ("neighbor", "neighbor"), ("shadow", "shadow")]
)
@pytest.mark.parametrize("world_size", [1, 3])
def test_evaluation_finds_every_pair_at_its_row(sampler, evaluation, world_size):
    store = _hidden_safe()
    found = {"train": [], "val": [], "test": []}
    for rank in range(world_size):
        made = loader(store, sampler=sampler, evaluation=evaluation, rank=rank, world_size=world_size)
        assert (made.approximation is None) == (evaluation == "full_batch")
        for each in made.passes:
            for _ in range(2):  # always the same
                batches = [batch for batch, _ in each.batches()]
            for batch in batches:
                assert torch.equal(_ends(batch), store.edge_sets["label"].index[:, batch.y].long())
            y = torch.cat([batch.y for batch in batches]) if batches else torch.empty(0, dtype=torch.int64)
            for part, rows in each.rows.items():
                found[part] += (y if rows is None else y[rows]).tolist()
    assert found == {part: index.tolist() for part, index in SPLITS.parts().items()}


def test_the_graph_of_a_pair_is_what_surrounds_its_ends_without_the_edges_between_them():
    store = _hidden_safe()
    made, seen = loader(store, sampler="shadow", sizes=[-1]), 0
    visible = made._store.edge_index.T.tolist()
    for batch, rows in made.train(0):
        assert rows.tolist() == list(range(len(batch.y)))
        assert torch.equal(_ends(batch), store.edge_sets["label"].index[:, batch.y].long())
        for graph, (start, end) in enumerate(zip(batch.ragged.ptr, batch.ragged.ptr[1:], strict=False)):
            asked = batch.edge_sets["label"].index[:, graph]
            assert ((start <= asked) & (asked < end)).all()
            roots = set(batch.x[asked, 0].long().tolist())
            nodes = batch.x[start:end, 0].long().tolist()
            assert set(nodes) == roots | {source for source, target in visible if target in roots}
            inside = batch.ragged.graph_id[batch.edge_index[0]] == graph
            ends = batch.x[batch.edge_index[:, inside], 0].long().T.tolist()
            among = [edge for edge in visible if set(edge) <= set(nodes)]
            expected = [edge for edge in among if not (set(edge) == roots and len(roots) == 2)]
            assert sorted(ends) == sorted(expected)
            seen += len(among) - len(expected)
    assert seen, "or nothing is tested"


def test_an_epoch_depends_on_seed_and_number_only():
    def content(made, epoch):
        return [(batch.y.tolist(), batch.x[:, 0].tolist(), batch.edge_index.tolist()) for batch, _ in made.train(epoch)]

    made = loader(_hidden_safe())
    later = content(made, 3)
    assert content(loader(_hidden_safe()), 3) == later
    assert content(made, 3) == later
    assert content(made, 4) != later
    assert content(loader(_hidden_safe(), seed=1), 3) != later


def test_what_is_refused():
    store = _hidden_safe()
    with pytest.raises(
        ValueError, match=r"cuts one graph with a target per pair; this data set has 1 graphs with .* node"
    ):
        loader(one_graph())
    with pytest.raises(ValueError, match=r"val.sampler of a link task .* must be full_batch or neighbor; not 'blocks'"):
        loader(store, evaluation="blocks")
    with pytest.raises(ValueError, match="batch_size must be at least 1, received 0"):
        loader(store, batch_size=0)
    with pytest.raises(ValueError, match="the training part of the split is empty"):
        loader(store, Splits.of([], [0], [1]))
    with pytest.raises(ValueError, match=r"rank must lie in 0 .. 0, received 1"):
        loader(store, rank=1)
