"""Claims as data, and the verdict on each from its rules."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from graphbench.errors import UserError, unknown
from study.judging.findings import FAILS, HOLDS, NOT_RUN, Finding
from study.judging.quantities import Quantity, Source, check_names, measured, published
from study.judging.recorded import recorded
from study.judging.rules import judge

ROOT = Path(__file__).resolve().parents[2]
CONFIRMED = "confirmed"
CONTRADICTED = "contradicted"
OWN_TABLES = "contradicted by the paper's own tables"
UNDECIDED = "undecided"
NEEDS = {"gpu": "needs a GPU", "data": "needs data not at hand"}
OPEN = "not yet run"
VERDICTS = (CONFIRMED, CONTRADICTED, OWN_TABLES, UNDECIDED, *NEEDS.values(), OPEN)
KEYS = ("id", "paper", "section", "claim", "experiment", "own", "runs", "also", "tests", "against", "needs", "note")


@dataclass(frozen=True)
class Claim:
    """One claim of a paper.

    Attributes:
        id: ``SG-5``.
        paper: short name of the method.
        section: of the paper.
        claim: in our words, with the figures of the paper.
        experiment: that decides about it.
        own: rules on the printed tables.
        runs: rules on records and recorded measurements.
        also: the same on what is shown and does not decide, such as smaller experiments.
        tests: tests of our suite that show it, ``path::name``.
        against: tests that show the contrary.
        needs: ``gpu`` or ``data`` -> what exactly.
        note: further remarks.
    """

    id: str
    paper: str
    section: str
    claim: str
    experiment: str = ""
    own: Sequence[dict[str, Any]] = ()
    runs: Sequence[dict[str, Any]] = ()
    also: Sequence[dict[str, Any]] = ()
    tests: Sequence[str] = ()
    against: Sequence[str] = ()
    needs: dict[str, str] | None = None
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """The decision about a claim.

    Attributes:
        claim: that is decided.
        word: one of :data:`VERDICTS`.
        own: findings on the paper's tables.
        runs: findings on our records.
        also: findings that do not decide.
    """

    claim: Claim
    word: str
    own: tuple[Finding, ...]
    runs: tuple[Finding, ...]
    also: tuple[Finding, ...]


def read_claims(path: Path) -> list[Claim]:
    """Reads the file of claims.

    Raises:
        UserError: it cannot be read, a key nobody knows, an id twice, a test that does not exist.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        entries = [dict(entry) for entry in content]
    except (OSError, TypeError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"{path}: a list of claims is expected ({error}).") from error
    claims: dict[str, Claim] = {}
    for entry in entries:
        where = f"{path}: {entry.get('id', 'a claim without id')}"
        check_names(entry, KEYS, where)
        check_names(entry.get("needs", {}), tuple(NEEDS), where)
        lacking = [key for key in ("id", "paper", "section", "claim") if not entry.get(key)]
        if lacking or entry["id"] in claims:
            raise UserError(f"{where}: " + (f"lacks {', '.join(lacking)}." if lacking else "is there twice."))
        claim = claims.setdefault(entry["id"], Claim(**entry | {"section": str(entry["section"])}))
        for test in (*claim.tests, *claim.against):
            _check_test(test, where)
    return list(claims.values())


def decide(claim: Claim, records: Path) -> Verdict:
    """The verdict from the rules of a claim.

    In this order: a rule on the paper's own tables fails; a rule on runs fails (where it compares runs, by a difference
    that is significant among all comparisons of the claim together), or a test shows the contrary; all rules on runs
    hold, or a test shows it; some runs are there; what is needed is not at hand; not yet run.
    """
    own = _findings(claim.own, published, claim.id)
    source = _measured_source(records)
    runs = _findings(claim.runs, source, claim.id)
    also = _findings(claim.also, source, claim.id)
    comparisons = max(sum(len(finding.tests) for finding in runs), 1)
    by_chance = [finding.state == FAILS and not finding.fails_among(comparisons) for finding in runs]
    states = {UNDECIDED if chance else finding.state for finding, chance in zip(runs, by_chance, strict=True)}
    if any(finding.state == FAILS for finding in own):
        word = OWN_TABLES
    elif FAILS in states or claim.against:
        word = CONTRADICTED
    elif states == {HOLDS} or (claim.tests and not runs):
        word = CONFIRMED
    elif states - {NOT_RUN}:
        word = UNDECIDED
    else:
        word = next((NEEDS[key] for key in NEEDS if key in (claim.needs or {})), OPEN)
    return Verdict(claim, word, own, runs, also)


def _measured_source(records: Path) -> Source:
    """Run records, and measurements in the parent folder; a colon tells the two kinds of reference apart."""
    runs, measurements = measured(records), recorded(records.parent)

    def find(reference: str) -> Quantity | None:
        return (measurements if ":" in reference else runs)(reference)

    return find


def _findings(rules: Sequence[dict[str, Any]], source: Source, where: str) -> tuple[Finding, ...]:
    return tuple(finding for rule in rules for finding in judge(rule, source, where))


def _check_test(name: str, where: str) -> None:
    file, _, function = name.partition("::")
    if not (ROOT / file).is_file():
        raise UserError(f"{where}: the test file {file} does not exist.")
    if function not in _functions(ROOT / file):
        raise unknown(f"test of {file}", function, _functions(ROOT / file), where)


@functools.cache
def _functions(path: Path) -> tuple[str, ...]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test"))
