"""The table of several configurations, from records written by hand."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from graphbench.runs.aggregate import Aggregate, aggregate
from graphbench.runs.data_facts import DataFacts
from graphbench.runs.identity import RunIdentity
from graphbench.runs.record import RunRecord, Score
from graphbench.runs.summary import MAX_NOTE, Compared, _shortened, comparison_tables, without_value


def runs(folder: Path, *values: float, status: str = "finished", zero_flow: float | None = None, **data) -> Aggregate:
    """Runs 0, 1, ... with these test accuracies, and everything that is in the folder together."""
    sizes = {"train": 1400, "val": 500, "test": 1000}
    facts = DataFacts.of({"name": "Cora", "split_mode": "standard", "sizes": sizes, **data})
    done = len(list(folder.glob("*/record.json")))
    for number, value in enumerate(values, done):
        scores = [Score("test", "loss", 1.0, False, 10), Score("val", "accuracy", value + 0.01, True, 10)]
        scores.append(Score("test", "accuracy", value, True, 10))
        if zero_flow is not None:
            scores += [Score("val", "zero_flow", 0.0, False, 10), Score("test", "zero_flow", zero_flow, False, 10)]
        record = RunRecord.start(
            config=folder.name,
            config_hash="h",
            seed=number,
            run_id=str(number),
            metric="accuracy",
            data=facts,
        )
        record = record.end(status, "too hot", scores=tuple(scores), params=12345, time_per_epoch=0.25 * (1 + number))
        record.write(folder / str(number) / "record.json")
    return aggregate(folder, identity=RunIdentity("h"))


def printed(*compared: Compared) -> list[tuple[str, list[list[str]], str]]:
    """Title, rows of cells (the heading first; a row has two lines) and what stands below, of every table."""
    found = []
    for table in comparison_tables(compared):
        console = Console(width=200, record=True, file=open("/dev/null", "w"))
        with console.file:
            console.print(table)
        lines = console.export_text().splitlines()
        top = next(number for number, line in enumerate(lines) if line.startswith("┏"))
        rows = [line.replace("┃", "│") for line in lines[top:] if line[0] in "┃│"]
        below = [line.strip() for line in lines[top:] if line[0] not in "┏┃┡│└"]
        cells = [[cell.strip() for cell in row.split("│")[1:-1]] for row in rows]
        pairs = zip(cells[1::2], cells[2::2], strict=True)
        cells[1:] = [[f"{a} {b}".strip() for a, b in zip(*pair, strict=True)] for pair in pairs]
        found.append((" ".join(line.strip() for line in lines[:top]), cells, " ".join(below)))
    return found


def test_metrics_without_value_are_told_by_reason_and_splits() -> None:
    undefined = {"train": {"r2": "few", "mcc": "one"}, "val": {"r2": "few", "mcc": "one", "auc": "one"}, "test": {}}
    assert without_value(undefined) == [
        "no value for r2 (train, val): few",
        "no value for mcc (train, val): one",
        "no value for auc (val): one",
    ]
    assert not without_value({})


def test_a_row_per_configuration_in_the_order_given(tmp_path: Path) -> None:
    twice, once = runs(tmp_path / "b", 0.8, 0.9), runs(tmp_path / "a", 0.7)
    [(title, cells, below)] = printed(Compared("Cora", "GCN+SFi", twice), Compared("Cora", "GCN+DFi", once))
    assert title == "Cora (standard 1,400/500/1,000): accuracy at the best validation epoch"
    assert cells == [
        ["configuration", "test", "val", "params", "s/epoch", "runs"],
        ["b GCN+SFi", "0.8500 ± 0.0707", "0.8600 ± 0.0707", "12,345", "0.38", "2"],
        ["a GCN+DFi", "0.7000", "0.7100", "12,345", "0.25", "1"],
    ]
    assert below == ""


def test_the_share_of_zero_flows_has_a_column_where_somebody_reports_it(tmp_path: Path) -> None:
    sparse, dense = runs(tmp_path / "sfi", 0.8, 0.8, zero_flow=0.125), runs(tmp_path / "dfi", 0.8)
    [(_, cells, _)] = printed(Compared("Cora", "GCN+SFi", sparse), Compared("Cora", "GCN+DFi", dense))
    assert [row[3] for row in cells] == ["zero flow", "12.5%", "-"]
    [(_, cells, _)] = printed(Compared("Cora", "GCN+DFi", dense))
    assert cells[0] == ["configuration", "test", "val", "params", "s/epoch"], "nor does one run each need a column"


def test_numbers_that_cannot_be_compared_stand_in_different_tables(tmp_path: Path) -> None:
    rows = [
        Compared("Cora", "GCN+SFi", runs(tmp_path / "cora", 0.8)),
        Compared("CiteSeer", "GCN", runs(tmp_path / "citeseer", 0.7, name="CiteSeer")),
        Compared("Cora", "GCN+SFi", runs(tmp_path / "random", 0.9, split_mode="random")),
        Compared("Cora", "GCN+SFi", runs(tmp_path / "other", 0.6)),
    ]
    tables = printed(*rows)
    assert [title.split(":")[0] for title, _, _ in tables] == [
        "Cora (standard 1,400/500/1,000)",
        "CiteSeer (standard 1,400/500/1,000)",
        "Cora (random 1,400/500/1,000)",
    ]
    assert [[row[0] for row in cells[1:]] for _, cells, _ in tables] == [
        ["cora GCN+SFi", "other GCN+SFi"],
        ["citeseer GCN"],
        ["random GCN+SFi"],
    ]


def test_other_contents_under_the_same_name_are_noted(tmp_path: Path) -> None:
    """Rows stay together: preparing features in another way is part of a method. A generator's settings are not."""
    rows = [runs(tmp_path / name, 0.8, fingerprint=content * 8) for name, content in (("a", "01"), ("b", "01"))]
    [(_, cells, below)] = printed(*(Compared("Cora", "GCN", result) for result in rows))
    assert (len(cells), below) == (3, "")
    rows.append(runs(tmp_path / "c", 0.8, fingerprint="ab" * 8))
    [(_, cells, below)] = printed(*(Compared("Cora", "GCN", result) for result in rows))
    assert (len(cells), below) == (4, "not the same data: a 01010101, b 01010101, c abababab")


