"""Clusters against their definition: disjoint, of about equal size, with few edges between them."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from graphbench.data.large import clusters
from graphbench.data.large.clusters import Clusters
from tests.data.large.large_graphs import one_graph

METHODS = ["rcm"] + ["metis"] * (importlib.util.find_spec("pymetis") is not None)


def _cliques(count: int, size: int) -> torch.Tensor:
    """A ring of cliques, joined by an edge each; nodes are numbered across the cliques."""
    pairs = [
        (i * count + c, j * count + c) for c in range(count) for i in range(size) for j in range(size) if i != j
    ] + [(c, (c + 1) % count) for c in range(count)]
    return torch.tensor(pairs).T


@pytest.mark.parametrize("method", METHODS)
def test_clusters_are_even_and_cut_less_than_chance(method):
    found = Clusters.of(_cliques(6, 10), 60, 6, method=method)
    sizes = torch.bincount(found.number, minlength=6)
    assert found.count == 6
    assert int(sizes.sum()) == 60
    assert int(sizes.max()) <= 13
    # By chance five of six edges join two clusters.
    assert found.cut < (0.1 if method == "metis" else 0.7)
    again = Clusters.of(_cliques(6, 10), 60, 6, method=method)
    assert torch.equal(found.number, again.number)


@pytest.mark.parametrize("method", METHODS)
def test_the_cut_is_that_of_the_edges(method):
    store = one_graph()
    found = Clusters.of(store.edge_index, store.num_nodes, 5, method=method)
    pairs = {frozenset(pair) for pair in store.edge_index.T.tolist() if pair[0] != pair[1]}
    apart = [len({int(found.number[node]) for node in pair}) == 2 for pair in pairs]
    assert found.cut == pytest.approx(sum(apart) / len(pairs))


@pytest.mark.parametrize("method", METHODS)
def test_graphs_without_edges_and_one_cluster(method):
    found = Clusters.of(torch.empty(2, 0, dtype=torch.int64), 7, 3, method=method)
    assert found.cut == 0
    assert found.number.shape == (7,)
    assert set(Clusters.of(_cliques(2, 3), 6, 1, method=method).number.tolist()) == {0}


def test_without_metis_it_is_said(monkeypatch, caplog):
    monkeypatch.setattr(clusters.importlib.util, "find_spec", lambda name: None)
    found = Clusters.of(_cliques(3, 4), 12, 3)
    assert found.method == "reverse Cuthill-McKee order"
    assert "pymetis is not installed" in caplog.text
    with pytest.raises(ValueError, match=r"needs pymetis: pip install 'graphbench-gt\[clusters\]'; rcm needs nothing"):
        Clusters.of(_cliques(3, 4), 12, 3, method="metis")


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"train.train_parts must lie in 1 .. 12 for 12 nodes; received 13"):
        Clusters.of(_cliques(3, 4), 12, 13)
    with pytest.raises(ValueError, match=r"train.clustering must be one of auto, metis, rcm; received 'louvain'"):
        Clusters.of(_cliques(3, 4), 12, 3, method="louvain")


def test_clusters_are_kept_with_the_data(tmp_path, monkeypatch):
    """Those of another graph, number, method or seed are others; a damaged file is made again."""
    store, made = one_graph(), []
    of = Clusters.of

    def counted(*args, **options):
        made.append(options)
        return of(*args, **options)

    monkeypatch.setattr(Clusters, "of", counted)
    first = Clusters.cached(tmp_path, store, 5, method="rcm")
    again = Clusters.cached(tmp_path, store.with_encodings(pe={"more": torch.zeros(60, 1)}), 5, method="rcm", seed=3)
    assert len(made) == 1, "the order depends on no seed and no encoding"
    assert torch.equal(again.number, first.number)
    assert (again.described, again.count) == (first.described, 5)
    others = [
        Clusters.cached(tmp_path, store, 6, method="rcm"),
        Clusters.cached(tmp_path, one_graph(seed=1), 5, method="rcm"),
        *(Clusters.cached(tmp_path, store, 5, method="metis", seed=seed) for seed in (0, 1) if "metis" in METHODS),
    ]
    assert len(made) == 1 + len(others)
    number = first.number.clone()  # of a mapped file
    for file in (tmp_path / "clusters").glob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-9])
    assert torch.equal(Clusters.cached(tmp_path, store, 5, method="rcm").number, number)
    assert len(made) == 2 + len(others)
