"""The LINKX collection: graphs whose neighbours are often of another class, up to 2.9 million nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from graphbench.data.builder import DatasetBuilder, LoadedDataset
from graphbench.data.card import DatasetCard
from graphbench.data.datasets import linkx_files
from graphbench.data.files.cached_graphs import cached_graphs
from graphbench.data.files.download import download_archive
from graphbench.data.files.roots import Roots
from graphbench.data.single_graph import RANDOM_MODES, NodeFacts, node_card, prepared
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.registry import FromContext, register

_REPOSITORY = "https://github.com/CUAI/Non-Homophily-Large-Scale/raw/master/data"
_DRIVE = "https://drive.usercontent.google.com/download?confirm=t&id="
_ARXIV = "https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"


class _Source(NamedTuple):
    """Raw files of a graph by name, their reader (which gets the folder), and the file of its splits.

    The Facebook networks are not cached: their raw files are small.
    """

    facts: NodeFacts
    files: Mapping[str, str]
    read: Callable[[Path], GraphStore]
    splits: str | None = None
    metric: str = "accuracy"
    cached: bool = True


def _facebook(name: str, nodes: int, pairs: int, features: int, splits: str | None = None) -> _Source:
    files = {"data.mat": f"{_REPOSITORY}/facebook100/{name}.mat"}
    if splits:
        files[splits] = f"{_REPOSITORY}/splits/{splits}"
    return _Source(NodeFacts(nodes, 2 * pairs, features, 2), files, linkx_files.facebook, splits, cached=False)


# Edges are counted as the files list them: the Facebook networks in both directions, the others in one.
_SOURCES = {
    "penn94": _facebook("Penn94", 41554, 1362229, 4814, "fb100-Penn94-splits.npy"),
    "reed98": _facebook("Reed98", 962, 18812, 745),
    "amherst41": _facebook("Amherst41", 2235, 90954, 1193),
    "cornell5": _facebook("Cornell5", 18660, 790777, 4735),
    "johnshopkins55": _facebook("Johns%20Hopkins55", 5180, 186586, 2406),
    "genius": _Source(
        NodeFacts(421961, 984979, 12, 2), {"data.mat": f"{_REPOSITORY}/genius.mat"}, linkx_files.genius, metric="auc"
    ),
    "pokec": _Source(
        NodeFacts(1632803, 30622564, 65, 2),
        {
            "data.mat": f"{_DRIVE}1dNs5E7BrWJbgcHeQ_zuy5Ozp2tRCWG0y",
            "pokec-splits.npy": f"{_DRIVE}1ZhpAiyTNc0cE_hhgyiqxnkKREHK7MK-_",
        },
        linkx_files.genius,
        "pokec-splits.npy",
    ),
    "snap-patents": _Source(
        NodeFacts(2923922, 13975788, 269, 5),
        {
            "data.mat": f"{_DRIVE}1ldh23TSY1PwXia6dU0MYcpyEgX-w3Hia",
            "snap-patents-splits.npy": f"{_DRIVE}12xbBRqd8mtG_XkNLH8dRRNZJvVM4Pw-N",
        },
        linkx_files.patents,
        "snap-patents-splits.npy",
    ),
    "twitch-gamer": _Source(
        NodeFacts(168114, 6797557, 7, 2),
        {
            "twitch-gamer_feat.csv": f"{_DRIVE}1fA9VIIEI8N0L27MSQfcBzJgRQLvSbrvR",
            "twitch-gamer_edges.csv": f"{_DRIVE}1XLETC6dG3lVl7kDmytEJ52hvDMVdxnZ0",
            "twitch-gamer-splits.npy": f"{_REPOSITORY}/splits/twitch-gamer-splits.npy",
        },
        linkx_files.twitch_gamer,
        "twitch-gamer-splits.npy",
    ),
    "wiki": _Source(
        NodeFacts(1925342, 303434860, 600, 5),
        {
            "wiki_features2M.pt": f"{_DRIVE}1ySNspxbK-snNoAZM7oxiWGvOnTRdSyEK",
            "wiki_edges2M.pt": f"{_DRIVE}14X7FlkjrlUgmnsYtPwdh-gGuFla4yb5u",
            "wiki_views2M.pt": f"{_DRIVE}1p5DlVHrnFgYm3VsNIzahSsvCD424AyvP",
        },
        linkx_files.wiki,
    ),
    "arxiv-year": _Source(
        NodeFacts(169343, 1166243, 128, 5),
        {f"{table}.csv.gz": _ARXIV for table in ("edge", "node-feat", "node_year", "num-node-list")},
        linkx_files.arxiv_year,
    ),
}
_SHA256 = {
    "reed98": "d12ec74dc8c6e237385975b976c3709555a83629a1260be693fb688e3446070e",
    "amherst41": "3108e4b2edb01be05c5a61147583a40e61012820fff7eebe621dd26018caaf00",
    "cornell5": "d9ff76ae34e855cb77b0779a3a320f7f73f848901cb13352e2734c17804c4aec",
    "johnshopkins55": "fc7243bf257155df03afbc397ab34b5f8eb8e75f40cd1603398e207a033ef50f",
}


@register("PyG-LINKXDataset")
class LINKX(DatasetBuilder):
    """Large graphs whose neighbours often belong to other classes.

    Paper: Large Scale Learning on Non-Homophilous Graphs, https://arxiv.org/abs/2110.14446.

    Published splits (five of 50/25/25 %) are known of penn94, pokec, snap-patents and twitch-gamer; for the others the
    paper draws at random: split_mode ``random`` with ``dataset.split: [0.5, 0.25, 0.25]``. Nodes without a label
    belong to no part. Classes: gender (Facebook, pokec), a mark for abuse (genius), mature content (twitch-gamer),
    fifths of the years of publication (arxiv-year) or grant (snap-patents), or of page views (wiki).

    Features as in the authors' code: Facebook users are one-hot columns of student status, major, second major, dorm,
    year and school; those of twitch-gamer have mean 0 and standard deviation 1.

    Args:
        name: ``penn94``, ``reed98``, ``amherst41``, ``cornell5``, ``johnshopkins55``, ``genius``, ``pokec``,
            ``snap-patents``, ``twitch-gamer``, ``wiki`` or ``arxiv-year``.
        undirected: add the missing reverse edges (only the Facebook networks list both directions).
    """

    names = tuple(_SOURCES)

    def __init__(self, name: FromContext[str], *, undirected: bool = False) -> None:
        super().__init__(name.lower().replace("_", "-"))
        self.undirected = undirected

    @property
    def card(self) -> DatasetCard:
        """Declared facts."""
        source = _SOURCES[self.name]
        data = f"{self._folder}/data.mat"
        return node_card(
            self.name.capitalize(),
            source.facts,
            metric=source.metric,
            split_modes=("standard", *RANDOM_MODES) if source.splits else RANDOM_MODES,
            split_counts={"standard": 5} if source.splits else {},
            licence="ODC-BY" if self.name == "arxiv-year" else "none stated",
            source="https://github.com/CUAI/Non-Homophily-Large-Scale",
            files=tuple(f"{self._folder}/{file}" for file in source.files),
            sha256={data: _SHA256[self.name]} if self.name in _SHA256 else {},
        )

    @property
    def _folder(self) -> str:
        return "ogb/ogbn_arxiv/raw" if self.name == "arxiv-year" else f"LINKXDataset/{self.name}/raw"

    def load(self, roots: Roots) -> LoadedDataset:
        """Reads the raw files, or what a former run kept of them in the cache."""
        card, source = self.card, _SOURCES[self.name]
        urls = {f"{self._folder}/{file}": url for file, url in source.files.items()}
        fetch = _fetch_arxiv if self.name == "arxiv-year" else None
        folder = roots.require(card.name, card.files, urls, card.sha256, fetch) / self._folder
        files = [folder / file for file in source.files if file != source.splits]

        def read() -> tuple[GraphStore, Splits]:
            try:
                return source.read(folder), Splits.of([], [], [])
            except (KeyError, IndexError, AttributeError, ValueError) as error:
                reason = f"there is no array {error} in it" if isinstance(error, KeyError) else str(error)
                raise UserError(f"{files[0]}: {reason}; delete the file and load it again.") from error

        store, _ = cached_graphs(roots, "LINKX", self.name, files, read) if source.cached else read()
        card.check(store, str(files[0]))
        listed = linkx_files.read_split_dicts(folder / source.splits) if source.splits else []
        splits = tuple(Splits.of(*parts) for parts in listed)
        return LoadedDataset(prepared(store, undirected=self.undirected), card, {"standard": splits} if splits else {})


def _fetch_arxiv(directory: Path) -> None:
    download_archive(_ARXIV, directory / "ogb/ogbn_arxiv", strip=1)
