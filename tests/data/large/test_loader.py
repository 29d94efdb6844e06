"""Loaders over one large graph: what an epoch holds, what it depends on, what evaluation sees."""

from __future__ import annotations

from itertools import chain

import pytest
import torch

from graphbench.blockwise.stored import StoredBlocks
from graphbench.data.large.clusters import Clusters
from graphbench.data.large.neighbor_loader import NeighborLoader, ShadowLoader
from graphbench.data.large.partition_loader import ClusterLoader, PartitionLoader
from graphbench.data.splits import Splits
from graphbench.data.store import StoredEdges
from graphbench.structures.node_blocks import NodeBlocks
from tests.data.large.large_graphs import one_graph, split_of
from tests.loader_options import options_of


def partition(store=None, splits=None, **options):
    store = one_graph() if store is None else store
    options.setdefault("blocks", lambda incoming: StoredBlocks(store, incoming=incoming))
    return PartitionLoader(store, splits or split_of(store), options_of({"parts": 4, **options}))


def neighbor(store=None, splits=None, **options):
    store = one_graph() if store is None else store
    options.setdefault("blocks", lambda incoming: StoredBlocks(store, incoming=incoming))
    given = {"sizes": [3, 2], "batch_size": 7, **options}
    return NeighborLoader(store, splits or split_of(store), options_of(given), **given)


def shadow(store=None, splits=None, **options):
    store = one_graph() if store is None else store
    options.setdefault("blocks", lambda incoming: StoredBlocks(store, incoming=incoming))
    given = {"sizes": [3, 2], "batch_size": 7, **options}
    return ShadowLoader(store, splits or split_of(store), options_of(given), **given)


def cluster(store=None, splits=None, **options):
    store = one_graph() if store is None else store
    options.setdefault("blocks", lambda incoming: StoredBlocks(store, incoming=incoming))
    found = Clusters.of(store.edge_index, store.num_nodes, 9, method="rcm")
    given = {"batch_size": 4, "parts": 4, "clusters": found, **options}
    return ClusterLoader(store, splits or split_of(store), options_of(given), **given)


def trained(loader, epoch=0):
    """Numbers of the nodes (the first feature) on which the loss of every batch is computed."""
    return [batch.x[rows, 0].long().tolist() for batch, rows in loader.train(epoch)]


def flat(lists):
    return list(chain.from_iterable(lists))


MAKERS = pytest.mark.parametrize("make", [partition, neighbor, shadow, cluster])


@MAKERS
def test_an_epoch_trains_every_training_node_once(make):
    loader = make()
    nodes = trained(loader)
    assert len(nodes) == loader.num_train_batches
    assert sorted(flat(nodes)) == split_of(one_graph()).train.sort().values.tolist()
    for batch, _ in loader.train(0):
        assert torch.equal(batch.y, batch.x[:, 0].long() % 3)


@MAKERS
def test_an_epoch_depends_on_seed_and_number_only(make):
    def content(loader, epoch):
        return [(batch.x[:, 0].tolist(), batch.edge_index.tolist()) for batch, _ in loader.train(epoch)]

    loader = make()
    later = content(loader, 3)
    assert content(make(), 3) == later
    assert content(loader, 3) == later
    assert content(loader, 4) != later
    assert content(make(seed=1), 3) != later


@MAKERS
def test_processes_share_an_epoch(make):
    alone = flat(trained(make()))
    ranks = [make(rank=rank, world_size=3) for rank in range(3)]
    assert len({loader.num_train_batches for loader in ranks}) == 1
    epochs = [trained(loader) for loader in ranks]
    assert {len(batches) for batches in epochs} == {ranks[0].num_train_batches}
    assert set(flat(node for batches in epochs for node in batches)) == set(alone)
    for part, rows in make().passes[0].rows.items():
        shares = [loader.passes[0].rows[part] for loader in ranks]
        assert torch.equal(torch.cat(shares), rows), "evaluated in the order of the split"


def test_seed_nodes_come_first():
    for batch, rows in neighbor().train(0):
        assert rows.tolist() == list(range(len(rows)))
        assert batch.num_nodes > len(rows)


def test_every_seed_node_has_a_graph_of_its_own():
    for batch, rows in shadow().train(0):
        assert torch.equal(rows, batch.ragged.ptr[:-1])
        assert torch.equal(batch.ragged.graph_id[batch.edge_index[0]], batch.ragged.graph_id[batch.edge_index[1]])


