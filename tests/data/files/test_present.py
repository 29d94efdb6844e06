"""Every data set that lies in $GRAPHBENCH_DATA loads as a configuration loads it, with the published statistics.

The numbers are those of the papers and of the libraries' documentation, edges in both directions. Where a set differs
from what its paper prints, its card says why.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from graphbench import registry
from graphbench.data.builder import DatasetBuilder
from graphbench.data.files.download import no_downloads
from graphbench.data.files.roots import Roots
from graphbench.data.splits import make_splits
from tests.real_data import shared_cache


class Published(NamedTuple):
    """``split``: sizes of the ``standard`` one; ``splits``: how many of them there are."""

    graphs: int
    nodes: int
    edges: int
    columns: int
    classes: int | None = None
    split: tuple[int, int, int] | None = None
    splits: int = 1


_MOLECULE = 9
PUBLISHED = {
    "PyG-Planetoid/Cora": Published(1, 2708, 2 * 5278, 1433, 7, (140, 500, 1000)),
    "PyG-Planetoid/CiteSeer": Published(1, 3327, 2 * 4552, 3703, 6, (120, 500, 1000)),
    "PyG-Planetoid/PubMed": Published(1, 19717, 2 * 44324, 500, 3, (60, 500, 1000)),
    "PyG-Actor/none": Published(1, 7600, 30019, 932, 5, (3648, 2432, 1520), 10),
    "PyG-WebKB/cornell": Published(1, 183, 298, 1703, 5, (87, 59, 37), 10),
    "PyG-WebKB/texas": Published(1, 183, 325, 1703, 5, (87, 59, 37), 10),
    "PyG-WebKB/wisconsin": Published(1, 251, 515, 1703, 5, (120, 80, 51), 10),
    "PyG-WikipediaNetwork/chameleon": Published(1, 2277, 36101, 2325, 5, (1092, 729, 456), 10),
    "PyG-WikipediaNetwork/squirrel": Published(1, 5201, 217073, 2089, 5, (2496, 1664, 1041), 10),
    "PyG-WikipediaNetwork/chameleon_filtered": Published(1, 890, 2 * 8854, 2325, 5, splits=10),
    "PyG-WikipediaNetwork/squirrel_filtered": Published(1, 2223, 2 * 46998, 2089, 5, splits=10),
    "PyG-WikipediaNetwork/chameleon_filtered_directed": Published(1, 890, 13584, 2325, 5, splits=10),
    "PyG-WikipediaNetwork/squirrel_filtered_directed": Published(1, 2223, 65718, 2089, 5, splits=10),
    "PyG-HeterophilousGraphDataset/tolokers": Published(1, 11758, 2 * 519000, 10, 2, (5879, 2939, 2940), 10),
    "PyG-HeterophilousGraphDataset/roman-empire": Published(1, 22662, 2 * 32927, 300, 18, splits=10),
    "PyG-HeterophilousGraphDataset/amazon-ratings": Published(1, 24492, 2 * 93050, 300, 5, splits=10),
    "PyG-HeterophilousGraphDataset/minesweeper": Published(1, 10000, 2 * 39402, 7, 2, splits=10),
    "PyG-HeterophilousGraphDataset/questions": Published(1, 48921, 2 * 153540, 301, 2, splits=10),
    "Deezer/deezer-europe": Published(1, 28281, 2 * 92752, 31241, 2, (14140, 7070, 7071), 5),
    "PyG-LINKXDataset/reed98": Published(1, 962, 2 * 18812, 745, 2),
    "PyG-LINKXDataset/amherst41": Published(1, 2235, 2 * 90954, 1193, 2),
    "PyG-LINKXDataset/johnshopkins55": Published(1, 5180, 2 * 186586, 2406, 2),
    "PyG-LINKXDataset/cornell5": Published(1, 18660, 2 * 790777, 4735, 2),
    "PyG-LINKXDataset/penn94": Published(1, 41554, 2 * 1362229, 4814, 2, splits=5),
    "PyG-TUDataset/MUTAG": Published(188, 3371, 7442, 7, 2),
    "PyG-TUDataset/NCI1": Published(4110, 122747, 265506, 37, 2),
    "PyG-TUDataset/IMDB-BINARY": Published(1000, 19773, 193062, 1, 2),
    "PyG-TUDataset/COLLAB": Published(5000, 372474, 24572158, 1, 3),
    "PyG-ZINC/subset": Published(12000, 277864, 597970, 1, None, (10000, 1000, 1000)),
    "OGB/peptides-functional": Published(15535, 2344859, 4773974, _MOLECULE, None, (10873, 2331, 2331)),
    "OGB/ogbg-molhiv": Published(41127, 1049163, 2259376, _MOLECULE, 2, (32901, 4113, 4113)),
    "OGB/ogbg-molbbbp": Published(2039, 49068, 105842, _MOLECULE, 2, (1631, 204, 204)),
    "OGB/ogbg-molesol": Published(1128, 14991, 30856, _MOLECULE, None, (902, 113, 113)),
    "OGB/ogbg-molfreesolv": Published(642, 5600, 10770, _MOLECULE, None, (513, 64, 65)),
    "OGB/ogbg-mollipo": Published(4200, 113568, 247798, _MOLECULE, None, (3360, 420, 420)),
    "OGB/ogbg-moltox21": Published(7831, 145459, 302190, _MOLECULE, None, (6264, 783, 784)),
    "OGB/ogbg-molsider": Published(1427, 48006, 100912, _MOLECULE, None, (1141, 143, 143)),
}
# Read from text or, Deezer, 3.5 GB of zeros.
_LONG = ("COLLAB", "subset", "peptides-functional", "ogbg-molhiv", "deezer-europe", "cornell5")


def _family(key: str) -> DatasetBuilder:
    kind, name = key.split("/")
    return registry.construct(registry.lookup("data/datasets", kind), {}, {"name": name})


def _present(key: str, roots: Roots) -> bool:
    """COLLAB is kept in a more compact form than its card names."""
    card = _family(key).card
    assert card is not None
    return roots.find(*card.files) is not None or (
        key.endswith("COLLAB") and roots.find("TUDataset/COLLAB/COLLAB.txt.gz") is not None
    )


@pytest.fixture
def roots(tmp_path: Path, data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Roots:
    return Roots(tmp_path, (data_root,), shared_cache(tmp_path_factory))


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=pytest.mark.slow if key.split("/")[1] in _LONG else ()) for key in PUBLISHED]
)
def test_loads_with_the_published_statistics(key: str, roots: Roots) -> None:
    if not _present(key, roots):
        pytest.skip(f"the raw files of {key} are not in {roots.shared[0]}")
    if key == "OGB/peptides-functional":
        pytest.importorskip("rdkit")
    expected = PUBLISHED[key]
    with no_downloads():
        loaded = _family(key).load(roots)
    store, card = loaded.store, loaded.card
    assert (store.num_graphs, store.num_nodes, store.num_edges) == expected[:3]
    assert store.x.shape[1] == card.node_in == expected.columns
    assert store.y is not None
    if expected.classes is not None:
        found = store.y[~store.y.isnan()] if store.y.is_floating_point() else store.y
        assert int(found.max()) + 1 == expected.classes == max(card.out_dim, 2)
    standard = loaded.published.get("standard", ())
    assert len(standard) == (expected.splits if "standard" in card.split_modes else 0)
    for index in range(len(standard)):
        split = make_splits("standard", num_examples=loaded.num_examples, index=index, published=loaded.published)
        if expected.split:
            assert tuple(len(part) for part in split.parts().values()) == expected.split
    info = card.info(store)
    assert info.max_nodes == int(store.sizes.max())
    batch = store.gather(range(min(store.num_graphs, 3)))
    assert batch.edge_index.dtype == torch.int64
    assert int(batch.edge_index.max()) < batch.num_nodes


def test_nothing_that_lies_there_is_left_out(data_root: Path) -> None:
    """A folder that no entry of the table reads is a data set nobody checks."""
    roots = Roots(data_root / "none", (data_root,), data_root / "none")
    read = {Path(file).parts[:2] for key in PUBLISHED if _present(key, roots) for file in _family(key).card.files}
    there = {path.relative_to(data_root).parts[:2] for path in data_root.rglob("*") if path.is_file()}
    explained = {("TUDataset", "folds"), ("ZINC", "official_index")}  # splits of other sets; positions in the full ZINC
    left = {parts for parts in there if len(parts) == 2} - read - explained
    assert not left
