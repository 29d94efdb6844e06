"""The published tables: every file is read, and what follows from the numbers alone holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from graphbench import registry
from graphbench.config import load_config
from graphbench.errors import UserError
from graphbench.factory.data import dataset_builder
from graphbench.published.scales import METRICS, OUR_DATASETS
from graphbench.published.table import COLUMNS, FOLDER, PublishedRow, names, read_published
from tests.paths import ROOT

TABLES = {name: read_published(name) for name in names()}
LINE = "SGFormer,2,GCN,Cora,split=x,accuracy_percent,higher,81.6,0.4,5,,"


def _row(table: str, model: str, dataset: str, part: str = "", metric: str = "") -> PublishedRow:
    [found] = [
        row
        for row in TABLES[table].rows
        if (row.model, row.dataset) == (model, dataset) and part in row.setting and metric in row.metric
    ]
    return found


def _written(folder: Path, *lines: str, header: str = ",".join(COLUMNS)) -> Path:
    (folder / "one.csv").write_text("\n".join([header, *lines]) + "\n")
    return folder


def test_all_tables_of_the_five_papers_are_there() -> None:
    found = {(table.rows[0].paper, int(table.rows[0].table)) for table in TABLES.values()}
    numbers = {
        "SFi-Former": (1, 2, 3),
        "SGFormer": range(2, 10),
        "GECO": (*range(1, 7), *range(10, 15)),
        "Gradformer": range(1, 5),
        "FFGT": range(1, 5),
    }
    assert found == {(paper, number) for paper, members in numbers.items() for number in members}
    assert len(TABLES) == len(found)
    lines = sum(len(table.rows) for table in TABLES.values())
    readme = (FOLDER / "README.md").read_text()
    assert f"{len(TABLES)} files, {lines:,}\nlines" in readme
    assert set(METRICS) == {row.metric for table in TABLES.values() for row in table.rows}


def test_numbers_lie_on_the_scale_that_their_metric_says() -> None:
    impossible = []
    for table in TABLES.values():
        for row in table.rows:
            if row.mean and row.scale.bounded and row.scale.comparable:
                top = row.scale.factor
                assert 0.01 * top < float(row.mean) <= top, row
                if row.std and float(row.std) > 0.15 * top:
                    impossible.append((table.name, row.model, row.dataset))
    assert impossible == [("geco_table12", "SAN", "ogbg-molhiv"), ("geco_table2", "SAN", "ogbg-molhiv")]
    assert "0.2470 of SAN" in (FOLDER / "README.md").read_text()


def test_every_model_has_a_line_for_every_column_of_its_table() -> None:
    """Empty cells are lines, too; the runtime tables and those of variants have columns of their own."""
    for name, table in TABLES.items():
        columns = dict.fromkeys((row.dataset, row.metric) for row in table.rows if not row.setting.startswith("metric"))
        for model in table.models:
            lines = [row for row in table.rows if row.model == model and not row.setting.startswith("metric")]
            if name not in ("geco_table10", "ffgt_table3"):
                assert {(row.dataset, row.metric) for row in lines} == set(columns), (name, model)


def test_differences_and_quotients_follow_from_their_rows() -> None:
    for dataset in ("Cora", "CiteSeer", "Chameleon"):
        gain = _row("ffgt_table3", "GRPE-FFGT minus GRPE", dataset)
        ours, theirs = (_row("ffgt_table3", model, dataset) for model in ("GRPE-FFGT", "GRPE"))
        assert float(gain.mean) == pytest.approx(float(ours.mean) - float(theirs.mean), abs=1e-9)
    speedups = [row for row in TABLES["geco_table10"].rows if row.metric.startswith("speedup")]
    assert len(speedups) == 13
    for row in speedups:
        size = row.setting.split(";")[0] + ";"
        ours = _row("geco_table10", "GECO", row.dataset, size, "runtime_ms")
        theirs = _row("geco_table10", "FlashAttention", row.dataset, size, "runtime_ms")
        assert float(row.mean) == pytest.approx(float(theirs.mean) / float(ours.mean), rel=0.02, abs=0.006)


def test_short_tables_agree_with_the_full_ones() -> None:
    for row in TABLES["geco_table2"].rows:
        assert row.printed == _row("geco_table12", row.model, row.dataset).printed
    half = _row("sgformer_table5", "SGFormer", "Cora", "train_ratio=50%").printed
    assert half == _row("sgformer_table8", "SGFormer", "Cora", "default").printed
    assert half == _row("sgformer_table9", "SGFormer", "Cora", "alpha=0.8").printed


def test_metrics_and_data_sets_are_ours() -> None:
    for name, scale in METRICS.items():
        for ours in scale.names:
            assert registry.lookup("tasks/metrics", ours).maximize is scale.maximize, name
        assert scale.factor == (100 if "percent" in name else 1)
    configs = {
        "Chameleon_filtered": "nodes/sgformer-chameleon",
        "Squirrel_filtered": "nodes/sgformer-squirrel",
        "ogbn-products": "large/sgformer-amazon2m",
        "PCQM4Mv2-full": "ogb/gps-pcqm4m-medium",
    }
    assert set(configs) == set(OUR_DATASETS.values())
    for name, path in configs.items():
        assert dataset_builder(load_config(ROOT / "configs" / f"{path}.yaml")).card.name == name
    for paper, dataset in OUR_DATASETS:
        assert any((row.paper, row.dataset) == (paper, dataset) for table in TABLES.values() for row in table.rows)


def test_one_number_is_found() -> None:
    table = TABLES["sgformer_table2"]
    assert table.title == "SGFormer, Table 2"
    assert table.find("SGFormer", "Cora").printed == "84.5 ± 0.8"
    assert table.find("SGFormer", "Deezer-Europe").printed == "67.1 ± 1.1"  # case
    assert table.find("GCN", "Chameleon_filtered").printed == "41.3 ± 3.0"  # never the unfiltered graph
    assert table.find("GCN", "Chameleon") is None
    assert TABLES["ffgt_table3"].find("SAN", "Chameleon_filtered") is None
    assert table.find("MLP", "Cora") is None
    assert table.find("Graphormer_SMALL", "Cora").printed == "OOM"
    ratios = TABLES["sgformer_table5"]
    assert ratios.find("GCN", "Cora", "split=random; train_ratio=5%").settings["train_ratio"] == "5%"
    assert TABLES["sgformer_table8"].find("a softmax", "Cora", "attention=Softmax").setting == "attention=Softmax"
    assert TABLES["gradformer_table4"].find("x", "NCI1", "model=GraphGPS;ablation=full").printed == "84.2"
    # The value of the table, not that of its footnote; of PCQM4Mv2 the public validation set.
    assert TABLES["gradformer_table1"].find("Gradformer", "PATTERN").printed == "86.89 ± 0.07"
    assert TABLES["geco_table11"].find("GECO", "PCQM4Mv2-full").metric == "valid_mae"
    assert TABLES["sgformer_table4"].find("SGFormer", "Cora") is None  # seconds are no score


@pytest.mark.parametrize(
    ("label", "which", "message"),
    [
        ("GCN", None, r"10 values of the published table sgformer_table5 fit 'GCN' on Cora\. Say which one by"),
        ("no such model", "train_ratio=5%", "14 values"),
        ("GCN", "train_ratio=51%", r"unknown part of the published table .*Did you mean 'train_ratio=5"),
    ],
)
def test_what_is_not_one_number_is_refused(label: str, which: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        TABLES["sgformer_table5"].find(label, "Cora", which, "sweep.yaml:3")
    assert str(caught.value).startswith("sweep.yaml:3: ")


def test_digits_stay_as_printed(tmp_path: Path) -> None:
    line = LINE.replace("81.6,0.4", "81.60,0.40")
    [row] = read_published("one", _written(tmp_path, line)).rows
    assert (row.printed, row.digits, row.n_runs) == ("81.60 ± 0.40", 2, 5)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((LINE.replace("higher", "lower"),), "one.csv:2: direction of accuracy_percent is higher, received 'lower'"),
        ((LINE.replace("percent", "percnt"),), "one.csv:2: unknown published metric .* 'accuracy_percent'"),
        ((LINE.replace("81.6", "81,6"),), "one.csv:2: 12 columns, received 13"),
        ((LINE.replace("81.6", "n/a"),), "one.csv:2: mean is a number or empty, received 'n/a'"),
        ((LINE.replace("81.6", ""),), "one.csv:2: std is a number or empty, empty without a mean, received '0.4'"),
        ((LINE.replace("81.6,0.4", ","),), "one.csv:2: note is not empty without a mean"),
        ((LINE.replace(",5,", ",five,"),), "one.csv:2: n_runs is a count or empty"),
        ((LINE.replace("split=x", "split"),), "one.csv:2: split_or_setting is key=value;key=value or empty"),
        ((LINE, LINE), "one.csv:3: a second value for GCN, Cora, split=x, accuracy_percent"),
        ((LINE, LINE.replace(",2,GCN", ",3,GAT")), "holds exactly one table"),
        ((), "holds exactly one table"),
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_published("one", _written(tmp_path, *lines))


def test_other_columns_and_other_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"one.csv:1: columns are paper,table,.*received paper,model"):
        read_published("one", _written(tmp_path, header="paper,model"))
    with pytest.raises(UserError, match=r"x.yaml: unknown published table 'sgformer_tabel2'. Did you mean 'sgformer_t"):
        read_published("sgformer_tabel2", where="x.yaml")


def test_the_readme_names_every_metric() -> None:
    text = (FOLDER / "README.md").read_text()
    scored = [name for name, scale in METRICS.items() if scale.comparable or name in ("train_mae", "test_dev_mae")]
    assert set(scored) <= set(re.findall(r"`(\w+)`", text))