@pytest.mark.parametrize("make", [neighbor, shadow])
@pytest.mark.parametrize("world_size", [1, 3])
def test_sampled_evaluation_predicts_every_node_once(make, world_size):
    name, found = make.__name__, {"train": [], "val": [], "test": []}
    for rank in range(world_size):
        loader = make(evaluation=name, exact="blocks", rank=rank, world_size=world_size)
        assert loader.approximation.startswith("predicted on sampled ")
        assert loader.approximation.endswith(" (3, 2 per hop)")
        for each in loader.passes:
            for _ in range(2):  # always the same
                given = list(each.batches())
            (part,) = each.rows
            found[part] += flat(batch.x[rows, 0].long().tolist() for batch, rows in given)
        (exact,) = loader.exact_passes()
        assert isinstance(next(exact.batches())[0], NodeBlocks)
    assert found == {part: nodes.tolist() for part, nodes in split_of(one_graph()).parts().items()}
    assert make(evaluation="blocks", exact="blocks").exact_passes is None
    assert make(evaluation=name).exact_passes is None


def test_every_part_has_a_training_node():
    store = one_graph()
    splits = Splits.of(range(8), range(8, 30), range(30, 60))
    loader = partition(store, splits, parts=4)
    for epoch in range(30):
        assert all(nodes for nodes in trained(loader, epoch))


def test_too_many_parts_for_the_training_nodes():
    with pytest.raises(ValueError, match=r"4 parts that all have a training node .* with 2 training nodes"):
        partition(splits=Splits.of([0, 1], [2], [3]))


@MAKERS
@pytest.mark.parametrize("evaluation", ["full_batch", "random_node"])
def test_evaluation_finds_every_node_at_its_row(make, evaluation):
    loader = make(evaluation=evaluation)
    (evaluation,) = loader.passes
    for _ in range(2):
        seen = torch.cat([batch.x[:, 0] for batch, _ in evaluation.batches()]).long()
        for name, nodes in split_of(one_graph()).parts().items():
            assert torch.equal(seen[evaluation.rows[name]], nodes)


def test_evaluation_of_clusters_finds_every_node_and_says_what_it_is():
    for evaluation in ("full_batch", "blocks"):
        assert cluster(evaluation=evaluation).approximation is None
    loader = cluster(evaluation="cluster")
    (of_clusters,) = loader.passes
    batches = [batch for batch, _ in of_clusters.batches()]
    assert len(batches) == 9
    seen = torch.cat([batch.x[:, 0] for batch in batches]).long()
    for name, nodes in split_of(one_graph()).parts().items():
        assert torch.equal(seen[of_clusters.rows[name]], nodes)
    found = Clusters.of(one_graph().edge_index, 60, 9, method="rcm").described
    assert loader.sampling == found
    assert loader.approximation == f"predicted cluster by cluster ({found}), without the edges between"
    assert partition(evaluation="random_node").approximation == (
        "predicted on 4 random parts of the nodes, without the edges between"
    )
    assert partition().sampling is None


@MAKERS
def test_evaluation_in_blocks_hands_over_the_graph(make):
    loader = make(evaluation="blocks")
    (evaluation,) = loader.passes
    ((graph, _),) = evaluation.batches()
    assert isinstance(graph, NodeBlocks)
    assert next(evaluation.batches())[0] is graph
    assert torch.equal(evaluation.rows["val"], split_of(one_graph()).val)


def test_half_precision_features_are_widened():
    store = one_graph()
    narrow = store.replace(x=store.x.half())
    for evaluation in ("full_batch", "random_node"):
        loader = partition(narrow, evaluation=evaluation)
        assert {batch.x.dtype for batch, _ in loader.train(0)} == {torch.float32}
        assert {batch.x.dtype for batch, _ in loader.passes[0].batches()} == {torch.float32}
    assert StoredBlocks(narrow).nodes(0).x.dtype is torch.float32


@MAKERS
def test_what_cannot_be_cut_is_refused(make):
    store, pair = one_graph(), torch.zeros(2, 1, dtype=torch.int32)
    several = store.replace(node_ptr=torch.tensor([0, 60, 60]), edge_ptr=torch.tensor([0, 400, 400]))
    with pytest.raises(ValueError, match="cuts one graph with a target per node; this data set has 2 graphs"):
        make(several)
    expander = store.with_encodings(edge_sets={"expander": StoredEdges(torch.tensor([0, 1]), pair)})
    with pytest.raises(ValueError, match="cannot cut edge set 'expander' along with the graph; use full_batch"):
        make(expander)
    with pytest.raises(ValueError, match=r"val.sampler must be one of full_batch, blocks, random_.*'some'"):
        make(evaluation="some")
    with pytest.raises(ValueError, match="evaluation in blocks needs blocks"):
        make(evaluation="blocks", blocks=None)
    with pytest.raises(ValueError, match="evaluation of clusters needs clusters"):
        neighbor(evaluation="cluster")
    with pytest.raises(ValueError, match="batches of clusters need clusters"):
        cluster(clusters=None)
    with pytest.raises(ValueError, match="the training part of the split is empty"):
        make(splits=Splits.of([], [0], [1]))
    with pytest.raises(ValueError, match=r"rank must lie in 0 .. 1, received 2"):
        make(rank=2, world_size=2)
