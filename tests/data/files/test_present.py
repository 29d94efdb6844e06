"""Every data set that lies in $GRAPHBENCH_DATA loads as a configuration loads it, with the published statistics.

The numbers stand in the test of each data set: those of the papers and of the libraries' documentation, edges in both
directions. Where a set differs from what its paper prints, its card says why.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from graphbench import registry
from graphbench.data.builder import DatasetBuilder
from graphbench.data.files.download import no_downloads
from graphbench.data.files.roots import Roots
from graphbench.data.split_protocols import make_splits
from graphbench.data.splits import SplitRequest
from tests.dataset_case import PublishedCounts, declared
from tests.real_data import shared_cache

PUBLISHED: dict[str, PublishedCounts] = declared("PUBLISHED_COUNTS")


def _builder(key: str) -> DatasetBuilder:
    registered, name = key.split("/")
    builder: DatasetBuilder = registry.lookup("data/datasets", registered)(name)
    return builder


def _present(key: str, roots: Roots) -> bool:
    """COLLAB is kept in a more compact form than its card names."""
    card = _builder(key).card
    assert card is not None
    return roots.find(*card.files) is not None or (
        key.endswith("COLLAB") and roots.find("TUDataset/COLLAB/COLLAB.txt.gz") is not None
    )


@pytest.fixture
def roots(tmp_path: Path, data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Roots:
    return Roots(tmp_path, (data_root,), shared_cache(tmp_path_factory))


def _marks(counts: PublishedCounts) -> list[pytest.MarkDecorator]:
    exhaustive = [pytest.mark.exhaustive] if counts.exhaustive else []
    return [*exhaustive, pytest.mark.slow] if counts.slow or counts.exhaustive else []


@pytest.mark.parametrize("key", [pytest.param(key, marks=_marks(counts)) for key, counts in PUBLISHED.items()])
def test_loads_with_the_published_statistics(key: str, roots: Roots) -> None:
    if not _present(key, roots):
        pytest.skip(f"the raw files of {key} are not in {roots.shared[0]}")
    if key == "OGB/peptides-functional":
        pytest.importorskip("rdkit")
    expected = PUBLISHED[key]
    with no_downloads():
        loaded = _builder(key).load(roots)
    store, card = loaded.store, loaded.card
    assert (store.num_graphs, store.num_nodes, store.num_edges) == expected[:3]
    assert store.x.shape[1] == card.node_in == expected.columns
    assert store.y is not None
    if expected.classes is not None:
        labels = store.y[~store.y.isnan()] if store.y.is_floating_point() else store.y
        assert int(labels.max()) + 1 == expected.classes == max(card.out_dim, 2)
    standard = loaded.published.get("standard", ())
    assert len(standard) == (expected.splits if "standard" in card.split_modes else 0)
    assert {mode: len(splits) for mode, splits in loaded.published.items()}.items() <= card.split_counts.items()
    for index in range(len(standard)):
        split = make_splits("standard", SplitRequest(loaded.num_examples, index=index, published=loaded.published))
        if expected.split:
            assert tuple(len(part) for part in split.parts().values()) == expected.split
    info = card.info(store)
    assert info.max_nodes == int(store.sizes.max())
    batch = store.gather(range(min(store.num_graphs, 3)))
    assert batch.edge_index.dtype == torch.int64
    assert int(batch.edge_index.max()) < batch.num_nodes


@pytest.mark.parametrize("key", PUBLISHED)
def test_cards_say_how_many_splits_were_published(key: str) -> None:
    card = _builder(key).card
    assert card is not None
    if "standard" in card.split_modes:
        assert card.split_counts["standard"] == PUBLISHED[key].splits


def test_nothing_that_lies_there_is_left_out(data_root: Path) -> None:
    """A folder that no entry of the table reads is a data set nobody checks."""
    roots = Roots(data_root / "none", (data_root,), data_root / "none")
    read = {Path(file).parts[:2] for key in PUBLISHED if _present(key, roots) for file in _builder(key).card.files}
    there = {path.relative_to(data_root).parts[:2] for path in data_root.rglob("*") if path.is_file()}
    explained = {("TUDataset", "folds"), ("ZINC", "official_index")}  # splits of other sets; positions in the full ZINC
    # Without $GRAPHBENCH_CACHE, what is computed from data sets lies beside them.
    left = {parts for parts in there if len(parts) == 2 and parts[0] != ".cache"} - read - explained
    assert not left
