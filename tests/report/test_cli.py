"""``scripts/report.py``: what is on the page, what is said about the rest, and how it behaves in a browser."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest

from graphbench.report import cli as report
from graphbench.report.gather import SWEEPS
from graphbench.runs.data_facts import DataFacts
from graphbench.runs.record import RunRecord, Score
from graphbench.sweeps import read_sweep
from tests import chromium
from tests.paths import ROOT

EVIL = "<script>alert('x')</script>"


def _write(
    folder: Path, run: str, test: float, *, dataset: str = "Cora", config: str = "mine", **facts: object
) -> None:
    scores = [Score(split, "accuracy", value, True, 9) for split, value in (("train", 0.95), ("val", 0.8))]
    scores.append(Score("test", "accuracy", test, True, 9))
    scores += facts.pop("scores", [])  # type: ignore[arg-type]
    data = DataFacts(dataset, fingerprint="0" * 64, split_mode="random", sizes={"train": 9, "test": 9})
    record = RunRecord.start(
        config=config,
        config_hash="h",
        seed=int(run),
        run_id=run,
        metric="accuracy",
        maximize=True,
        data=data,
    )
    record = record.end("finished", "max_epoch", scores=tuple(scores), epochs=3, best_epoch=2, time_per_epoch=0.5)
    record = dataclasses.replace(record, **{"params": 1000, **facts})  # type: ignore[arg-type]
    record.write(folder / config / run / "record.json")


def _page(tmp_path: Path, *arguments: str) -> str:
    out = tmp_path / "report.html"
    assert report.main([str(tmp_path / "runs"), "--out", str(out), *arguments]) == 0
    return out.read_text()


def _rows(page: str) -> list[str]:
    """Text of the rows of the leaderboards."""
    inside = re.split(r'<section id="(?:ranks|size)">', page.partition('<section id="leaderboards">')[2])[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", inside, re.DOTALL)
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)).strip() for row in rows]


def test_leaderboards_have_means_ranks_and_published_values(tmp_path: Path) -> None:
    runs = tmp_path / "runs" / "sgformer-table2"  # the name of a shipped sweep
    hashes = {entry.config.name: entry.config.hash for entry in read_sweep(SWEEPS / "sgformer-table2.yaml").entries}
    hashes["sgformer-cora"] = "another"
    for number, config in enumerate(("gcn-cora", "sgformer-cora", "mlp-cora")):
        for seed, off in ((123, 0.01), (124, -0.01)):
            _write(runs, str(seed), 0.84 - 0.1 * number + off, config=config, config_hash=hashes[config])
    page = _page(tmp_path)
    assert "<figcaption>Cora, random 9/9</figcaption>" in page
    assert page.count("<title>GCN: 0.8400 ± 0.0141, ") == 2  # over parameters, over seconds
    head, gcn, sgformer, mlp = _rows(page)
    assert "published" in head
    assert gcn.startswith(
        "GCN sgformer-table2/ gcn-cora 0.8400 ± 0.0141 1st 2 of 5 0.816 ± 0.004 +0.024 (+6.0 sd) above"
    )
    assert sgformer.startswith(
        "SGFormer sgformer-table2/ sgformer-cora 0.7400 ± 0.0141 2nd 2 of 5 0.845 ± 0.008 other configuration"
    )
    assert "3rd" not in mlp  # the last of a column has no mark
    assert "<dt>above</dt><dd>1 of 1</dd>" in page, "runs of another configuration are not counted"


def test_a_later_run_of_other_settings_is_not_the_one_that_is_compared(tmp_path: Path) -> None:
    runs = tmp_path / "runs" / "sgformer-table2"
    hashes = {entry.config.name: entry.config.hash for entry in read_sweep(SWEEPS / "sgformer-table2.yaml").entries}
    for config, test in (("gcn-cora", 0.84), ("sgformer-cora", 0.82), ("mlp-cora", 0.5)):
        for seed, off in ((123, 0.01), (124, -0.01)):
            _write(runs, str(seed), test + off, config=config, config_hash=hashes[config])
    _write(runs, "5", 0.3, config="gcn-cora", config_hash="later", ended="9999-01-01T00:00:00+00:00")
    _, gcn, sgformer, _ = _rows(_page(tmp_path))
    assert gcn.startswith(
        "GCN sgformer-table2/ gcn-cora 0.8400 ± 0.0141 1st 2 of 5 0.816 ± 0.004 +0.024 (+6.0 sd) above"
    )
    assert sgformer.startswith("SGFormer sgformer-table2/ sgformer-cora 0.8200 ± 0.0141 2nd 2 ")


def test_a_smaller_experiment_is_not_judged_and_other_data_not_ranked_with_it(tmp_path: Path) -> None:
    out, stored = tmp_path / "report.html", ROOT / "results/measured/records"
    assert report.main([str(stored / "ffgt-sbm-small.jsonl"), "--out", str(out)]) == 0
    rows = [row for row in _rows(out.read_text()) if "ffgt-sbm-small" in row or "sbm-pattern-p0" in row]
    assert len(rows) == 8
    assert all(" smaller " in row for row in rows)
    assert not any(" below " in row for row in rows)
    best = [row for row in rows if " 1st " in row]
    assert ["p = 0.10" in row for row in best] == [True, False]
    assert ["p = 0.16" in row for row in best] == [False, True]


def test_a_published_value_of_another_metric_has_the_measured_one_beside_it(tmp_path: Path) -> None:
    (config,) = (e.config for e in read_sweep(SWEEPS / "sgformer-table2.yaml").entries if e.config.name == "gcn-deezer")
    runs = tmp_path / "runs" / "sgformer-table2"
    for seed in ("123", "124"):
        auc = [Score(split, "auc", 0.7, True, 9) for split in ("train", "val", "test")]
        facts = {"config": config.name, "config_hash": config.hash, "dataset": "Deezer-Europe"}
        _write(runs, seed, 0.62, metric="auc", scores=auc, **facts)
    (row,) = (row for row in _rows(_page(tmp_path)) if "gcn-deezer" in row)
    assert " 0.7000 ± 0.0000 2 of 5 0.627 ± 0.007 -0.007 (-1.0 sd) from 0.620, accuracy reproduced " in row


@pytest.mark.slow
def test_stored_records_have_labels_and_settings(tmp_path: Path) -> None:
    out, stored = tmp_path / "report.html", ROOT / "results/measured/records"
    assert report.main([str(stored / "sgformer-table9.jsonl"), "--out", str(out)]) == 0
    packed = out.read_text()
    both = tmp_path / "records"
    both.mkdir()
    for name in ("geco-nodes", "sgformer-table2"):
        for suffix in (".jsonl", ".configurations.jsonl"):
            shutil.copy((stored / name).with_suffix(suffix), both)
    assert report.main([str(both), "--out", str(out), "--limit", "1000"]) == 0
    address = "at-sgformer_2dtable2_2fsgformer_2dcora"
    cell = f'data-v="SGFormer" data-config="{address}"><b>SGFormer</b><small><a href="#{address}">'
    assert cell in out.read_text()
    # The same ten runs are in two packed files: they count once, with the published value.
    same = "geco-nodes/sgformer-actor, run all: the same runs as sgformer-table2/sgformer-actor"
    assert f"<li>{same}</li>" in out.read_text()
    assert "\ngt.SGFormer.norm: &quot;frobenius&quot;\n" in packed
    assert "settings of" not in packed


def test_nothing_is_left_out_silently(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for seed in ("0", "1", "2"):
        _write(runs, seed, 0.7)
    (runs / "mine/1/record.json").write_text('{"config": ')
    failed = RunRecord.read(runs / "mine/2/record.json")
    assert failed is not None
    dataclasses.replace(failed, status="failed", reason="out of memory").write(runs / "mine/2/record.json")
    _write(runs, "0", 0.6, config="odd")
    content = json.loads((runs / "odd/0/record.json").read_text())
    del content["checksum"]
    (runs / "odd/0/record.json").write_text(json.dumps(content | {"data": {"sizes": {"train": []}}}))
    page = _page(tmp_path)
    assert "<li>mine, run 1: record.json missing, damaged or edited</li>" in page
    assert "<li>mine, run 2: failed: out of memory</li>" in page
    assert "<li>odd, run all: its records hold something else than ours do" in page
    assert "1 of 3" in page
    assert "1 of 1 configurations have records only, without the stats.json of their runs" in page
    assert "Not recorded by 1 configurations" in page
    assert _rows(_page(tmp_path, "--limit", "0")) == _rows(page)
    assert "1 more configurations are in the tables only (--limit 0)." in _page(tmp_path, "--limit", "0")


def test_curves_and_zero_flow_where_runs_have_them(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for seed in ("0", "1"):
        losses = [Score(split, "loss", 0.5, False, 9) for split in ("train", "val", "test")]
        _write(runs, seed, 0.7, scores=[*losses, Score("test", "zero_flow", 0.25, False, 9)])
        for split, gain in (("train", 0.2), ("test", 0.1)):
            lines = [json.dumps({"epoch": epoch, "accuracy": gain * epoch, "loss": 1.0}) for epoch in range(4)]
            (runs / "mine" / seed / split).mkdir()
            (runs / "mine" / seed / split / "stats.json").write_text("\n".join(lines))
    page = _page(tmp_path)
    assert page.count("<polyline") == 4  # training and test, metric and loss
    assert page.count('<circle class="dot"') == 16  # an epoch that was evaluated has a dot
    assert "2 runs; gap after epoch 3: +0.3000" in page
    assert 'aria-label="25.0%"' in page
    (runs / "mine/0/test/stats.json").write_text("{broken")
    assert _page(tmp_path).count("<polyline") == 2  # training only


def test_a_curve_goes_through_every_epoch_that_its_own_split_has(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    _write(runs, "0", 0.7)
    accuracies = {"train": {0: 0.2, 14: 0.9}, "val": {0: 0.1, 7: 0.6, 14: 0.5}, "test": {0: 0.1, 7: 0.9, 14: 0.1}}
    for split, values in accuracies.items():
        lines = [json.dumps({"epoch": epoch, "accuracy": value, "loss": 1.0}) for epoch, value in values.items()]
        (runs / "mine" / "0" / split).mkdir()
        (runs / "mine" / "0" / split / "stats.json").write_text("\n".join(lines))
    page = _page(tmp_path)
    figure = page[page.index('<section id="curves">') : page.index('<section id="sparsity">')]
    points = {
        title: [tuple(map(float, pair.split(","))) for pair in line.split()]
        for title, line in re.findall(r"<title>(\w+)</title><polyline class=\"line\" points=\"([^\"]+)\"", figure)[:3]
    }
    assert {split: len(line) for split, line in points.items()} == {"train": 2, "val": 3, "test": 3}
    (_, begin), (middle, peak), (_, end) = points["test"]
    assert begin == end > peak, "the test score between training scores is drawn where it was measured"
    assert points["val"][1][0] == middle


def test_configurations_of_a_data_set_share_a_picture(tmp_path: Path) -> None:
    for config, scale in (("mine", 0.1), ("other", 0.2)):
        _write(tmp_path / "runs", "0", 0.7, config=config)
        for split in ("train", "val", "test"):
            lines = [json.dumps({"epoch": epoch, "accuracy": scale * epoch, "loss": 1.0}) for epoch in range(4)]
            (tmp_path / "runs" / config / "0" / split).mkdir()
            (tmp_path / "runs" / config / "0" / split / "stats.json").write_text("\n".join(lines))
    figure = re.search(
        r"<figure[^>]*><figcaption>Cora<small>random 9/9, validation.*?</figure>", _page(tmp_path), re.DOTALL
    )
    assert figure is not None
    titles = re.findall(r'<g class="c(\d)"><title>(\w+)</title><polyline', figure[0])
    assert titles == [("0", "mine"), ("1", "other")]
    assert '<li class="c1">other</li>' in figure[0]


def test_the_page_loads_nothing_and_escapes_everything(tmp_path: Path) -> None:
    for seed in ("0", "1", "2"):
        _write(tmp_path / "runs", seed, 0.7, dataset=EVIL, config=f"a<b>&{seed}")
        (tmp_path / "runs" / f"a<b>&{seed}" / "config.yaml").write_text(f"name: {EVIL}\n")
    page = _page(tmp_path, "--title", EVIL)
    assert EVIL not in page
    assert "<b>&" not in page
    assert page.count("<script>") == page.count("<style>") == 1
    assert not re.findall(r"(?:src|href)=\"(?!#|data:,)[^\"]*\"|url\(|@import|https?://", page)


def test_without_records_there_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report.main([str(tmp_path), "--out", str(tmp_path / "x.html")]) == 2
    assert capsys.readouterr().err == f"error: no record.json below {tmp_path}.\n"
    assert not (tmp_path / "x.html").exists()


def test_models_over_data_sets_have_a_critical_difference(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for number, dataset in enumerate(("Cora", "CiteSeer", "Actor", "MUTAG")):
        for model, score in (("gcn", 0.9), ("gat", 0.8), ("mlp", 0.7), ("sgc", 0.6)):
            if (model, dataset) != ("sgc", "Actor"):
                _write(runs, "0", score - 0.01 * number, dataset=dataset, config=f"{model}-{dataset.lower()}")
    page = _page(tmp_path)
    section = page[page.index('<section id="ranks">') : page.index('<section id="size">')]
    assert 'aria-label="critical-difference diagram: gcn 1.00, gat 2.00, mlp 3.00; critical difference 1.66"' in section
    assert "4 data sets (Actor, CiteSeer, Cora, MUTAG); Friedman&#x27;s test: p = 0.018" in section
    assert "<li>Left out: sgc (not run on Actor).</li>" in section
    assert section.count('<path class="alike"') == 2  # gcn with gat, gat with mlp
    for folder in runs.glob("*-cora"):
        shutil.rmtree(folder)
    assert 'id="ranks"' not in _page(tmp_path), "three data sets are too few"


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colors_can_be_told_from_what_they_lie_on(scheme: int) -> None:
    """WCAG 2.2: contrast 4.5 for text (1.4.3), 3 for drawings and controls (1.4.11)."""
    style = (ROOT / "graphbench/report/report.css").read_text()
    colors = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", re.findall(r":root \{(.*?)\}", style, re.DOTALL)[scheme]))
    for ground in ("paper", "card", "head"):
        for name in ("ink", "soft", "accent"):
            assert _contrast(colors[name], colors[ground]) >= 4.5, (name, ground)
    for name in ("good", "bad", "over"):
        assert _contrast(colors[name], colors["card"]) >= 4.5, name
    for name in ("edge", *(f"c{number}" for number in range(8))):
        assert _contrast(colors[name], colors["card"]) >= 3, name


def _contrast(one: str, other: str) -> float:
    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.slow
@pytest.mark.skipif(chromium.PROGRAM is None, reason="no Chromium: apt-get install chromium")
def test_filtering_comparing_and_copying_in_a_browser(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for sweep, config, dataset, test in (
        ("first", "gcn-cora", "Cora", 0.5),
        ("first", "gcn_x-cora", "Cora", 0.25),
        ("second", "gcn-actor", "Actor", 0.125),
    ):
        for seed in ("0", "1"):
            _write(runs / sweep, seed, test, config=config, dataset=dataset)
        (runs / sweep / config / "config.yaml").write_text(f"gt: {{layers: {len(config)}}}\nseed: 0\n")
    _page(tmp_path)
    shown = "[...document.querySelectorAll('{} [data-find]')].filter(x => !x.hidden).length"
    choose = (
        "(() => {{const field = document.querySelector('.filter').elements.{}; field.value = '{}'; "
        "field.dispatchEvent(new Event('input', {{bubbles: true}}))}})()"
    )
    with chromium.browser(tmp_path / "profile") as page:
        page.open(tmp_path / "report.html", width=1280)
        for field, value, rows in (("words", "cora", 2), ("set", "Actor", 0), ("words", "", 1), ("group", "first", 0)):
            page.value(choose.format(field, value))
            assert page.value(shown.format("#leaderboards")) == page.value(shown.format("#runs")) == rows
        assert page.value("document.querySelector('.filter output').value") == "0 of 3 configurations"
        page.value(choose.format("set", ""))
        assert page.value(shown.format("#leaderboards")) == 2

        assert page.value("document.querySelector('#compare').hidden")
        for number in range(2):
            page.value(f"document.querySelectorAll('#leaderboards tr:not([hidden]) .pick')[{number}].focus()")
            page.press(" ", 32)
        assert page.value("document.querySelector('#picked').innerText").split() == "2 picked compare clear".split()
        lines = page.value(
            "[...document.querySelectorAll('#compare tr')].map(x => [...x.cells].map(y => y.innerText.trim()))"
        )
        assert lines[0] == ["", "first/gcn-cora", "first/gcn_x-cora"]
        assert ["test", "0.5000 ± 0.0000 1st", "0.2500 ± 0.0000"] in lines
        assert ["gt.layers", "8", "10"] in lines
        assert "1 settings differ, 1 are equal." in page.value("document.querySelector('#compare').innerText")

        copied = {}
        page.allow_clipboard()
        for name in ("Markdown", "LaTeX", "CSV"):
            label = f"copy the table Cora, random 9/9, accuracy as {name}"
            page.value(f"document.querySelector('[aria-label=\"{label}\"]').click()")
            copied[name] = page.value("navigator.clipboard.readText()").splitlines()
        assert copied["Markdown"][0].startswith("| model | test | runs | validation | train to test |")
        assert copied["Markdown"][1].startswith("| --- | --: | --: |")
        assert copied["Markdown"][2].startswith("| first/gcn-cora | **0.5000 ± 0.0000** | 2 | 0.8000 ± 0.0000 |")
        assert r"\begin{tabular}{lrrrrrrrl}" in copied["LaTeX"]
        assert any(
            line.startswith(r"first/gcn\_x-cora & 0.2500 $\pm$ 0.0000 & 2 &") and line.endswith(r" \\")
            for line in copied["LaTeX"]
        )
        assert copied["CSV"][1].startswith("first/gcn-cora,0.5000 ± 0.0000,2,")
        assert page.messages == []


@pytest.mark.skipif(chromium.PROGRAM is None, reason="no Chromium: apt-get install chromium")
def test_in_a_browser(tmp_path: Path) -> None:
    for number in range(6):
        long_name = f"model-{number}-with-a-name-that-no-telephone-is-wide-enough-for"
        for seed in ("0", "1"):
            scores = [Score("test", "zero_flow", 0.1, False, 9)]
            test = (0.5, 0.9, 0.7, float("nan"), 0.6, 0.8)[number]
            params = 10**number
            _write(tmp_path / "runs", seed, test, config=long_name, params=params, scores=scores)
    _page(tmp_path)
    order = "[...document.querySelectorAll('#leaderboards tbody th')].map(each => each.textContent[6]).join('')"
    heading = "[...document.querySelectorAll('#leaderboards thead button')].find(each => each.textContent === {!r})"
    with chromium.browser(tmp_path / "profile") as page:
        for width, dark in ((390, False), (1280, True)):
            page.open(tmp_path / "report.html", width=width, dark=dark)
            page.value("document.querySelectorAll('details').forEach(each => each.open = true)")
            assert page.value("document.documentElement.scrollWidth") == page.value("innerWidth") == width
        assert page.value(order) == "152403"
        page.value(heading.format("test") + ".click()")
        assert page.value(order) == "152403"  # best first; what is no number last
        page.value(heading.format("test") + ".click()")
        assert page.value(order) == "042513"
        page.value(heading.format("parameters") + ".focus()")
        page.press("Enter", 13)
        assert page.value(order) == "543210"
        assert page.value(heading.format("parameters") + ".parentNode.ariaSort") == "descending"
        page.value(
            "(() => {const box = document.querySelector('.filter input'); box.value = 'MODEL-3 cora'; "
            "box.dispatchEvent(new Event('input', {bubbles: true}))})()"
        )
        assert page.value("[...document.querySelectorAll('#leaderboards tbody tr')].filter(x => !x.hidden).length") == 1
        shot = page.screenshot()
        assert shot.startswith(b"\x89PNG")
        assert len(shot) > 20_000  # something is drawn
        assert page.messages == []


def test_records_that_are_handed_on_without_curves_are_no_reason_to_warn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored = ROOT / "results/measured/records/sgformer-table9.jsonl"
    assert report.main([str(stored), "--out", str(tmp_path / "a.html")]) == 0
    assert not [each.message for each in caplog.records if "stats.json" in each.message]


@pytest.mark.skipif(chromium.PROGRAM is None, reason="no Chromium: apt-get install chromium")
def test_for_keyboard_and_screen_reader(tmp_path: Path) -> None:
    for config, test in (("gcn-cora", 0.5), ("sgformer-cora", 0.7), ("mlp-cora", 0.6)):
        for run in ("0", "1"):
            _write(tmp_path / "runs", run, test, config=config)
    _page(tmp_path)
    with chromium.browser(tmp_path / "profile") as page:
        page.open(tmp_path / "report.html", width=1280)
        nodes = [node for node in page.accessibility() if not node.get("ignored")]
        by_role: dict[str, list[str]] = {}
        for node in nodes:
            by_role.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", "").strip())
        for role in ("button", "link", "checkbox", "textbox", "searchbox", "combobox", "image"):
            assert all(by_role.get(role, [])), f"a {role} has no name: {by_role[role]}"
        assert len(by_role["checkbox"]) == 3
        assert {"main", "table", "columnheader", "rowheader"} <= set(by_role)
        reached = []
        for _ in range(80):  # everything that can be clicked, by Tab alone
            page.press("Tab", 9)
            reached.append(page.value("document.activeElement.tagName"))
            outline = page.value("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none" or reached[-1] == "BODY", f"the focus on {reached[-1]} is not seen"
        assert {"A", "BUTTON", "INPUT", "SUMMARY"} <= set(reached)
        page.value("document.querySelector('#leaderboards input[type=checkbox]').focus()")
        page.press(" ", 32)
        assert page.value("document.activeElement.checked")
        assert page.messages == []
