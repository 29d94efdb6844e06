"""Models of FFGT (https://arxiv.org/abs/2311.04653) have as many parameters as its Tables 8 and 9 print."""

from __future__ import annotations

import pytest

from graphbench.config import load_config
from graphbench.preflight import describe
from tests.paths import ROOT

CONFIGS = ROOT / "configs"
# As printed, with the size of its last digit. 7.9M of Vanilla-FFGT on molpcba is 7.95M cut off, the others are rounded.
PRINTED = {
    "gnnbench/ffgt-zinc.yaml": (494_000, 500),
    "lrgb/ffgt-peptides-func.yaml": (468_000, 500),
    "lrgb/ffgt-peptides-struct.yaml": (468_000, 500),
    "synthetic/ffgt-sbm-pattern-p016.yaml": (334_000, 500),
    "ogb/ffgt-molpcba.yaml": (7_950_000, 50_000),
    "gnnbench/grpe-ffgt-zinc.yaml": (483_000, 500),
    "lrgb/grpe-ffgt-peptides-func.yaml": (452_000, 500),
    "lrgb/grpe-ffgt-peptides-struct.yaml": (452_000, 500),
    "ogb/grpe-ffgt-molpcba.yaml": (7_800_000, 50_000),
}


@pytest.mark.parametrize("name", PRINTED)
def test_count_of_the_paper(name: str) -> None:
    printed, half_digit = PRINTED[name]
    assert abs(describe(load_config(CONFIGS / name)).params - printed) <= half_digit


@pytest.mark.parametrize("name", ["gnnbench/ffgt-zinc.yaml", "gnnbench/grpe-ffgt-zinc.yaml"])
def test_the_backbone_has_as_many(name: str) -> None:
    """Focal heads are heads of the backbone that see less."""
    plain = name.replace("grpe-ffgt", "grpe").replace("/ffgt", "/vanilla")
    assert describe(load_config(CONFIGS / name)).params == describe(load_config(CONFIGS / plain)).params
