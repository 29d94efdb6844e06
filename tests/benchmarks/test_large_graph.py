"""The benchmark of one large graph, small."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from graphbench.benchmarks import large_graph
from graphbench.benchmarks.large_graph_epoch import MODELS, measure, sampling_rates
from graphbench.data.large.generator import power_law
from graphbench.errors import RunFailed


@pytest.mark.parametrize("model", MODELS)
def test_it_generates_trains_and_evaluates(model: str, tmp_path: Path) -> None:
    measured = measure(model, 400, 3000, tmp_path)
    assert all(0 <= measured[f"{split}_accuracy"] <= 1 for split in ("train", "val", "test"))
    assert measured["peak_mib"] >= measured["anonymous_mib"] > 0
    assert measured["batches"] >= 1


def test_the_rate_of_the_sampler(tmp_path: Path) -> None:
    assert sampling_rates(power_law(tmp_path, 400, 3000, 0))["sampled_edges_per_s"] > 0


def test_what_is_measured_stays_and_the_page_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def measured(command: list[str], **_: object) -> SimpleNamespace:
        """A process that takes 3 nanoseconds per node; the fourth is ended."""
        model, nodes, edges, folder = command[-4:]
        begun.append(f"{model}-{nodes}")
        if len(begun) == 4:
            raise KeyboardInterrupt
        Path(folder, f"graph-{nodes}-{edges}").mkdir(exist_ok=True)
        found = {"train_and_evaluate_cpu_s": 3e-9 * int(nodes), "peak_mib": 9000, "anonymous_mib": 100}
        line = json.dumps({**found, "test_accuracy": 0.5})
        return SimpleNamespace(stdout=f"a line\n{line}", returncode=0, check_returncode=lambda: None)

    monkeypatch.setattr(large_graph.subprocess, "run", measured)
    for name, file in {"PAGE": "page.md", "NUMBERS": "numbers.json"}.items():
        monkeypatch.setattr(large_graph, name, tmp_path / file)
    large_graph.PAGE.write_text("# By hand\n\n## Measured\n\nby others\n")
    with pytest.raises(KeyboardInterrupt):
        large_graph.run(tmp_path)
    assert not list(tmp_path.glob("graph-1000000-*")), "no model waits for it"
    cases = large_graph.run(tmp_path)
    assert begun == [f"{model}-1000000" for model in MODELS] + ["SGFormer-10000000"] + [
        *(f"{model}-10000000" for model in MODELS),
        "GraphSAGE-100000000",
    ]
    assert [case.ours for case in cases] == [[9000.0]] * 6 + [[100.0]] + [[pytest.approx(1.0)]] * 3
    page = large_graph.PAGE.read_text()
    assert page.startswith("# By hand\n\n## Epochs on generated graphs\n")
    assert page.endswith("\n\n## Measured\n\nby others\n")
    assert page.count("| GraphSAGE | ") == 3
    assert page.count("| 1.00 | 9,000 MiB | 100 MiB | 0.500 |") == 3
    large_graph.run(tmp_path)
    assert large_graph.PAGE.read_text() == page


@contextmanager
def prefix_of(size: int) -> Iterator[list[str]]:
    yield ["under", str(size)]


def test_a_measurement_under_a_limit_stands_beside_the_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def measured(command: list[str], **_: object) -> SimpleNamespace:
        commands.append(command)
        if "GECO" in command:
            return SimpleNamespace(returncode=-signal.SIGKILL)
        found = {"train_and_evaluate_cpu_s": 30.0, "train_and_evaluate_s": 70.0, "test_accuracy": 0.5}
        line = json.dumps({**found, "peak_mib": 6000 if command[0] == "under" else 9000, "anonymous_mib": 100})
        return SimpleNamespace(stdout=line, returncode=0, check_returncode=lambda: None)

    monkeypatch.setattr(large_graph.subprocess, "run", measured)
    monkeypatch.setattr(large_graph.memory_limit, "limited", prefix_of)
    for name, file in {"PAGE": "page.md", "NUMBERS": "numbers.json"}.items():
        monkeypatch.setattr(large_graph, name, tmp_path / file)
    large_graph.PAGE.write_text("## Measured\n")
    largest = ["GraphSAGE-100000000"]
    assert [case.ours for case in large_graph.run(tmp_path, largest)] == [[100.0]]
    free, limited = large_graph.run(tmp_path, largest, limit=6)
    assert (free.ours, limited.ours) == ([100.0], [6000.0])
    assert limited.name.endswith(", under a limit of 6 GiB")
    assert commands[1] == ["under", str(6 * 2**30), *commands[0]]
    assert large_graph.PAGE.read_text().count("| GraphSAGE | 100,000,000 | 400,000,000 | ") == 2
    assert "| 6 GiB | 30 | 70 |  | 6,000 MiB | 100 MiB | 0.500 |" in large_graph.PAGE.read_text()
    with pytest.raises(RunFailed, match=r"GECO with 1,000,000 nodes was killed under a limit of 5\.5 GiB"):
        large_graph.run(tmp_path, ["GECO-1000000"], limit=5.5)
