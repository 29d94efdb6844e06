"""``study.claims``: rules decide from records and printed tables only, and the page is what they say."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from scipy.stats import ttest_ind

from graphbench.errors import UserError
from graphbench.runs.record import RunRecord, Score
from graphbench.runs.records import record_source, write_packed
from graphbench.sweeps import read_sweep
from study import claims, record_measurement
from study.judging import verdicts
from study.judging.findings import FAILS, HOLDS, NOT_RUN, UNDECIDED, norm_sf
from study.judging.quantities import measured, published
from study.judging.recorded import recorded
from study.judging.rules import judge, references
from study.judging.verdicts import Claim, decide, read_claims
from study.shipped_sweeps import shipped_sweep
from tests.paths import ROOT

CLAIMS = ROOT / "study/claims.yaml"


def _write(folder: Path, config: str, *values: float, train: float = 1.0, metric: str = "accuracy") -> None:
    for seed, value in enumerate(values):
        up = metric != "mae"
        scores = (Score("train", metric, train, up, 9), Score("test", metric, value, up, 9))
        record = RunRecord.start(
            config=config, config_hash="h", seed=seed, run_id=str(seed), metric=metric, maximize=up
        )
        record.end("finished", scores=scores, params=1000).write(folder / config / str(seed) / "record.json")


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("records")
    _write(tmp_path, "high", 0.90, 0.91, 0.92)
    _write(tmp_path, "low", 0.80, 0.81, 0.82, train=0.85)
    _write(tmp_path, "wide", 0.70, 0.85, 1.00)
    _write(tmp_path, "once", 0.95)
    _write(tmp_path, "below", 0.78, 0.785, 0.79)
    _write(tmp_path, "small error", 0.10, 0.11, metric="mae")
    _write(tmp_path, "large error", 0.20, 0.21, metric="mae")
    return tmp_path


SEVERAL = {"better": {"a": "{x}", "than": ["low"]}, "each": {"x": ["high", "nowhere"]}}


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ({"better": {"a": "high", "than": "low"}}, HOLDS),
        ({"better": {"a": "low", "than": "high"}}, FAILS),
        ({"better": {"a": "high", "than": "wide"}}, UNDECIDED),
        ({"better": {"a": "once", "than": "low"}}, UNDECIDED),  # a single run has no test
        ({"better": {"a": "high", "than": ["low", "nowhere"]}}, UNDECIDED),
        ({"better": {"a": "low", "than": ["high", "nowhere"]}}, FAILS),
        ({"better": {"a": "nowhere", "than": "low"}}, NOT_RUN),
        ({"better": {"a": "high", "than": "nowhere"}}, NOT_RUN),
        ({"better": {"a": "high", "than": "low", "points": 20}}, FAILS),
        ({"better": {"a": "small error", "than": "large error"}}, HOLDS),
        ({"better": {"a": "low@gap", "than": "high@gap"}}, HOLDS),  # 0.04 against 0.09
        ({"better": {"a": "high", "than": "low", "points": 10.5}}, UNDECIDED),  # short of it by half a standard error
        ({"better": {"a": "wide", "than": ["low"]}}, UNDECIDED),  # the better mean is no proof
        ({"better": {"a": "wide", "than": ["low"], "by": "mean"}}, HOLDS),
        ({"better": {"a": "wide", "than": ["low", "high"], "by": "mean"}}, FAILS),
        ({"order": {"of": ["high", "low"]}}, HOLDS),
        ({"order": {"of": ["low", "high"]}}, FAILS),
        ({"par": {"of": ["high", "wide"]}}, UNDECIDED),
        ({"par": {"of": ["high", "low"]}}, FAILS),
        ({"par": {"of": ["high", "low"], "points": 11}}, HOLDS),
        ({"not_worse": {"a": "wide", "than": ["high", "low"]}}, UNDECIDED),  # 6 points below, in three runs
        ({"not_worse": {"a": "wide", "than": ["high", "low"], "points": 7}}, HOLDS),
        ({"not_worse": {"a": "low", "than": ["high"]}}, FAILS),
        ({"between": {"a": "high", "low": 0.9, "high": 0.92}}, HOLDS),
        ({"between": {"a": "high@params", "low": 0, "high": 999}}, FAILS),
        ({"loses_less": {"a": ["high", "wide"], "than": ["high", "low"]}}, UNDECIDED),
        ({"loses_less": {"a": ["high", "high"], "than": ["high", "low"]}}, HOLDS),
        ({"loses_less": {"a": ["high", "low"], "than": ["high", "high"]}}, FAILS),
        ({"most": {"least": 1, "of": [SEVERAL]}}, HOLDS),
        ({"most": {"least": 2, "of": [SEVERAL]}}, UNDECIDED),
        ({"most": {"least": 3, "of": [SEVERAL, {"better": {"a": "low", "than": ["high"]}}]}}, FAILS),
        ({"most": {"least": 2, "of": [{"better": {"a": "wide", "than": ["high"], "by": "mean"}}] * 2}}, UNDECIDED),
        # One fails clearly, which is allowed; that a second one does is chance.
        ({"most": {"least": 2, "of": [{"better": {"a": "low", "than": ["high"], "by": "mean"}},
                                      *[{"better": {"a": "wide", "than": ["high"], "by": "mean"}}] * 2]}}, UNDECIDED),
    ],
)  # fmt: skip
def test_rules_on_runs(records: Path, rule: dict, state: str) -> None:
    [finding] = judge(rule, measured(records), "here")
    assert finding.state == state, finding.text


def test_runs_of_another_configuration_than_the_sweeps_are_none(tmp_path: Path) -> None:
    (config, *_) = (
        entry.config for entry in shipped_sweep("quick-sgformer").entries if entry.config.name == "gcn-cora"
    )
    for config_hash, there in ((config.hash, True), ("another", False)):
        root = tmp_path / config_hash
        root.mkdir()
        record = RunRecord.start(config="gcn-cora", config_hash=config_hash, seed=1, run_id="1", metric="accuracy")
        record = record.end("finished", scores=(Score("test", "accuracy", 0.8, True, 9),))
        write_packed(root / "quick-sgformer.jsonl", {"gcn-cora/1": json.loads(record.to_json())})
        assert (measured(root)("quick-sgformer/gcn-cora") is not None) == there


def test_findings_show_means_counts_and_tests(records: Path) -> None:
    [finding] = judge({"better": {"a": "high", "than": "wide"}}, measured(records), "here")
    p_value = ttest_ind([0.90, 0.91, 0.92], [0.70, 0.85, 1.00], equal_var=False).pvalue
    assert finding.text == f"`high` 0.9100 ± 0.0100 (n = 3) against `wide` 0.8500 ± 0.1500 (n = 3), p = {p_value:.3f}"


def test_wins_over_weak_rivals_do_not_make_up_for_a_strong_one(records: Path) -> None:
    """A finding counts as one comparison: the strongest rival's, after Bonferroni over all."""
    source = measured(records)
    (alone,) = judge({"better": {"a": "below", "than": "low"}}, source, "here")
    (among,) = judge({"better": {"a": "below", "than": ["low", "wide", "high"]}}, source, "here")
    (weak,) = judge({"better": {"a": "high", "than": ["low", "below", "wide"]}}, source, "here")
    strong = 2 * norm_sf(judge({"better": {"a": "below", "than": "high"}}, source, "here")[0].tests[0])
    assert len(alone.tests) == len(among.tests) == len(weak.tests) == 1
    assert 2 * norm_sf(among.tests[0]) == pytest.approx(3 * strong)
    assert weak.tests == judge({"better": {"a": "high", "than": "wide"}}, source, "here")[0].tests


