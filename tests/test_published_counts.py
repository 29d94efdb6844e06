"""Shipped baselines have exactly the parameters of the models they reproduce.

``published_counts.json`` was measured on 2026-11-21 by running the original code on the original YAML files: GraphGPS
at commit 2801570, Exphormer at 1b43962 and the LRGB re-tuning of Toenshoff et al. at c3500cb; on 2026-11-24 GRIT at
6c988ea and GNN+ at 84285f7. All with ogb >= 1.3.6 (five chirality classes), while the numbers GraphGPS published are
those of the four classes before. SFi-Former released no code; its numbers are those of its paper
(https://arxiv.org/abs/2504.20666, Tables 5 and 6).
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from graphbench.config import load_config
from graphbench.preflight import describe
from tests.paths import ROOT

CONFIGS = ROOT / "configs"
MEASURED = {
    (source, name): count
    for source, counts in json.loads((Path(__file__).parent / "published_counts.json").read_text()).items()
    for name, count in counts.items()
}

# Known counts of the configurations behind https://arxiv.org/abs/2205.12454.
PUBLISHED = {
    "gnnbench/gps-zinc.yaml": 423_717,
    "gnnbench/gps-mnist.yaml": 115_394,
    "gnnbench/gps-cifar10.yaml": 112_726,
    "gnnbench/gps-cluster.yaml": 502_054,
    "lrgb/gps-pascal.yaml": 510_453,
    "lrgb/gps-coco.yaml": 516_273,
    "lrgb/gps-pcqm-contact.yaml": 512_704,
    "lrgb/gps-peptides-func.yaml": 504_362,
    "ogb/gps-pcqm4m-small.yaml": 6_152_001,
    "ogb/gps-pcqm4m-medium.yaml": 19_414_641,
    "ogb/gps-pcqm4m-deep.yaml": 13_807_345,
    "ogb/gps-code2.yaml": 12_454_066,
}

# The printed settings of Peptides-func, which are those of Peptides-struct, do not give the 2,929,009 printed for it.
PRINTED = {
    "lrgb/sfi-pascal.yaml": 1_250_805,
    "lrgb/sfi-coco.yaml": 1_249_869,
    "lrgb/sfi-peptides-struct.yaml": 3_819_425,
    "lrgb/sfi-pcqm-contact.yaml": 978_526,
    "gnnbench/sfi-mnist.yaml": 275_465,
    "gnnbench/sfi-cifar10.yaml": 275_545,
    "gnnbench/sfi-pattern.yaml": 222_213,
    "gnnbench/sfi-cluster.yaml": 1_211_330,
}
BUDGET = 500_000


@pytest.mark.parametrize("name", PUBLISHED)
def test_count_as_published(name: str) -> None:
    config = load_config(CONFIGS / name, ["ogb_atom_vocabulary", "4"])
    assert describe(config).params == PUBLISHED[name]


@pytest.mark.parametrize("name", PRINTED)
def test_count_of_the_paper(name: str) -> None:
    assert describe(load_config(CONFIGS / name)).params == PRINTED[name]


@pytest.mark.parametrize("name", ["lrgb/sfi-pascal-500k.yaml", "lrgb/sfi-peptides-func-500k.yaml"])
def test_count_within_the_budget_of_the_benchmark(name: str) -> None:
    assert 0.9 * BUDGET < describe(load_config(CONFIGS / name)).params <= BUDGET


@pytest.mark.parametrize(("source", "name"), MEASURED, ids=lambda each: each)
def test_count_of_the_original_code(source: str, name: str) -> None:
    assert describe(load_config(CONFIGS / name)).params == MEASURED[source, name]


def test_every_reproduction_is_counted() -> None:
    """A file whose first lines name an original belongs into the table."""
    shipped = {
        str(path.relative_to(CONFIGS))
        for path in CONFIGS.rglob("*.yaml")
        if re.match(r"# [^\n]*configs/[\w./+-]+\.yaml of ", path.read_text())
    }
    assert shipped == {name for _, name in MEASURED}


def test_the_overview_prints_these_counts() -> None:
    rows = re.findall(r"^\| \[[\w.-]+\]\(([\w./-]+)\) .*\| ([\d,]+) \|", (CONFIGS / "README.md").read_text(), re.M)
    printed = {name: int(count.replace(",", "")) for name, count in rows}
    known = {name: count for (_, name), count in MEASURED.items()} | PRINTED
    ours = [name for name in printed if re.search(r"^(?!sweeps/).*/[sd]fi-", name)]
    known |= {name: describe(load_config(CONFIGS / name)).params for name in ours if name not in PRINTED}
    files = (path for path in CONFIGS.rglob("[sd]fi-*.yaml") if not {"_base_", "sweeps"} & {*path.parts})
    assert sorted(ours) == sorted(str(path.relative_to(CONFIGS)) for path in files)
    assert {name: printed.get(name) for name in known} == known
