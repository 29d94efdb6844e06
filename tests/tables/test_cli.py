"""``scripts/tables.py``: numbers come from records only, the stored tables are what the command says, messages."""

from __future__ import annotations

import csv
import dataclasses
import re
import shlex
import shutil
from pathlib import Path

import pytest
from scipy.stats import ttest_ind

from graphbench.config import load_config
from graphbench.report.gather import gather
from graphbench.report.page import page
from graphbench.runs import pack
from graphbench.runs.data_facts import DataFacts
from graphbench.runs.identity import code_inputs
from graphbench.runs.record import RunRecord, Score
from graphbench.runs.records import record_source, record_sources
from graphbench.sweeps import read_sweep
from graphbench.sweeps.plan import select
from graphbench.tables import cli as tables
from graphbench.tables.cell_specs import cell_specs
from graphbench.tables.configurations import configurations
from study.shipped_sweeps import shipped_sweep
from tests.paths import ROOT

MEASURED = ROOT / "results/measured"
CONFIGS = ROOT / "configs/nodes"


def _record(seed: int, accuracy: float, config: str = "sgformer-cora") -> RunRecord:
    scores = tuple(Score(split, "accuracy", accuracy, True, 10) for split in ("train", "val", "test"))
    facts = {"name": "Cora", "split_mode": "random-class", "sizes": {"train": 140, "val": 500, "test": 1000}}
    config_hash = load_config(CONFIGS / f"{config}.yaml").hash
    record = RunRecord.start(
        config=config,
        config_hash=config_hash,
        seed=seed,
        run_id=str(seed),
        metric="accuracy",
        data=DataFacts.of(facts),
        maximize=True,
    )
    return record.end("finished", scores=scores, params=1234, time_per_epoch=0.05, epochs=3)


def _write(folder: Path, config: str, *values: float) -> None:
    for seed, value in enumerate(values, 123):
        _record(seed, value, config).write(folder / config / str(seed) / "record.json")


def _sweep(folder: Path, head: str = "published: sgformer_table2", variant: str = "") -> Path:
    path = folder / "mini.yaml"
    path.write_text(
        f"sweep: {{name: mini, seeds: 2, {head}}}\n"
        "groups:\n"
        f"  - {{label: SGFormer, configs: [{CONFIGS}/sgformer-cora.yaml], variants: [{{{variant}}}]}}\n"
        f"  - {{label: GCN, configs: [{CONFIGS}/gcn-cora.yaml, {CONFIGS}/gcn-actor.yaml]}}\n"
    )
    return path


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_copied_and_renamed_folders_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path, "sgformer-cora", 0.8, 0.9)
    _write(tmp_path, "gcn-cora", 0.7)
    shutil.copytree(tmp_path / "sgformer-cora", tmp_path / "copy")
    shutil.copy(tmp_path / "sgformer-cora/124/record.json", tmp_path / "gcn-cora/123/record.json")
    assert tables.main([str(tmp_path)]) == 0
    notes = capsys.readouterr().out
    for folder in ("gcn-cora", "sgformer-cora"):  # "copy" comes first
        assert f"{tmp_path / folder}: " in notes
    assert f"{tmp_path / 'copy'}: its records say that they are of sgformer-cora." in notes
    assert f"{tmp_path / 'sgformer-cora'}: run 123 is the same as that of {tmp_path / 'copy'}." in notes
    assert tables.main([str(tmp_path), "--models"]) == 0
    assert (
        f"{tmp_path / 'sgformer-cora'}: run 124 is the same as that of {tmp_path / 'copy'}." in capsys.readouterr().out
    )


