"""The figures that the command names are modules of the package."""

from __future__ import annotations

import argparse

import pytest

from graphbench.plots import attention, cli, decay, flows, focal, layers, scaling, surrogate, traingap

MODULES = (traingap, attention, flows, surrogate, decay, focal, layers, scaling)


def test_every_figure_is_a_module_with_options() -> None:
    assert tuple(module.__name__.rpartition(".")[2] for module in MODULES) == cli.FIGURES
    for name, module in zip(cli.FIGURES, MODULES, strict=True):
        assert cli.figure_module(name) is module
        parser = argparse.ArgumentParser()
        module.arguments(parser)
        assert callable(module.make)


def test_help_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert all(f"    {name}" in text for name in cli.FIGURES)
