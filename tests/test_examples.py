"""Pages of docs/examples: every one runs from its first to its last line; their notebooks hold the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.notebooks import cells, notebook, pages
from tests.paths import ROOT

PRINTS = {  # what a page must have printed
    "fine-tuning": ("fine-tuned 0.", "head alone 0.", "from scratch 0."),
    "own-data": ("GIN+SFi {", " chords |", "tensor([["),
    "own-attention": ("MeanField {", "Transformer {", "wrote report.html: 6 finished runs"),
    "layers-in-pyg": ("9 0.", "torch.Size([2, 20, 20])"),
    "after-training": (
        "results/rings {",
        "'model.safetensors'",
        "tensor(0.)",
        "'pe.RWSE.landing', 'x'] True",
    ),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_runs(page: Path, tmp_path: Path) -> None:
    program = []
    for what, name, content in cells(page):
        if what == "file":
            (tmp_path / name).write_text(content)
        elif what == "code":
            program.append(content)
    (tmp_path / "page.py").write_text("\n".join(program))
    path = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, env=path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for text in PRINTS[page.stem]:
        assert text in done.stdout, done.stdout


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_notebook_has_the_cells_of_its_page(page: Path) -> None:
    content = json.loads(notebook(page))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    code = ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]
    expected = [
        f"%%writefile {name}\n{text}".strip("\n") if what == "file" else text.strip("\n")
        for what, name, text in cells(page)
        if what != "text"
    ]
    assert code == expected
    assert len({cell["id"] for cell in content["cells"]}) == len(content["cells"])