def test_one_row_per_folder(tmp_path: Path) -> None:
    _write(tmp_path, "sgformer-cora", 0.8, 0.9)
    out = tmp_path / "table.md"
    assert tables.main([str(tmp_path / "sgformer-cora"), "--out", str(out)]) == 0
    head, _, row = out.read_text().splitlines()
    cells = dict(zip(_cells(head), _cells(row), strict=True))
    assert list(cells) == [
        "configuration", "data set", "split", "metric", "test", "val", "runs", "parameters", "s/epoch", "peak memory",
        "date", "commit", "hardware",
    ]  # fmt: skip
    expected = ["sgformer-cora", "Cora", "random-class 140/500/1000", "accuracy", "0.8500 ± 0.0707", "0.8500 ± 0.0707"]
    assert list(cells.values())[:10] == [*expected, "2", "1,234", "0.050", "-"]


def test_folds_of_different_sizes_have_one_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert tables.main([str(MEASURED / "records/first-results.jsonl/gps-mutag-10fold")]) == 0
    assert " | cv-stratifiedkfold-10, 10 splits, 150-152/18-19/18-19 | " in capsys.readouterr().out


def test_what_layers_report_is_a_column_where_a_run_has_it(capsys: pytest.CaptureFixture[str]) -> None:
    records = MEASURED / "records"
    gps, sfi = str(records / "first-results.jsonl/gps-nci1"), str(records / "sfi-small.jsonl/sfi-pattern-small")
    assert tables.main([gps]) == 0
    assert "zero flow" not in capsys.readouterr().out
    assert tables.main([gps, sfi]) == 0
    head, _, without, with_it = map(_cells, capsys.readouterr().out.splitlines())
    place = head.index("zero flow")
    assert without[place] == "-"
    assert 0 < float(with_it[place].split()[0]) < 1


def test_a_sweep_in_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path, "sgformer-cora", 0.80, 0.84)
    _write(tmp_path, "gcn-cora", 0.70, 0.72)
    command = ["--sweep", str(_sweep(tmp_path)), "--records", str(tmp_path), "--baseline", "GCN", "--details"]
    assert tables.main(command) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert [_cells(line) for line in lines[2:10]][2:] == [
        ["SGFormer", "measured", "**82.0 ± 2.8** (1st)", ""],
        ["", "published", "84.5 ± 0.8", ""],
        ["", "difference", "-2.5 (-3.1 sd)", ""],
        ["", "status", "below", ""],
        ["", "against GCN", f"p = {ttest_ind([0.80, 0.84], [0.70, 0.72], equal_var=False).pvalue:.3f}", ""],
        ["GCN", "measured", "71.0 ± 1.4", "not run"],
    ]
    assert "- not run: GCN (Actor)." in lines
    assert lines[lines.index("mini: runs") + 2].startswith("| model    | column | configuration | hash ")

    written = {}
    for form in ("latex", "html", "csv"):
        out = tmp_path / f"table.{form}"
        assert tables.main([*command, "--format", form, "--out", str(out)]) == 0
        written[form] = out.read_text()
        by_name = tmp_path / f"named{'.tex' if form == 'latex' else '.' + form}"
        assert tables.main([*command, "--out", str(by_name)]) == 0
        assert by_name.read_text() == written[form]
    assert written["latex"].count(r"\begin{tabular}") == written["html"].count("<table>") == 2
    assert "\\textbf{82.0 $\\pm$ 2.8}" in written["latex"]
    assert '<b class="first">82.0 ± 2.8</b>' in written["html"]
    [ours, *_] = csv.DictReader(written["csv"].splitlines())
    assert (float(ours["mean"]), ours["status"]) == (pytest.approx(82.0), "below")


def test_a_run_of_another_seed_takes_no_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _record(123, 0.8, "sgformer-cora").write(tmp_path / "sgformer-cora/123/record.json")
    _record(130, 0.9, "sgformer-cora").write(tmp_path / "sgformer-cora/130/record.json")
    command = ["--sweep", str(_sweep(tmp_path, head="")), "--records", str(tmp_path)]
    assert tables.main(command) == 0
    assert "(1 of 2 and 1 more)" in capsys.readouterr().out
    _record(124, 0.7, "sgformer-cora").write(tmp_path / "sgformer-cora/124/record.json")
    assert tables.main(command) == 0
    assert "(1 of 2" not in capsys.readouterr().out


