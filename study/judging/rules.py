"""Rules that decide about a claim: functions of references to numbers, which a source looks up, to a finding.

A rule is a mapping with one key, its name. ``each: {set: [cora, actor]}`` next to it repeats the rule with ``{set}`` in
its references replaced. Printed numbers are compared by their digits alone; runs by a two-sided Welch test at 0.05
where a docstring says "significantly".
"""

from __future__ import annotations

import inspect
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from graphbench.errors import UserError, unknown
from graphbench.tables.significance import SIGNIFICANT
from study.judging.columns import best_of_table
from study.judging.findings import (
    FAILS,
    HOLDS,
    NOT_RUN,
    UNDECIDED,
    Finding,
    against_together,
    as_list,
    evidence,
    in_words,
    not_run,
    read,
    significant,
    standard_error,
    together,
)
from study.judging.quantities import Quantity, Source


def judge(rule: Mapping[str, Any], source: Source, where: str) -> list[Finding]:
    """Applies a rule, once or for every value that it is repeated for.

    Raises:
        UserError: an unknown rule or key, or a reference that nothing can fit.
    """
    repeated = rule.get("each", {})
    names = [name for name in rule if name != "each"]
    if len(names) != 1 or names[0] not in RULES:
        raise unknown("rule", ", ".join(names), RULES, where)
    findings = []
    for values in itertools.product(*repeated.values()):
        filled = json.dumps(rule[names[0]])
        for key, value in zip(repeated, values, strict=True):
            filled = filled.replace(f"{{{key}}}", str(value))
        arguments = json.loads(filled)
        try:
            inspect.signature(RULES[names[0]]).bind(source, where, **arguments)
        except TypeError as error:
            raise UserError(f"{where}: {names[0]}: {error}.") from error
        findings.append(RULES[names[0]](source, where, **arguments))
    return findings


def better(source: Source, where: str, a: str, than: str | list[str], by: str = "", points: float = 0.0) -> Finding:
    """``a`` is better than each of ``than``.

    Printed: by its mean; with ``by: sd`` by more than the larger of the two deviations. Runs: significantly; with
    ``by: mean`` by the mean alone. ``points``: at least so many; runs fail by that alone where the difference and two
    standard errors are less.
    """
    ours, others, missing = read(source, a, as_list(than))
    if ours is None:
        return not_run([a])
    states, parts, tests = [], [], list[tuple[Quantity, float | None]]()
    for other in others:
        difference = abs(ours.mean - other.mean)
        if other.runs is None:
            spread = max(ours.std or 0.0, other.std or 0.0) if by == "sd" else 0.0
            holds = ours.beats(other) and difference > max(spread, points * other.point) - 1e-12
            states.append(HOLDS if holds else FAILS)
            remark = " (inside one sd)" if spread >= difference > 0 else ""
            parts.append(f"{other.name} {other.shown}{remark}")
        else:
            p_value = ours.p_value(other)
            by_mean = HOLDS if ours.beats(other) else FAILS
            states.append(by_mean if by == "mean" else significant(ours, other, p_value))
            tests.append((other, p_value))
            if states[-1] == HOLDS and difference < points * other.point:
                short = difference + 2 * standard_error([ours, other]) < points * other.point
                states[-1] = FAILS if short else UNDECIDED
            parts.append(f"{other.name} {other.shown}, {in_words(p_value)}")
    return together(states, f"{ours.name} {ours.shown} against " + "; ".join(parts), missing, evidence(ours, tests))


def best(
    source: Source,
    where: str,
    *,
    table: str | list[str],
    models: list[str],
    sets: list[str] | None = None,
    least: int = 1,
    top: int = 1,
    ties: bool = False,
) -> Finding:
    """One of ``models`` is among the first ``top`` in ``least`` columns of a printed table."""
    return best_of_table(as_list(table), models, tuple(sets or ()), least, top, ties)


def order(source: Source, where: str, *, of: list[str]) -> Finding:
    """Every one is better than the next."""
    findings = [better(source, where, a, b) for a, b in itertools.pairwise(of)]
    tests = [z for finding in findings for z in finding.tests]
    text = "; ".join(finding.text for finding in findings)
    return together([finding.state for finding in findings], text, [], tests)