COCO = "sfi-former_table1: dataset=COCO-SP; model="
HALF = "sgformer_table8: dataset=Cora; attention="


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ({"better": {"a": COCO + "Graph-mamba", "than": COCO + "SFi-Former"}}, HOLDS),
        ({"better": {"a": COCO + "SFi-Former", "than": COCO + "Graph-mamba"}}, FAILS),
        ({"figure": {"of": [[HALF + "default", HALF + "Softmax"]], "kind": "points", "printed": "12.75"}}, HOLDS),
        ({"figure": {"of": [[HALF + "default", HALF + "Softmax"]], "kind": "points", "printed": "12.9"}}, FAILS),
        ({"best": {"table": "sgformer_table2", "models": ["SGFormer"], "least": 4}}, HOLDS),
        ({"best": {"table": "sgformer_table2", "models": ["SGFormer"], "least": 5}}, FAILS),
        ({"best": {"table": "gradformer_table1", "models": ["Gradformer"], "least": 5}}, FAILS),
        ({"best": {"table": "gradformer_table1", "models": ["Gradformer"], "least": 5, "ties": True}}, HOLDS),
    ],
)
def test_rules_on_printed_numbers(rule: dict, state: str) -> None:
    [finding] = judge(rule, published, "here")
    assert finding.state == state, finding.text


