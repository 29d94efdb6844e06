"""Verdicts as a page of documentation."""

from __future__ import annotations

from collections.abc import Sequence

from study.judging.findings import Finding
from study.judging.verdicts import NEEDS, VERDICTS, Verdict

INTRODUCTION = """\
# Claims of the five papers

Written by `python study/claims.py` from [study/claims.yaml](../study/claims.yaml), the published tables
(`results/published`), our run records (`results/measured/records`) and, of what is no training run, measurements kept
in `results/measured/gpu`. No verdict and no measured number is typed by hand; a test runs the command and compares.

| verdict | meaning |
| --- | --- |
| confirmed | every comparison on our runs holds, or a test of our suite shows it |
| contradicted | a comparison on our runs fails, or a test shows the contrary |
| contradicted by the paper's own tables | the numbers that the paper prints do not agree with the claim |
| undecided | runs are there, but differences are not significant (Welch, p < 0.05) or runs are missing |
| needs a GPU, needs data not at hand | what the deciding experiment lacks here |
| not yet run | nothing is in the way |

Runs are given as table and configuration of `results/measured/records`, with mean ± sample standard deviation and their
number n. A comparison that fails decides, whatever else holds. Papers and runs differ in hardware and number of seeds;
what else differs is said at the claim. Lines with "does not decide" are smaller experiments.
"""


def document(verdicts: Sequence[Verdict]) -> str:
    """The page."""
    papers = list(dict.fromkeys(each.claim.paper for each in verdicts))
    parts = [INTRODUCTION, "## Overview\n", _overview(verdicts, papers)]
    for paper in papers:
        mine = [each for each in verdicts if each.claim.paper == paper]
        parts.append(f"## {paper}\n")
        parts.append(_index(mine))
        parts += [_claim(each) for each in mine]
    return "\n".join(parts)


def _overview(verdicts: Sequence[Verdict], papers: Sequence[str]) -> str:
    lines = ["| verdict | " + " | ".join(papers) + " | all |", "| --- |" + " ---: |" * (len(papers) + 1)]
    for word in (*VERDICTS, "all"):
        of = [each.claim.paper for each in verdicts if word in (each.word, "all")]
        lines.append(f"| {word} | " + " | ".join(str(of.count(paper)) for paper in papers) + f" | {len(of)} |")
    return "\n".join(lines) + "\n"


def _index(verdicts: Sequence[Verdict]) -> str:
    lines = ["| claim | section | verdict |", "| --- | --- | --- |"]
    for each in verdicts:
        lines.append(f"| [{each.claim.id}](#{each.claim.id.lower()}) | {each.claim.section} | {each.word} |")
    return "\n".join(lines) + "\n"


def _claim(verdict: Verdict) -> str:
    claim = verdict.claim
    lines = [f"### {claim.id}\n", f"**{verdict.word}** (section {claim.section}). {_line(claim.claim)}\n"]
    lines += _listed("Own tables", verdict.own)
    lines += _listed("Runs", verdict.runs)
    lines += _listed("Runs, does not decide", verdict.also)
    lines += [f"- Shown by `{test}`." for test in claim.tests]
    lines += [f"- The contrary is shown by `{test}`." for test in claim.against]
    if claim.experiment:
        lines.append(f"- Decided by: {_line(claim.experiment)}")
    lines += [f"- It {NEEDS[key]}: {_line(what)}" for key, what in (claim.needs or {}).items()]
    if claim.note:
        lines.append(f"- {_line(claim.note)}")
    return "\n".join(lines) + "\n"


def _listed(name: str, findings: Sequence[Finding]) -> list[str]:
    lines = []
    for each in findings:
        first, *more = each.text.split("<br>")
        lines.append(f"- {name}, {each.state}: {_line(first)}.")
        lines += [f"    - {_line(part)}." for part in more]
    return lines


def _line(text: str) -> str:
    return " ".join(text.split()).removesuffix(".") if text.endswith("..") else " ".join(text.split())