def par(source: Source, where: str, *, of: list[str], points: float = 1.0) -> Finding:
    """All are on a par: printed deviations overlap (without any: inside ``points``), runs differ by ``points`` at most.

    Runs that differ by more fail where the difference is significant (over all pairs together, after Bonferroni:
    one of many pairs differs by chance), and are undecided otherwise.
    """
    quantities = {reference: source(reference) for reference in of}
    missing = [reference for reference, quantity in quantities.items() if quantity is None]
    present = [quantity for quantity in quantities.values() if quantity is not None]
    states, pairs = [], math.comb(len(of), 2)
    for one, other in itertools.combinations(present, 2):
        difference = abs(one.mean - other.mean)
        if one.runs is None:
            spread = (one.std or 0.0) + (other.std or 0.0) or points * one.point
            states.append(HOLDS if difference <= spread + 1e-9 else FAILS)
        elif difference <= points * one.point:
            states.append(HOLDS)
        else:
            p_value = one.p_value(other)
            states.append(FAILS if p_value is not None and p_value < SIGNIFICANT / pairs else UNDECIDED)
    return together(states, "; ".join(f"{quantity.name} {quantity.shown}" for quantity in present), missing)


def not_worse(source: Source, where: str, *, a: str, than: list[str], points: float = 1.0) -> Finding:
    """``a`` is worse than none of ``than``: by ``points`` at most; by more it fails where that is significant."""
    ours, others, missing = read(source, a, than)
    if ours is None:
        return not_run([a])
    tests = [(other, ours.p_value(other)) for other in others]
    states = []
    for other, p_value in tests:
        near = ours.beats(other) or abs(ours.mean - other.mean) <= points * other.point
        failing = significant(ours, other, p_value) == FAILS
        states.append(FAILS if failing else HOLDS if near else UNDECIDED)
    rivals = "; ".join(f"{other.name} {other.shown}, {in_words(p)}" for other, p in tests)
    return together(states, f"{ours.name} {ours.shown} against {rivals}", missing, evidence(ours, tests))


def figure(source: Source, where: str, *, of: list[list[str]], kind: str, printed: str) -> Finding:
    """The printed number follows from the cells: the largest over the pairs, within one unit of its last digit.

    ``kind``: ``ratio`` a / b, ``difference`` a - b, ``points`` (a - b in points), ``relative`` (a - b) / b in %.
    Differences count in the direction of better.
    """
    kinds: dict[str, Callable[[Quantity, Quantity], float]] = {
        "ratio": lambda a, b: a.mean / b.mean,
        "difference": lambda a, b: (a.mean - b.mean) * (1 if a.maximize else -1),
        "points": lambda a, b: (a.mean - b.mean) * (1 if a.maximize else -1) / a.point,
        "relative": lambda a, b: 100 * (a.mean - b.mean) / b.mean * (1 if a.maximize else -1),
    }
    if kind not in kinds:
        raise unknown("kind", kind, kinds, where)
    values = []
    for pair in of:
        a, b = (source(reference) for reference in pair)
        if a is None or b is None:
            return Finding(UNDECIDED, f"no number for {pair[0] if a is None else pair[1]}")
        values.append((kinds[kind](a, b), f"{a.name} {a.shown}, {b.name} {b.shown}"))
    value, shown = max(values)
    digits = len(printed.partition(".")[2])
    state = HOLDS if abs(value - float(printed)) < 10.0**-digits - 1e-9 else FAILS
    word, unit = {"relative": ("difference", " %"), "points": ("difference", " points")}.get(kind, (kind, ""))
    return Finding(state, f"{word} {value:.{digits + 1}f}{unit} from {shown}; stated: {printed}")


