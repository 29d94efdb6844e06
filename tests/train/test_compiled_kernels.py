"""Kernels that are made ready are counted, and whoever listened before hears of them as before."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from graphbench.train.compiled_kernels import _hook, compiled_kernels
from tests.second_device import second_device
from tests.train.capture_case import step_graphs
from tests.train.test_captured_training import trainer

triton = pytest.importorskip("triton", reason="kernels are compiled by Triton")


class _Kernel:
    name = "forward"


def _compiled() -> None:
    """As Triton calls it after a compilation."""
    place, attribute = _hook()
    hook = getattr(place, attribute)
    if hook is not None:
        hook(key="...", repr="...", fn=_Kernel(), compile={}, is_manual_warmup=False, already_compiled=False)


def test_kernels_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = []
    place, attribute = _hook()
    monkeypatch.setattr(place, attribute, lambda **known: heard.append(known["fn"].name))
    with compiled_kernels() as names:
        _compiled()
        _compiled()
    _compiled()
    assert names == ["forward"] * 2
    assert heard == ["forward"] * 3


def test_what_triton_calls() -> None:
    """The attribute is one that this Triton reads: its source calls it."""
    place, attribute = _hook()
    assert hasattr(place, attribute)
    assert attribute in Path(triton.runtime.jit.__file__).read_text(encoding="utf-8")


def test_one_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the second device records a graph, a GPU compiles what is new in it."""
    with second_device(), caplog.at_level(logging.INFO, logger="graphbench"):
        graphs = step_graphs()
        new = graphs.new
        monkeypatch.setattr(graphs, "new", lambda: (_compiled(), new())[1])
        trainer(tmp_path, "optim.max_epoch", "2", graphs=graphs).run()
    (line,) = [record.message for record in caplog.records if "kernels" in record.message]
    assert line.partition(" kernels were made ready in ")[2].endswith(" s, before epoch 0")
    assert int(line.split()[0]) > 1
