"""The benchmarks' command line; what they measure is no test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from graphbench.benchmarks import (
    batching,
    distance,
    encodings,
    epochs,
    geco,
    gps_step,
    gradformer_figure7,
    large_graph,
    loop,
    measuring,
    out_of_core,
    page,
    peers,
    records,
    sfi_step,
    sgformer,
    sgformer_table4,
    sparse_flow,
    start_up,
    tables,
)
from graphbench.benchmarks import cli as bench
from graphbench.benchmarks.case import Case
from graphbench.errors import UserError
from tests.second_device import DEVICE, second_device

MODULES = (
    batching,
    distance,
    encodings,
    epochs,
    geco,
    gps_step,
    gradformer_figure7,
    large_graph,
    loop,
    out_of_core,
    peers,
    records,
    sfi_step,
    sgformer,
    sgformer_table4,
    sparse_flow,
    start_up,
    tables,
)


def test_every_benchmark_is_a_module() -> None:
    names = sorted(module.__name__.rpartition(".")[2] for module in MODULES)
    assert names == sorted([*bench.BENCHMARKS, *bench.HOST_BENCHMARKS])
    assert all(callable(module.run) for module in MODULES)


def test_help_says_what_each_benchmark_measures(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--help"])
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    for module in MODULES:
        assert module.__doc__ is not None
        purpose = module.__doc__.partition("\n")[0]
        assert [module.__name__.rpartition(".")[2], purpose] in lines


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert bench.main(arguments) == 2
    printed = capsys.readouterr()
    assert not printed.out
    return printed.err


@pytest.mark.parametrize("name", bench.HOST_BENCHMARKS)
def test_a_benchmark_of_the_host_refuses_a_gpu(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    message = refusal(capsys, name, "--device", "cuda")
    assert message.startswith(f"error: --device cuda: '{name}' measures the host alone.")
    assert all(name in message for name in bench.BENCHMARKS)


@pytest.mark.parametrize("name", bench.STORED)
def test_pages_are_written_in_a_checkout_alone(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.shipped, "is_checkout", lambda: False)
    assert f"bench {name} writes its numbers into docs/ of a checkout" in refusal(capsys, name)


def test_a_gpu_that_is_not_there_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert refusal(capsys, "geco", "--device", "cuda") == (
        "error: --device cuda: PyTorch sees no CUDA device here. Allowed: cpu.\n"
    )


@pytest.mark.parametrize(("option", "device"), [((), "cpu"), (("--device", "cuda"), "cuda:0")])
def test_a_benchmark_is_told_its_device(
    option: tuple[str, ...], device: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []

    def run(where: torch.device) -> list[Case]:
        told.append(where)
        return [Case("something", "else", [1.0, 2.0], [2.0, 4.0], target=1.0)]

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(geco, "run", run)
    assert bench.main(["geco", *option]) == 0
    assert told == [torch.device(device)]
    assert "something: ours 1500.000 ms, else 3000.000 ms, ratio 2.000 (target 1.000, met" in capsys.readouterr().out


def test_a_step_of_another_device_has_run_before_its_peak_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def one_step(side: str, device: torch.device) -> object:
        return lambda: done.append(f"{side} on {device.type}")

    monkeypatch.setattr(measuring, "held", lambda device: 1.0)
    monkeypatch.setattr(measuring, "peak_memory", lambda device: 3 * 2**20)
    with second_device():
        assert measuring.peaks(one_step, ("ours", "peer"), 3, DEVICE) == ([2.0], [2.0])
    assert done == [f"{side} on {DEVICE.type}" for side in ("ours", "ours", "peer", "peer")]


def test_a_path_that_is_no_copy_of_the_peer_is_refused(tmp_path: Path) -> None:
    for name, file in (("ZINC", "gps_model.py"), ("Cora", "ours.py")):
        with pytest.raises(UserError, match=f"there is no .*{file}: give the root of a checked-out copy"):
            peers.CASES[name].build(tmp_path, None)  # type: ignore[arg-type]


@pytest.fixture
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"seconds": [0.01, 0.02, 0.03], "mib": 100.0, "parameters": 9}
    monkeypatch.setattr(peers, "in_own_process", lambda module, *arguments, message: found)


@pytest.mark.usefixtures("nothing_measured")
def test_stored_figures_of_peers_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers.shutil, "which", lambda name: name)
    cases = peers.run({"graphgps": None, "sgformer": Path("somewhere")})
    assert len(cases) == 2 * len(peers.CASES) - 1  # no memory was read of ZINC's
    by_name = {case.name.split(", training")[0].split(", epoch")[0]: case for case in cases if case.unit == "s"}
    assert by_name["ZINC"].peer_name == f"graphgps ({peers.STORED})"
    assert by_name["ZINC"].peer == [peers.CASES["ZINC"].seconds]
    assert by_name["Cora"].peer_name == "sgformer"
    assert by_name["Cora"].ours == [0.02]
    assert "threads, 9 parameters" in by_name["Cora"].name
    assert by_name["ZINC, GPS of PyG"].peer == [0.02]  # needs no path


@pytest.mark.usefixtures("nothing_measured")
def test_one_comparison_is_chosen_and_compiled_ones_need_a_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["peers", "--only", "Cora, SGFormer of PyG"]) == 0
    assert capsys.readouterr().out.count("Cora, SGFormer of PyG") == 2 + 2  # time and memory, printed and as JSON
    monkeypatch.setattr(peers.shutil, "which", lambda name: None)
    assert bench.main(["peers", "--only", "ZINC, GPS of PyG, compiled"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["cases"] == []
    assert printed.err == "peers: ZINC, GPS of PyG, compiled is left out: there is no C++ compiler\n"
    assert "Allowed: " in refusal(capsys, "peers", "--only", "Corra")


def test_the_page_keeps_what_is_written_by_hand_and_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("PAGE", "performance.md"), ("PLOTS", "plots"), ("NUMBERS", "performance.json")):
        monkeypatch.setattr(page, name, tmp_path / value)
    page.PAGE.write_text(f"# Performance\n\nBy hand.\n\n{page.HEADING}\nolder\n")
    measured, last = [], "peers"

    def measure(name: str, options: object) -> list[Case]:
        if name == last:
            raise UserError("interrupted")
        measured.append(name)
        return [Case("Cora", "PyG", [0.1], [0.4], target=3.0)]

    monkeypatch.setattr(bench, "_measure", measure)
    assert bench.main(["page"]) == 2
    assert "| Cora | 100.0 ms |" in page.PAGE.read_text()
    last = ""
    assert bench.main(["page"]) == 0
    assert measured == [*page.GROUPS]
    assert "peers is measured" in capsys.readouterr().err
    assert bench.main(["page", "--groups", "loop"]) == 0
    assert measured == [*page.GROUPS, "loop"]
    capsys.readouterr()
    assert "Allowed: " in refusal(capsys, "page", "--groups", "lop")
    text = page.PAGE.read_text()
    assert text.startswith("# Performance\n\nBy hand.\n")
    assert "older" not in text
    assert text.count("| Cora | 100.0 ms | 400.0 ms | PyG | 4.00 | 3.00 | met |") == len(page.GROUPS)
    for group in page.GROUPS:
        assert f"performance/{group}.svg" in text
        assert "peer / ours" in (page.PLOTS / f"{group}.svg").read_text()
    assert json.loads(page.NUMBERS.read_text())["loop"]["cases"][0]["ratio"] == pytest.approx(4.0)