def loses_less(source: Source, where: str, *, a: list[str], than: list[str]) -> Finding:
    """From its first to its second number ``a`` loses less than ``than``; runs: by two standard errors."""
    quantities = [(reference, source(reference)) for reference in (*a, *than)]
    missing = [reference for reference, quantity in quantities if quantity is None]
    present = [quantity for _, quantity in quantities if quantity is not None]
    if missing:
        return not_run(missing)
    sign = 1 if present[0].maximize else -1
    ours, theirs = (sign * (present[i].mean - present[i + 1].mean) for i in (0, 2))
    error = standard_error(present)
    state = HOLDS if ours < theirs - 2 * error else FAILS if ours > theirs + 2 * error or not error else UNDECIDED
    pairs = [f"{present[i].name} {present[i].shown} to {present[i + 1].shown}" for i in (0, 2)]
    return Finding(state, f"loses {ours:.4g} ({pairs[0]}) against {theirs:.4g} ({pairs[1]})")


def between(
    source: Source, where: str, *, a: str, over: str = "", low: float = -math.inf, high: float = math.inf
) -> Finding:
    """The mean of ``a``, or how many times that of ``over`` it is, lies between two numbers; without one: no limit."""
    quantities = {reference: source(reference) for reference in (a, over) if reference}
    present = [quantity for quantity in quantities.values() if quantity is not None]
    if len(present) < len(quantities):
        return not_run([reference for reference, quantity in quantities.items() if quantity is None])
    value, shown = present[0].mean, f"{present[0].name} {present[0].shown}"
    if over:
        value /= present[1].mean
        shown += f" is {value:.4g} times {present[1].name} {present[1].shown}"
    if math.isinf(low) or math.isinf(high):
        stated = f"{high:g} or less" if math.isinf(low) else f"{low:g} or more"
    else:
        stated = f"{low:g} to {high:g}"
    return Finding(HOLDS if low <= value <= high else FAILS, f"{shown}, stated: {stated}")


def most(source: Source, where: str, *, of: list[dict[str, Any]], least: int) -> Finding:
    """At least so many of the rules hold.

    Where too many fail, but not by significant differences of runs, it fails if one more than may fail do so
    significantly, and is undecided otherwise: of all comparisons, as many as must hold, those that speak against it
    least, are taken together (Benjamini and Heller, Biometrics 64, 2008); what is not run counts as one that holds.
    """
    findings = [finding for rule in of for finding in judge(rule, source, where)]
    count = Counter(finding.state for finding in findings)
    tests = [z for finding in findings for z in finding.tests]
    clearly = sum(finding.fails_among(max(len(tests), 1)) for finding in findings)
    p_value = against_together(sorted(tests)[: max(least - (len(findings) - len(tests)), 0)])
    if count[NOT_RUN] == len(findings):
        return Finding(NOT_RUN, findings[0].text)
    if count[HOLDS] >= least:
        state = HOLDS
    elif clearly > len(findings) - least or (count[FAILS] > len(findings) - least and p_value < SIGNIFICANT):
        state = FAILS
    else:
        state = UNDECIDED
    shown = "<br>".join(f"{finding.state}: {finding.text}" for finding in findings if finding.state != NOT_RUN)
    words = ", ".join(f"{state}: {number}" for state, number in count.items())
    jointly = f"; against the claim: {in_words(p_value)}" if tests and count[FAILS] else ""
    return Finding(state, f"{len(findings)} comparisons ({words}), {least} must hold{jointly}<br>{shown}")


RULES: dict[str, Callable[..., Finding]] = {
    rule.__name__: rule for rule in (better, best, order, par, not_worse, figure, loses_less, between, most)
}


def references(rule: Mapping[str, Any]) -> Iterator[str]:
    """All references of a rule, repetitions filled in."""
    for values in itertools.product(*rule.get("each", {}).values()):
        filled = json.dumps({key: value for key, value in rule.items() if key != "each"})
        for key, value in zip(rule.get("each", {}), values, strict=True):
            filled = filled.replace(f"{{{key}}}", str(value))
        yield from _texts(json.loads(filled))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and "each" in value:
        yield from references(value)
    elif isinstance(value, Mapping):
        for key, argument in value.items():
            if key not in ("by", "kind", "printed"):
                yield from _texts(argument)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value
