"""The agreement of all operators (docstring of graphbench.ops) where it can be read off the source."""

from __future__ import annotations

import functools
import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from graphbench import ops
from graphbench.ops.decay_attention import decay_attention
from graphbench.ops.focal_attention import focal_attention
from graphbench.ops.linear_attention import linear_attention
from graphbench.ops.segment import segment_sum
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.sparse_flow import sparse_flow
from graphbench.structures import PairBlocks, Ragged

ROOT = Path(ops.__path__[0])
OPERATORS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
WITH_KERNELS = sorted(path.parent.name for path in ROOT.glob("*/gpu.py"))


def implementations(operator: str, file: str) -> list[str]:
    """Public functions of an operator that are defined in one of its files too."""
    public = importlib.import_module(f"graphbench.ops.{operator}")
    module = importlib.import_module(f"graphbench.ops.{operator}.{file}")
    functions = dict(inspect.getmembers(module, inspect.isfunction))
    return [name for name in public.__all__ if name in functions and functions[name].__module__ == module.__name__]


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_folder_has_the_files_of_every_operator(operator: str) -> None:
    missing = {"__init__.py", "reference.py", "cpu.py", "README.md"} - {p.name for p in (ROOT / operator).iterdir()}
    assert not missing
    assert (ROOT.parents[1] / "tests" / "ops" / f"test_{operator}.py").exists()


@pytest.mark.parametrize("operator", OPERATORS)
def test_public_functions_let_the_caller_choose_the_implementation(operator: str) -> None:
    names = implementations(operator, "reference")
    assert names
    assert set(names) <= set(implementations(operator, "cpu"))
    public = importlib.import_module(f"graphbench.ops.{operator}")
    for name in names:
        backend = inspect.signature(getattr(public, name)).parameters["backend"]
        assert (backend.kind, backend.default) == (backend.KEYWORD_ONLY, "auto")
        assert inspect.getdoc(getattr(public, name))


@functools.cache
def chosen_without_triton() -> dict[str, tuple[str, str]]:
    """Operator -> one of its functions, and what choosing its kernels raises where Triton is not installed."""
    code = f"""
import importlib, sys, torch
from graphbench.ops.backend import Backends
sys.modules["triton"] = None
for operator in {WITH_KERNELS}:
    public = importlib.import_module(f"graphbench.ops.{{operator}}")
    for backends in (each for each in vars(public).values() if isinstance(each, Backends) and "gpu" in each.names):
        try:
            backends.choose("gpu", torch.empty(0))
        except ImportError as error:
            print(operator, backends.operator, error, sep="\\t")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT.parents[1], capture_output=True, text=True, check=True)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return {operator: (function, message) for operator, function, message in lines}


@pytest.mark.parametrize("operator", WITH_KERNELS)
def test_missing_triton_is_named(operator: str) -> None:
    function, message = chosen_without_triton()[operator]
    assert message == f"backend 'gpu' of {function} needs Triton: pip install triton"


def test_tensors_of_kernels_must_lie_on_a_gpu() -> None:
    """Where their results would be those of torch code, nobody would notice."""
    pytest.importorskip("triton")
    q, ragged = torch.ones(2, 1, 4), Ragged.from_sizes([2])
    pairs = torch.zeros(4, dtype=torch.uint8)
    calls: dict[str, Callable[[], object]] = {
        "softmax_attention": lambda: softmax_attention(q, q, q, ragged, backend="gpu"),
        "linear_attention": lambda: linear_attention(q, q, q, ragged, backend="gpu"),
        "decay_attention": lambda: decay_attention(q, q, q, ragged, pairs, torch.zeros(1), decay=0.5, backend="gpu"),
        "focal_attention": lambda: focal_attention(q, q, q, ragged, PairBlocks(pairs, (2,)), 1, backend="gpu"),
        "sparse_flow": lambda: sparse_flow(q, q, q, q, q, ragged, lam=torch.tensor(1.0), backend="gpu"),
    }
    for operator, call in calls.items():
        message = f"backend 'gpu' of {operator} needs tensors on a GPU, received tensors on 'cpu'"
        with pytest.raises(ValueError, match=message):
            call()


def test_gradients_of_gradients_are_refused_not_left_out() -> None:
    ragged = Ragged.from_sizes([3, 2])
    x = torch.rand(5, 2, 3, dtype=torch.float64, requires_grad=True)
    operators = [lambda: linear_attention(x, x, x, ragged, backend="cpu"), lambda: segment_sum(x.flatten(1), ragged)]
    for operator in operators:
        out = operator().square().sum()
        with pytest.raises(RuntimeError, match="first derivatives only; call backward without create_graph"):
            torch.autograd.grad(out, x, create_graph=True)
        torch.autograd.grad(operator().sum(), x)
    out = linear_attention(x, x, x, ragged, backend="reference").square().sum()
    (grad,) = torch.autograd.grad(out, x, create_graph=True)
    assert torch.autograd.grad(grad.square().sum(), x)[0].isfinite().all()


def test_every_backward_pass_written_by_hand_refuses_to_be_differentiated() -> None:
    others = []
    for path in ROOT.rglob("*.py"):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if "def backward(ctx" in line and lines[number - 1].strip() != "@first_order":
                others.append(path.relative_to(ROOT).as_posix())
    # oneDNN's linear map alone can be differentiated twice: test_onednn.py
    assert others == ["linear/cpu.py"]