def test_two_folders_of_one_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in ("cluster", "laptop"):
        _write(tmp_path / place, "gcn-cora", 0.80, 0.84)
    named = [str(tmp_path / place / "gcn-cora") for place in ("cluster", "laptop")]
    assert tables.main(named) == 0
    out = capsys.readouterr().out
    assert all(f"| {name} " in out for name in named)
    records = [word for name in named for word in ("--records", name)]
    with pytest.raises(SystemExit, match="2"):
        tables.main(["--sweep", str(_sweep(tmp_path, head="")), *records])
    assert "--records takes one folder or file; join several: graphbench pack A B" in capsys.readouterr().err


def test_a_table_for_a_paper_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for config, mean in [("sgformer-cora", 0.80), ("gcn-cora", 0.70), ("gcn-actor", 0.30)]:
        _write(tmp_path, config, mean, mean + 0.04)
    sweep = ["--sweep", str(_sweep(tmp_path, head="")), "--records", str(tmp_path)]
    shown = ["--rows", "measured", "--percent", "--digits", "1"]
    assert tables.main([*sweep, *shown, "--format", "latex", "--max_columns", "1"]) == 0
    latex = capsys.readouterr().out
    assert "test accuracy (\\%)" in latex
    assert [line for line in latex.splitlines() if line.startswith(("SGFormer &", "GCN &"))] == [
        "SGFormer & \\textbf{82.0 $\\pm$ 2.8} \\\\",
        "GCN & 72.0 $\\pm$ 2.8 \\\\",
        "GCN & 32.0 $\\pm$ 2.8 (2 of 10) \\\\",
    ]
    assert [line for line in latex.splitlines() if "label" in line] == [r"\label{tab:mini}", r"\label{tab:mini-2}"]
    assert tables.main([*sweep, *shown, "--format", "latex", "--bare"]) == 0
    latex = capsys.readouterr().out
    assert [line for line in latex.splitlines() if line.startswith(("SGFormer &", "GCN &"))] == [
        "SGFormer & 82.0 $\\pm$ 2.8 &  \\\\",
        "GCN & 72.0 $\\pm$ 2.8 & 32.0 $\\pm$ 2.8 \\\\",
    ]
    assert "GCN, Actor: 2 of 10." in latex
    assert tables.main([*sweep, "--percent"]) == 0
    assert "82.00 ± 2.83" in capsys.readouterr().out
    for percent, scale in ([], "1.0"), (["--percent"], "100.0"):
        assert tables.main([*sweep, *percent, "--format", "csv"]) == 0
        assert {line["scale"] for line in csv.DictReader(capsys.readouterr().out.splitlines())} == {scale}
    printed = ["--sweep", str(_sweep(tmp_path)), "--records", str(tmp_path), "--rows", "measured,published"]
    assert tables.main([*printed, "--percent"]) == 0  # the scale of print stays
    assert [_cells(line)[:3] for line in capsys.readouterr().out.splitlines()[4:7]] == [
        ["SGFormer", "measured", "**82.0 ± 2.8** (1st)"],
        ["", "published", "84.5 ± 0.8"],
        ["GCN", "measured", "72.0 ± 2.8"],
    ]
    assert tables.main(printed) == 0  # notes on rows that are shown, and no others
    notes = capsys.readouterr().out
    assert "published: " in notes
    assert "difference: " not in notes
    assert "reproduced: " not in notes


def test_the_folder_of_a_run_is_told_to_stand_for_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path, "gcn-cora", 0.70, 0.72)
    run = tmp_path / "gcn-cora/123"
    assert tables.main([str(run)]) == 0
    told = f"note: all runs of the configuration are taken, not one alone: {run}"
    assert told in capsys.readouterr().err
    assert pack.main([str(run), "--out", str(tmp_path / "all.jsonl")]) == 0
    printed = capsys.readouterr()
    assert told in printed.err
    assert "2 records added" in printed.out
    assert tables.main([str(tmp_path / "gcn-cora")]) == 0
    assert "all runs" not in capsys.readouterr().err


