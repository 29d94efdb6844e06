"""Start-up imports only what a command uses: each of these packages costs tenths of a second to seconds."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from tests.paths import ROOT

SLOW = {"torch_geometric", "matplotlib", "pandas", "sklearn", "rich", "ogb"}
COMPILER = {"torch._dynamo", "torch._inductor", "triton"}
if tuple(int(part) for part in version("torch").split(".")[:2]) >= (2, 11):
    COMPILER |= {"sympy"}  # which the meta device of earlier ones imports
LIGHTNING = {"lightning_fabric", "torchmetrics"}
QUICK = ("optim.max_epoch", "1", "optim.num_warmup_epochs", "0", "dataset.SBM.train_graphs", "4")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "left_out"),
    [
        (("--help",), SLOW | COMPILER | LIGHTNING | {"torch", "numpy", "yaml"}),
        (("--cfg", "configs/quickstart.yaml", "--dry_run"), SLOW | COMPILER | LIGHTNING),
        (("--cfg", "configs/quickstart.yaml", *QUICK, "out_dir", "{folder}"), SLOW - {"rich"} | COMPILER | LIGHTNING),
    ],
    ids=["help", "dry run", "training"],
)
def test_what_is_not_used_is_not_imported(command: tuple[str, ...], left_out: set[str], tmp_path) -> None:
    program = (
        "import sys, atexit; from graphbench.commands.train import main\n"
        "atexit.register(lambda: print('imported', *sys.modules, file=sys.stderr))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    arguments = [argument.format(folder=tmp_path) for argument in command]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    imported = set(done.stderr.rpartition("imported")[2].split())
    assert "graphbench.commands.train" in imported
    assert not imported & left_out
