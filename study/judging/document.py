"""docs/claims.md: verdicts as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from study.judging.findings import Finding
from study.judging.verdicts import NEEDS, VERDICTS, Verdict

INTRODUCTION = """\
# Claims of the five papers

Written by `python -m study.claims` from [study/claims.yaml](../study/claims.yaml), the published tables
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
    papers = list(dict.fromkeys(verdict.claim.paper for verdict in verdicts))
    parts = [INTRODUCTION, "## Overview\n", _overview(verdicts, papers)]
    for paper in papers:
        of_paper = [verdict for verdict in verdicts if verdict.claim.paper == paper]
        parts.append(f"## {paper}\n")
        parts.append(_index(of_paper))
        parts += map(_claim, of_paper)
    return "\n".join(parts)


def _overview(verdicts: Sequence[Verdict], papers: Sequence[str]) -> str:
    lines = ["| verdict | " + " | ".join(papers) + " | all |", "| --- |" + " ---: |" * (len(papers) + 1)]
    for word in (*VERDICTS, "all"):
        with_word = [verdict.claim.paper for verdict in verdicts if word in (verdict.word, "all")]
        counts = " | ".join(str(with_word.count(paper)) for paper in papers)
        lines.append(f"| {word} | {counts} | {len(with_word)} |")
    return "\n".join(lines) + "\n"


def _index(verdicts: Sequence[Verdict]) -> str:
    lines = ["| claim | section | verdict |", "| --- | --- | --- |"]
    for verdict in verdicts:
        claim = verdict.claim
        lines.append(f"| [{claim.id}](#{claim.id.lower()}) | {claim.section} | {verdict.word} |")
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
    for finding in findings:
        first, *more = finding.text.split("<br>")
        lines.append(f"- {name}, {finding.state}: {_line(first)}.")
        lines += [f"    - {_line(part)}." for part in more]
    return lines


def _line(text: str) -> str:
    return " ".join(text.split()).removesuffix(".") if text.endswith("..") else " ".join(text.split())