def test_a_sweep_called_with_other_settings_is_judged_by_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, "sgformer-cora", 0.80, 0.84)
    path, changed = _sweep(tmp_path, head="", variant="optim.max_epoch: 7"), ["optim.max_epoch", "500"]
    records = ["--records", str(tmp_path)]
    assert load_config(CONFIGS / "sgformer-cora.yaml").tree.optim.max_epoch == 500
    assert tables.main(["--sweep", str(path), *records]) == 0
    assert "other configuration" in capsys.readouterr().out
    for words in (["--sweep", str(path), *changed, *records], ["--sweep", str(path), *records, *changed]):
        assert tables.main(words) == 0
        assert "other configuration" not in (shown := capsys.readouterr().out)
        assert "0.8200 ± 0.0283" in shown
    assert tables.main(["--sweep", str(path), "optim.max_epochs", "5", *records]) == 2
    assert "command line: unknown configuration key 'optim.max_epochs'" in capsys.readouterr().err


def test_what_a_sweep_varies_is_a_column_of_the_csv(tmp_path: Path) -> None:
    """Keys of the grid and of variants; empty where a model has no such key; what all set to the same is none."""
    path = tmp_path / "grid.yaml"
    path.write_text(
        "sweep: {name: grid, seeds: 2}\n"
        "groups:\n"
        f"  - {{label: SGFormer, configs: [{CONFIGS}/sgformer-cora.yaml], common: {{optim.max_epoch: 3}},\n"
        "     grid: {optim.base_lr: [0.5, 0.1], gt.SGFormer.use_weight: [false]}}\n"
        f"  - {{label: GCN, configs: [{CONFIGS}/gcn-cora.yaml], common: {{optim.max_epoch: 3}},\n"
        "     variants: [{optim.base_lr: 0.5}]}\n"
    )
    _write(tmp_path, "gcn-cora", 0.70, 0.72)
    out = tmp_path / "t.csv"
    assert tables.main(["--sweep", str(path), "--records", str(tmp_path), "--out", str(out)]) == 0
    lines = list(csv.DictReader(out.read_text().splitlines()))
    assert [line["optim.base_lr"] for line in lines] == ["0.5", "0.1", "0.5"]
    assert [line["gt.SGFormer.use_weight"] for line in lines] == ["False", "False", ""]
    assert not {"optim.max_epoch", "name_tag"} & lines[0].keys()


def _grid(folder: Path) -> Path:
    """A grid of two rates on Cora, the second better on test and the first on validation; and GCN."""
    path = folder / "grid.yaml"
    path.write_text(
        "sweep: {name: grid, seeds: 1}\n"
        "groups:\n"
        f"  - {{label: SGFormer, configs: [{CONFIGS}/sgformer-cora.yaml], grid: {{optim.base_lr: [0.5, 0.1]}}}}\n"
        f"  - {{label: GCN, configs: [{CONFIGS}/gcn-cora.yaml]}}\n"
    )
    _write(folder, "gcn-cora", 0.70)
    for entry, val, test in zip(read_sweep(path).entries, (0.9, 0.8), (0.6, 0.7), strict=False):
        record = _record(123, 0.0)
        scores = (Score("val", "accuracy", val, True, 10), Score("test", "accuracy", test, True, 10))
        mine = {"config": entry.config.name, "config_hash": entry.config.hash, "scores": scores}
        dataclasses.replace(record, **mine).write(folder / entry.config.name / "123/record.json")
    return path


