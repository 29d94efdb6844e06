"""``scripts/reproduce.sh``: the sweeps of a paper, their tables, and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench.commands import reproduce
from graphbench.sweeps import cli as sweeps
from graphbench.sweeps import read_sweep
from graphbench.tables import cli as tables


@pytest.mark.parametrize("paper", reproduce.PAPERS)
def test_every_paper_has_sweeps_and_a_quick_one(paper: str) -> None:
    assert reproduce.sweeps_of(paper)
    assert not [path for path in reproduce.sweeps_of(paper) if "search" in path.name]
    assert [path.name for path in reproduce.sweeps_of(paper, quick=True)] == [f"quick-{paper}.yaml"]
    assert all(path.is_file() for path in reproduce.sweeps_of(paper, quick=True))


@pytest.mark.parametrize("paper", reproduce.PAPERS)
def test_a_quick_version_is_not_judged_by_what_the_paper_prints(paper: str) -> None:
    (path,) = reproduce.sweeps_of(paper, quick=True)
    sweep = read_sweep(path)
    assert sweep.reduced == (sweep.published is not None)


def test_a_dry_run_trains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reproduce.main(["sgformer", "--quick", "--dry_run"]) == 0
    assert "quick-sgformer: " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("codes", "tables_written", "result"),
    [((0, 0), 2, 0), ((sweeps.FAILED, 0), 2, sweeps.FAILED), ((2, 0), 0, 2), ((0, 130), 1, 130)],
)
def test_the_exit_code_is_the_worst_and_failed_runs_do_not_stop_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, ...], tables_written: int, result: int
) -> None:
    written = []
    left = list(codes)

    def write_table(arguments: list[str]) -> int:
        written.append(Path(arguments[-1]))
        written[-1].parent.mkdir(parents=True, exist_ok=True)
        written[-1].write_text("a table")
        return 0

    monkeypatch.setattr(sweeps, "main", lambda arguments: left.pop(0))
    monkeypatch.setattr(tables, "main", write_table)
    monkeypatch.setattr(reproduce, "sweeps_of", lambda paper, quick: [Path("a.yaml"), Path("b.yaml")])
    assert reproduce.main(["geco", "--out_dir", str(tmp_path)]) == result
    assert written == [tmp_path / "tables/a.md", tmp_path / "tables/b.md"][:tables_written]