def test_a_failure_has_a_row_and_its_reason_below(tmp_path: Path) -> None:
    runs(tmp_path / "half", 0.8)
    rows = [
        Compared("Cora", "GCN+SFi", runs(tmp_path / "none", 0.5, status="failed"), "loss is [nan]"),
        Compared("Cora", "GCN+SFi", runs(tmp_path / "half", 0.9, status="failed"), "out of memory"),
        Compared("Cora", "GCN+SFi", runs(tmp_path / "fine", 0.7)),
        Compared("PubMed", "GCN", aggregate(tmp_path / "absent", only=[0]), "no data"),
    ]
    (title, cells, below), (alone, lonely, reason) = printed(*rows)
    assert title.startswith("Cora (standard")
    assert cells[1:] == [
        ["none GCN+SFi", "failed", "-", "-", "-", "0 of 1"],
        ["half GCN+SFi", "0.8000", "0.8100", "12,345", "0.25", "1 of 2"],
        ["fine GCN+SFi", "0.7000", "0.7100", "12,345", "0.25", "1"],
    ]
    assert below == "none: loss is [nan] half: out of memory"
    assert (alone, lonely[1], reason) == (
        "PubMed",
        ["absent GCN", "failed", "-", "-", "-", "0 of 1"],
        "absent: no data",
    )


def test_a_long_failure_is_shortened_below_the_table() -> None:
    text = "the raw files are missing. " * 20
    short = _shortened(text)
    assert len(short) <= MAX_NOTE
    assert short.endswith(" [...]")
    assert text.startswith(short.removesuffix(" [...]"))
    assert _shortened("out of memory") == "out of memory"