def test_validation_chooses_the_point_of_a_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, records = _grid(tmp_path), ["--records", str(tmp_path)]
    assert tables.main(["--sweep", str(path), *records, "--best_of_grid"]) == 0
    said = capsys.readouterr().out
    rows = [_cells(line) for line in said.splitlines() if line.startswith("| ")]
    assert [row[:2] for row in rows[2:]] == [["SGFormer", "0.6000"], ["GCN", "**0.7000** (1st)"]]
    assert "SGFormer, Cora: base_lr=0.5, the best of 2 on validation (accuracy 0.9000)." in said
    assert tables.main(["--sweep", str(path), *records, "--format", "csv"]) == 0
    lines = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [(line["mean"], line["val_mean"]) for line in lines] == [("0.6", "0.9"), ("0.7", "0.8"), ("0.7", "0.7")]
    assert [entry.point for entry in select(read_sweep(path), ["sgformer"])] == [" (base_lr=0.5)", " (base_lr=0.1)"]


def test_runs_of_other_settings_are_no_point_of_a_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _grid(tmp_path)
    best = tmp_path / read_sweep(path).entries[0].config.name / "123/record.json"
    before = dataclasses.replace(RunRecord.read(best), config_hash="0" * 8)  # trained before the file changed
    before.write(best)
    assert tables.main(["--sweep", str(path), "--records", str(tmp_path), "--best_of_grid"]) == 0
    said = capsys.readouterr().out
    assert "SGFormer, Cora: base_lr=0.1, the best of 2 on validation (accuracy 0.8000)." in said
    assert "other configuration" not in said


def test_an_applied_model_is_no_row_unless_it_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path, "gcn-cora", 0.70, 0.72)
    applied = dataclasses.replace(_record(123, 0.99), settings={"train.mode": "inference-only"})
    applied.write(tmp_path / "sgformer-cora/123/record.json")
    assert tables.main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "0.9900" not in said
    assert "sgformer-cora: applies a trained model (train.mode inference-only)." in said
    assert tables.main([str(tmp_path), "--models"]) == 0
    out, err = capsys.readouterr()
    assert "0.9900" not in out
    assert "sgformer-cora: applies a trained model" in err
    assert tables.main([str(tmp_path / "sgformer-cora")]) == 0
    assert "0.9900" in capsys.readouterr().out
    assert {each.name: bool(each.result.runs) for each in gather([tmp_path])} == {
        "gcn-cora": True,
        "sgformer-cora": False,
    }


def test_versions_of_a_plug_in_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for config, digest in (("gcn-cora", "aaaa"), ("sgformer-cora", "bbbb")):
        record = dataclasses.replace(_record(123, 0.5, config), inputs={"plug-in mine.py": digest * 8})
        record.write(tmp_path / config / "123/record.json")
    for words in ([str(tmp_path)], ["--sweep", str(_sweep(tmp_path, head="")), "--records", str(tmp_path)]):
        assert tables.main(words) == 0
        assert re.search("not the same plug-in mine.py: .*: (aaaaaaaa|bbbbbbbb); .*", capsys.readouterr().out)
    assert "not the same plug-in mine.py: gcn-cora: aaaaaaaa; sgformer-cora: bbbbbbbb" in page(
        gather([tmp_path]), title="", limit=9
    )