def test_the_verdict_follows_from_the_findings(records: Path) -> None:
    def word(**facts: object) -> str:
        return decide(Claim("X-1", "X", "1", "something", **facts), records).word  # type: ignore[arg-type]

    good, bad = {"better": {"a": "high", "than": "low"}}, {"better": {"a": "low", "than": "high"}}
    missing, open_ = {"better": {"a": "no", "than": "low"}}, {"better": {"a": "high", "than": "wide"}}
    false = {"better": {"a": COCO + "SFi-Former", "than": COCO + "Graph-mamba"}}
    assert word(runs=[good]) == word(runs=[good, good], needs={"gpu": "big"}) == verdicts.CONFIRMED
    assert word(runs=[good, bad, missing]) == word(tests=["a::b"], against=["a::b"]) == verdicts.CONTRADICTED
    assert word(runs=[good], own=[false]) == verdicts.OWN_TABLES
    assert word(runs=[good, missing]) == word(runs=[open_]) == verdicts.UNDECIDED
    assert word(runs=[missing], needs={"gpu": "big", "data": "much"}) == "needs a GPU"
    assert word(needs={"data": "much"}, also=[good]) == "needs data not at hand"
    assert word(runs=[missing]) == word(also=[bad]) == verdicts.OPEN
    assert word(runs=[{"better": {"a": "below", "than": "low"}}]) == verdicts.CONTRADICTED
    several = [{"not_worse": {"a": "below", "than": ["low", "wide", "high"]}}, *[open_] * 4]
    assert word(runs=several) == verdicts.CONTRADICTED, "high is better beyond chance"
    by_chance = [{"better": {"a": "below", "than": "low"}}, *[open_] * 4]
    assert word(runs=by_chance) == verdicts.UNDECIDED, "one of five comparisons"
    assert word(tests=["a::b"]) == verdicts.CONFIRMED
    assert word(tests=["a::b"], runs=[missing]) == verdicts.OPEN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {id: A, paper: P, section: 1, claim: c, own: [{bettr: {a: x, than: y}}]}", "A: unknown rule 'bettr'. Did"),
        ("- {id: A, paper: P, section: 1, claim: c, runs: [{best: {table: t, models: [m], aa: x}}]}",
         "A: best: got an unexpected keyword"),
        ("- {id: A, paper: P, section: 1, claim: c, own: [{between: {a: 'geco_table1: model=GECO', low: 0, high: 1}}]}",
         "'geco_table1: model=GECO' fits 5 lines of results/published/geco_table1.csv, not one."),
        ("- {id: A, paper: P, section: 1, claim: c, test: [x]}", "A: unknown key 'test'. Did you mean 'tests'?"),
        ("- {id: A, paper: P, section: 1, claim: c, tests: ['tests/study/test_claims.py::test_rules_on_run']}",
         "unknown test of tests/study/test_claims.py 'test_rules_on_run'. Did you mean 'test_rules_on_runs'?"),
        ("- {id: A, paper: P, section: 1, claim: c, tests: [tests/x.py::test]}", "A: the test file tests/x.py does"),
        ("- {id: A, paper: P, section: 1}", "A: lacks claim."),
        ("- {id: A, paper: P, section: 1, claim: c}\n- {id: A, paper: P, section: 1, claim: c}", "A: is there twice."),
        ("nothing", "a list of claims is expected"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(text)
    out = tmp_path / "out.md"
    assert claims.main(["--claims", str(path), "--records", str(tmp_path), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("error: ")
    assert len(error.splitlines()) == 1
    assert not out.exists()


def test_the_package_does_not_know_the_study() -> None:
    for path in (ROOT / "graphbench").rglob("*.py"):
        assert not re.search(r"^\s*(from|import) study\b", path.read_text(), re.MULTILINE), path


def test_all_claims_of_the_five_papers_are_there() -> None:
    numbers = {"SFi": 13, "SG": 15, "GE": 17, "GR": 15, "FF": 11}
    assert [claim.id for claim in read_claims(CLAIMS)] == [
        f"{paper}-{number}" for paper, last in numbers.items() for number in range(1, last + 1)
    ]


def _awaited() -> dict[str, set[tuple[str, str]]]:
    """Sweep -> (claim, configuration) of the folders that rules ask for and that are not there yet."""
    awaited: dict[str, set[tuple[str, str]]] = {}
    for claim in read_claims(CLAIMS):
        for rule in (*claim.runs, *claim.also):
            for text in references(rule):
                if ":" in text:
                    continue  # of a recorded measurement
                sweep, _, config = text.partition("@")[0].rpartition("/")
                if not record_source(ROOT / f"results/measured/records/{sweep}.jsonl" / config).run_ids():
                    awaited.setdefault(sweep, set()).add((claim.id, config))
    return awaited


def test_records_that_rules_ask_for_are_there_or_of_a_sweep() -> None:
    for sweep, asked in _awaited().items():
        assert (ROOT / f"configs/sweeps/{sweep}.yaml").is_file(), f"no records and no sweep '{sweep}': {asked}"


def test_measurements_that_rules_ask_for_have_a_command() -> None:
    """A misspelt file would need a GPU for ever."""
    readme = (ROOT / "results/measured/README.md").read_text()
    for claim in read_claims(CLAIMS):
        for rule in (*claim.runs, *claim.also):
            for text in references(rule):
                name, colon, _ = text.partition(":")
                assert not colon or f"| `{name}.json`" in readme, f"{claim.id}: {text}"


GECO = {"name": "geco", "cases": [{"case": "Table 10, 64 nodes, a GPU", "ours": 0.5, "ratio": 30.0, "met": True},
                                  {"case": "Table 10, 128 nodes, a GPU", "ours": 1.5, "ratio": 90.0, "met": False}],
        "ends": {"small": 40_000, "large": math.inf}}  # fmt: skip


@pytest.fixture
def measurements(tmp_path: Path) -> Path:
    """A folder with ``gpu/geco.json``, as the command writes it."""
    output = tmp_path / "printed.txt"
    output.write_text("a line\n" + json.dumps(GECO) + "\n")
    made = ["--command", "python bench", "--hardware", "a GPU", "--software", "torch 9", "--date", "2026-11-22"]
    arguments = [str(output), "gpu/geco", *made, "--commit", "abc1234", "--folder", str(tmp_path / "measured")]
    assert record_measurement.main(arguments) == 0
    return tmp_path / "measured"


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        ({"a": "gpu/geco: cases / case=Table 10, 64 nodes* / ratio", "low": 30}, HOLDS),
        ({"a": "gpu/geco: cases / case=Table 10, 64 nodes* / ratio", "low": 31}, FAILS),
        ({"a": "gpu/geco: cases / case=*64*; met=True / ours", "low": 0.5, "high": 0.5}, HOLDS),
        ({"a": "gpu/geco: cases / case=*64* / met", "low": 1}, HOLDS),
        (
            {"a": "gpu/geco: cases / case=*128* / {what}", "over": "gpu/geco: cases / case=*64* / {what}", "high": 3},
            HOLDS,
        ),
        (
            {"a": "gpu/geco: cases / case=*128* / ours", "over": "gpu/geco: cases / case=*64* / ours", "high": 2.9},
            FAILS,
        ),
        ({"a": "gpu/geco: ends / small", "low": 30_001, "high": 40_000}, HOLDS),
        ({"a": "gpu/geco: ends / large", "low": 30_001, "high": 40_000}, FAILS),
        ({"a": "gpu/geco: ends / other", "low": 0}, NOT_RUN),
        ({"a": "gpu/geco: cases / case=*256* / ratio", "low": 0}, NOT_RUN),
        ({"a": "gpu/geco: cases / case=*64* / ratio", "over": "gpu/geco: ends / other", "low": 0}, NOT_RUN),
        ({"a": "gpu/other: name", "low": 0}, NOT_RUN),
    ],
)
def test_rules_on_recorded_measurements(measurements: Path, rule: dict, state: str) -> None:
    [finding] = judge({"between": rule, "each": {"what": ["ours"]}}, recorded(measurements), "here")
    assert finding.state == state, finding.text


def test_a_finding_says_what_a_measurement_was_made_on(measurements: Path) -> None:
    rule = {"between": {"a": "gpu/geco: cases / case=*64* / ratio", "low": 169}}
    [finding] = judge(rule, recorded(measurements), "here")
    made = "(a GPU, 2026-11-22, commit abc1234)"
    assert finding.text == f"`gpu/geco: cases / case=*64* / ratio` 30 {made}, stated: 169 or more"


def test_a_measurement_decides_once_its_file_is_there(measurements: Path) -> None:
    claim = Claim("X-1", "X", "1", "something", needs={"gpu": "big"}, runs=[{"between": {
        "a": "gpu/geco: cases / case=*64* / ratio", "low": 30}}])  # fmt: skip
    assert decide(claim, measurements / "records").word == verdicts.CONFIRMED
    assert decide(claim, measurements.parent / "elsewhere/records").word == "needs a GPU"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("gpu/geco: cases / case=Table* / ratio", "2 entries fit 'case=Table\\*', not one"),
        ("gpu/geco: cases / Table 10 / ratio", "of a list a step is key=pattern, received 'Table 10'"),
        ("gpu/geco: cases / case=*64* / ratio / x", "nothing lies behind a number, received the step 'x'"),
        ("gpu/geco: name", "is no number in"),
    ],
)
def test_references_that_no_measurement_can_fit(measurements: Path, reference: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        recorded(measurements)(reference)


def test_a_measurement_without_provenance_is_refused(measurements: Path) -> None:
    for name, text in (("bare", json.dumps(GECO)), ("no", "[1]"), ("none", "")):
        (measurements / f"{name}.json").write_text(text)
    with pytest.raises(UserError, match="says command, date, hardware, software, commit, measured"):
        recorded(measurements)("bare: name")
    for name in ("no", "none"):
        with pytest.raises(UserError, match="no recorded measurement"):
            recorded(measurements)(f"{name}: name")


def test_what_is_no_output_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = ["--command", "c", "--hardware", "h", "--software", "s", "--folder", str(tmp_path / "measured")]
    (tmp_path / "text").write_text("no JSON\n[1]")
    assert record_measurement.main([str(tmp_path / "text"), "gpu/x", *made]) == 2
    assert "neither the file nor its last line is a JSON object" in capsys.readouterr().err
    assert record_measurement.main([str(tmp_path / "none"), "gpu/x", *made]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "measured").exists()


@pytest.mark.slow
def test_records_that_rules_ask_for_can_come_to_be() -> None:
    """A misspelt folder would be "not yet run" for ever."""
    for sweep, asked in _awaited().items():
        known = {entry.config.name for entry in read_sweep(ROOT / f"configs/sweeps/{sweep}.yaml").entries}
        assert {config for _, config in asked} <= known, sweep


def test_a_published_cell_without_a_number_is_none() -> None:
    assert published("sgformer_table4: model=Graphormer; dataset=PubMed; metric=inference_time_ms") is None
    with pytest.raises(UserError, match="a part is key=value, received 'x'"):
        published("sgformer_table4: x")