def test_runs_of_a_changed_configuration_are_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path, "sgformer-cora", 0.80, 0.84)
    sweep = _sweep(tmp_path, variant="optim.base_lr: 0.5")
    assert tables.main(["--sweep", str(sweep), "--records", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "note: runs of another configuration than the sweep's, not judged: SGFormer, Cora (" in printed.err
    status = next(line for line in printed.out.splitlines() if _cells(line)[1:2] == ["status"])
    assert _cells(status)[2] == "other configuration"
    assert "82.0 ± 2.8 (other configuration)" in printed.out
    assert "difference" not in printed.out.split("- published")[0]


def test_runs_of_an_edited_plug_in_are_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("SCALE = 1\n")
    config = load_config(CONFIGS / "sgformer-cora.yaml", {"plugins": "[mine.py]"})
    for seed, text in ((123, "SCALE = 0\n"), (124, "SCALE = 1\n")):
        inputs = code_inputs({"mine.py": text.encode()}, {})
        record = dataclasses.replace(_record(seed, 0.5), config_hash=config.hash, inputs=inputs)
        record.write(tmp_path / "sgformer-cora" / str(seed) / "record.json")
    words = ["--sweep", str(_sweep(tmp_path, variant="plugins: [mine.py]")), "--records", str(tmp_path)]
    assert tables.main(words) == 0
    printed = capsys.readouterr()
    assert "run 123 other plug-in mine.py" in printed.out
    assert "other code" not in printed.out
    assert "not judged" not in printed.err
    Path("mine.py").write_text("SCALE = 2\n")
    assert tables.main(words) == 0
    printed = capsys.readouterr()
    assert "note: made with another version of plug-in mine.py, not judged: SGFormer, Cora." in printed.err
    assert re.search(r"50\.0 \(1 of 2, other code.*\)", printed.out)
    assert "other code: made with another version of plug-in mine.py; neither ranked nor judged." in printed.out
    status = next(line for line in printed.out.splitlines() if _cells(line)[1:2] == ["status"])
    assert _cells(status)[2] == "other code"


@pytest.mark.parametrize(
    ("head", "variant", "options", "message"),
    [
        ("published: sgformer_tabel2", "", (), "mini.yaml:1: unknown published table 'sgformer_tabel2'. Did you mean "),
        ("", "", ("--baseline", "GNC"), "--baseline: unknown label of mini 'GNC'. Did you mean 'GCN'?"),
        ("", "", ("--rows", "measured,publishd"), "--rows: unknown kind of row 'publishd'. Did you mean 'published'?"),
        ("", "", ("--records", "nowhere"), "no finished run of mini: looked in nowhere/sgformer-cora, "),
        ("", "column: Actor", (), "the column 'Actor' mixes Cora ('SGFormer') and Actor ('GCN')"),
        ("published: sgformer_table5", "", (), "10 values of the published table sgformer_table5 fit 'SGFormer' on Co"),
        (
            "published: sgformer_table5",
            "published: train_ratio=55%",
            (),
            "mini.yaml:3: unknown part of the published table sgformer_table5 'train_ratio=55%'. Did you mean 'train_r",
        ),
    ],
)
def test_wrong_input_is_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], head: str, variant: str, options: tuple[str, ...], message: str
) -> None:
    _write(tmp_path, "sgformer-cora", 0.8)
    sweep = _sweep(tmp_path, head, variant)
    records = () if "--records" in options else ("--records", str(tmp_path))
    assert tables.main(["--sweep", str(sweep), *records, *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1


def test_a_folder_without_runs_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tables.main([str(tmp_path)]) == 2
    assert "no finished run (no record.json below it)" in capsys.readouterr().err


def test_what_cannot_be_shown_is_a_note_below_what_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path, "sgformer-cora", 0.8, 0.9)
    failed = _record(0, 0.5, "gcn-cora").end("failed", "epoch 0, batch 0: the training loss is nan")
    failed.write(tmp_path / "gcn-cora/0/record.json")
    _record(2, 0.5, "sgformer-cora").end("failed", "out of memory").write(tmp_path / "sgformer-cora/2/record.json")
    (tmp_path / "claims.yaml").write_text("claims: []\n")
    for folders in ([tmp_path], [tmp_path, *tmp_path.iterdir()]):
        assert tables.main(list(map(str, folders))) == 0
        out = capsys.readouterr().out
        assert sum(line.startswith("| sgformer-cora ") for line in out.splitlines()) == 1
        assert f"- not included, {tmp_path}/sgformer-cora: run 2 failed: out of memory." in out
        assert f"- not included, {tmp_path}/gcn-cora: no finished run (run 0 failed: epoch 0, batch 0: the tr" in out
    assert f"- not included, {tmp_path}/claims.yaml: no finished run (no record.json below it)." in out


def test_models_by_data_sets_from_folders_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path, "sgformer-cora", 0.8, 0.9)
    _write(tmp_path, "gcn-cora", 0.7, 0.72)
    actor = _record(0, 0.5, "gcn-actor")
    dataclasses.replace(actor, data=dataclasses.replace(actor.data, name="Actor")).write(
        tmp_path / "gcn-actor/0/record.json"
    )
    assert tables.main([str(tmp_path), "--models", "--baseline", "gcn"]) == 0
    rows = [_cells(line) for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert rows[0] == ["model", "", "Actor", "Cora"]
    assert [row[0] for row in rows[2:] if row[0]] == ["gcn", "sgformer"]
    assert rows[2][2:] == ["0.5000 (1 run)", "0.7100 ± 0.0141"]
    _write(tmp_path / "again", "gcn-cora", 0.6)
    assert tables.main([str(tmp_path), "--models"]) == 0
    rows = [_cells(line) for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows[2:]] == [f"{tmp_path}/again/gcn-cora", "gcn", f"{tmp_path}/gcn-cora", "sgformer"]


def test_another_folder_is_the_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of the same name before and after a change, side by side; a label that is also there comes first."""
    before, after = tmp_path / "before", tmp_path / "after"
    _write(after, "gcn-cora", 0.80, 0.84)
    _write(after, "sgformer-cora", 0.9, 0.91)
    _write(before, "gcn-cora", 0.70, 0.72)
    expected = ttest_ind([0.80, 0.84], [0.70, 0.72], equal_var=False).pvalue
    for given in ([after], [after, before]):
        command = [*map(str, given), "--models", "--baseline", f"{before}/"]
        assert tables.main(command) == 0
        rows = [_cells(line) for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
        assert [row[0] for row in rows[2:] if row[0]] == ["gcn", "sgformer", str(before)]
        assert rows[2][2:] == ["0.8200 ± 0.0283 (2nd)"]
        assert rows[3] == ["", f"against {before}", f"p = {expected:.3f}"]
        assert rows[-1][:3] == [str(before), "measured", "0.7100 ± 0.0141"]
    assert tables.main([str(after), str(before), "--models", "--baseline", f"{before}/gcn-cora"]) == 0
    assert f"against {before}/gcn-cora" in capsys.readouterr().out

    _write(before, "sgformer-cora", 0.9)
    (tmp_path / "empty").mkdir()
    for wrong, said in (
        (str(before), f"has several models of Cora, gcn-cora and sgformer-cora; name one, e.g. {before}/gcn-cora."),
        (str(tmp_path / "mini"), f"unknown label of runs '{tmp_path}/mini'"),
        (str(tmp_path / "empty"), f"--baseline {tmp_path}/empty: no finished run below it."),
    ):
        assert tables.main([str(after), "--models", "--baseline", wrong]) == 2
        assert said in capsys.readouterr().err


def test_tables_of_trials_say_what_they_are_not_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    warning = "- trials of a search: it chooses by validation; whoever chooses by the test column"
    for number, accuracy in ((6, 0.7), (7, 0.8)):
        config = f"gcn-cora-trial-00{number}"
        run = dataclasses.replace(_record(0, accuracy, "gcn-cora"), config=config)
        run.write(tmp_path / config / "0/record.json")
    for more in ([], ["--models"]):
        assert tables.main([str(tmp_path), *more]) == 0
        assert warning in capsys.readouterr().out
    _write(tmp_path / "other", "gcn-cora", 0.6)
    assert tables.main([str(tmp_path / "other")]) == 0
    assert warning not in capsys.readouterr().out


def test_own_runs_are_not_buried_under_packed_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured = tmp_path / "measured"
    measured.mkdir()
    shutil.copy(MEASURED / "records/sgformer-table9.jsonl", measured)
    assert tables.main([str(tmp_path)]) == 0
    packed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    _write(tmp_path, "mlp-cora", 0.8)
    assert tables.main([str(tmp_path)]) == 0
    printed = capsys.readouterr()
    own = [line for line in printed.out.splitlines() if line.startswith("| ")]
    assert (len(packed) > 5, len(own)) == (True, 3)
    assert printed.err == f"note: packed records beside own runs are left out; to have them, name {measured}\n"
    assert tables.main([str(tmp_path), str(measured)]) == 0
    both = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(both) == len(packed) + 1
    _write(measured, "gat-cora", 0.7)  # the folder alone would leave them out again
    assert tables.main([str(measured)]) == 0
    name = measured / "sgformer-table9.jsonl"
    assert capsys.readouterr().err == f"note: packed records beside own runs are left out; to have them, name {name}\n"
    assert tables.main([str(measured), str(name)]) == 0


@pytest.mark.parametrize(
    "arguments",
    [(), ("a", "--sweep", "b"), ("a", "--details"), ("a", "--records", "b"), ("a", "--percent")],
)
def test_the_two_forms_do_not_mix(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        tables.main(arguments)
    assert stopped.value.code == 2
    assert "--sweep FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rows", "measured,baseline"), "--rows baseline needs --baseline LABEL"),
        (("--rows", "published", "--format", "csv"), "are not for csv"),
        (("--max_columns", "0"), "--max_columns must be at least 1, got 0"),
    ],
)
def test_what_is_shown_must_be_there(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        tables.main(["a", "--models", *options])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_runs_without_a_sweep_as_csv_and_files_of_unknown_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(tmp_path, "mlp-cora", 0.8)
    out = tmp_path / "all.csv"
    assert tables.main([str(tmp_path), "--out", str(out)]) == 0
    [line] = csv.DictReader(out.read_text().splitlines())
    assert (line["configuration"], line["dataset"], float(line["mean"]), line["n"]) == ("mlp-cora", "Cora", 0.8, "1")
    assert tables.main([str(tmp_path), "--out", str(tmp_path / "all.xlsx")]) == 2
    assert "unknown ending of --out (or give --format) '.xlsx'." in capsys.readouterr().err


def _commands() -> dict[str, list[str]]:
    """File -> arguments of the command that writes it, from the README beside it."""
    text = (MEASURED / "README.md").read_text().replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in re.findall(r"^python scripts/tables\.py (.*)$", text, re.MULTILINE):
        arguments = shlex.split(line, comments=True)
        place = arguments.index("--out")
        out = arguments[place + 1]
        assert out not in found, f"two commands write {out}"
        found[out] = arguments[:place] + arguments[place + 2 :]
    return found


COMMANDS = _commands()


def test_every_measured_table_has_a_command_and_every_record_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    written = {path for path in MEASURED.iterdir() if path.is_file() and path.name != "README.md"}
    assert {ROOT / path for path in COMMANDS} == written
    monkeypatch.chdir(ROOT)
    listed: list[Path] = []
    of_sweeps: set[Path] = set()  # sweeps may share an entry, as Tables 2 and 8 of SGFormer do
    for arguments in COMMANDS.values():
        options = tables.parse(arguments)
        listed += configurations(options.folders)
        if options.sweep is not None:
            cells = cell_specs(shipped_sweep(options.sweep.stem), options.records)
            of_sweeps |= {cell.records for cell in cells if record_source(cell.records).run_ids()}
    recorded = {source.path for source in record_sources(Path("results/measured/records"))}
    assert sorted([*listed, *of_sweeps]) == sorted(recorded)


@pytest.mark.slow
@pytest.mark.parametrize("path", COMMANDS)
def test_the_measured_tables_are_what_the_records_say(
    path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    out = tmp_path / "table"
    assert tables.main([*COMMANDS[path], "--out", str(out)]) == 0
    assert out.read_text() == (ROOT / path).read_text()
