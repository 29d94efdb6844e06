"""Triton kernels of captured trainings, compiled on a machine without a GPU for one that is lent for minutes.

    python -m scripts.gpu_kernels record FILE CONFIGURATION [KEY VALUE ...]
    PYTHON -m scripts.gpu_kernels compile FOLDER FILE ... [--capability 90]

``record`` prepares the captured steps and evaluations of a configuration (a path) on the second device of the tests,
where kernels are noted and not run, with its real data and so with the capacities that its batches will have. It writes
with what every kernel was launched. ``compile`` is for a Python that has the other machine's versions of Python,
PyTorch and Triton: the compiler's cache depends on them. FOLDER goes there as ``$TRITON_CACHE_DIR``. Other kernels are
compiled there, as ever.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

from graphbench.command_line import CommandParser

Described: TypeAlias = list[Any]
"""An argument of a launch, for a file: its kind and what Triton looks at."""
Launch: TypeAlias = list[Any]
"""Module, function, arguments, and arguments by name."""


class _Prepared(Exception):
    """Nothing is trained: everything has been recorded."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Records or compiles; 1 where a kernel does not compile."""
    parser = CommandParser(description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    recording = what.add_parser("record")
    recording.add_argument("file", type=Path, metavar="FILE")
    recording.add_argument("command", nargs="+", metavar="CONFIGURATION [KEY VALUE ...]")
    compiling = what.add_parser("compile")
    compiling.add_argument("folder", type=Path, metavar="FOLDER")
    compiling.add_argument("files", nargs="+", type=Path, metavar="FILE")
    compiling.add_argument("--capability", type=int, default=90, metavar="NUMBER", help="of the GPU (default: 90)")
    compiling.add_argument("--processes", type=int, default=2, metavar="N", help="default: %(default)s")
    options = parser.parse_args(arguments)
    if options.what == "record":
        launches = record(options.command)
        options.file.write_text(json.dumps(launches), encoding="utf-8")
        print(f"{options.file}: {len(launches)} launches")
        return 0
    launches = unlike(launch for file in options.files for launch in json.loads(file.read_text(encoding="utf-8")))
    begun, failures = time.monotonic(), list(compiled(launches, options))
    print(f"{len(launches)} kernels in {time.monotonic() - begun:.0f} s, {len(failures)} failed", *failures, sep="\n")
    return int(bool(failures))


# ---------------------------------------------------------------------- launches


def record(command: Sequence[str]) -> list[Launch]:
    """What a configuration would launch on a GPU, every launch once."""
    import torch

    from graphbench.benchmarks import training
    from graphbench.config import Config
    from graphbench.data.loading import padded
    from graphbench.factory import parts
    from graphbench.train import captured_evaluation, captured_step
    from graphbench.train.accelerator import formats_of
    from graphbench.train.fabric import Fabric
    from graphbench.train.precision import Precision
    from graphbench.train.step_graph import StepGraphs
    from graphbench.train.trainer import Trainer
    from tests import second_device  # registers its device, before anything is differentiated

    launches: dict[str, Launch] = {}
    device = second_device.DEVICE

    def launched(kernel: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        launch = [kernel.fn.__module__, kernel.fn.__name__, [_described(x) for x in args]]
        launch.append({name: _described(value) for name, value in named.items() if name not in ("grid", "warmup")})
        launches.setdefault(json.dumps(launch), launch)

    def work_alone(
        graphs: Any, work: Any, before: Any, while_working: type[AbstractContextManager[None]] = nullcontext
    ) -> None:
        with while_working():
            work.run()
        before.restore()
        before.forget_gradients()

    class Preparing(Trainer):
        """Stops where the first epoch would begin."""

        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named, graphs=mock.Mock(StepGraphs))

        def _prepare(self) -> None:
            super()._prepare()
            raise _Prepared

    def fabric_of(config: Config) -> Fabric:
        precision, of_products = formats_of(config.tree.precision)
        torch.set_float32_matmul_precision(of_products)
        return Fabric(device, Precision(precision, device))

    with ExitStack() as patched, tempfile.TemporaryDirectory() as folder:
        patched.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        patched.enter_context(second_device.second_device())
        patched.enter_context(second_device.triton_stubbed(launched))
        for where, name, instead in (
            (padded, "SAMPLED_BATCHES", 2000),  # as many as on a GPU
            (captured_step, "record", work_alone),
            (captured_evaluation, "record", work_alone),
            (parts, "build_fabric", fabric_of),
            (training, "Trainer", Preparing),
        ):
            patched.enter_context(mock.patch.object(where, name, instead))
        run = training.Training(Path(folder), (*command, "train.resident", "always"), 2, torch.device("cpu"))
        try:
            run.run()
        except _Prepared:
            pass
    if not launches:
        raise SystemExit("nothing was captured: see the log")
    return list(launches.values())


def _described(x: Any) -> Described:
    import torch
    import triton

    if isinstance(x, torch.Tensor):
        aligned = (x.storage_offset() * x.element_size()) % 16 == 0
        return ["tensor", str(x.dtype).removeprefix("torch."), aligned]
    if isinstance(x, triton.runtime.JITFunction):
        return ["function", x.fn.__module__, x.fn.__name__]
    if isinstance(x, triton.language.dtype):
        return ["type", x.name]
    if isinstance(x, (tuple, list)):
        return ["tuple", [_described(each) for each in x]]
    return ["value", x]


# ---------------------------------------------------------------------- programs


def compiled(launches: Sequence[Launch], options: argparse.Namespace) -> Iterator[str]:
    """Compiles kernels into a folder; yields what went wrong with those that do not compile."""
    work = partial(_compile, folder=str(options.folder.resolve()), capability=options.capability)
    with get_context("spawn").Pool(options.processes) as pool:
        yield from filter(None, pool.imap_unordered(work, launches))


def unlike(launches: Iterable[Launch]) -> list[Launch]:
    """Those that Triton may tell from each other: numbers matter by what divides them, where kernels take them so."""
    found: dict[str, Launch] = {}
    for module, name, args, named in launches:
        parameters = getattr(importlib.import_module(module), name).params
        constants = {each.name for each in parameters if each.is_constexpr}
        kinds = [
            each if parameter.is_constexpr else _kind(each) for each, parameter in zip(args, parameters, strict=False)
        ]
        known = {key: each if key in constants else _kind(each) for key, each in named.items()}
        found.setdefault(json.dumps([module, name, kinds, known]), [module, name, args, named])
    return list(found.values())


def _kind(x: Described) -> Any:
    kind, content = x[0], x[1]
    if kind == "tuple":
        return [_kind(each) for each in content]
    if kind != "value" or isinstance(content, bool) or content in (0, 1, None):
        return x
    return type(content).__name__, isinstance(content, int) and content % 16 == 0, abs(content) < 2**31


def _compile(launch: Launch, folder: str, capability: int) -> str | None:
    import os

    os.environ["TRITON_CACHE_DIR"] = folder
    from triton.runtime import driver

    from tests.ops.absent_gpu import AbsentGPU

    module, name, args, named = launch
    driver.set_active(AbsentGPU(capability))
    try:
        kernel = getattr(importlib.import_module(module), name)
        of_names = {key: _built(value) for key, value in named.items()}
        _build_launcher(kernel.run(*[_built(each) for each in args], grid=(1,), warmup=True, **of_names))
    except Exception as error:  # noqa: BLE001  told at the end, with those of the other kernels
        return f"{module}.{name}: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
    return None


def _build_launcher(program: Any) -> None:
    """The extension module that launches a program, which Triton up to 3.6 has a C compiler make for every signature.

    It is linked with a library in place of the driver's, of one function, so that it asks for that one; and not loaded.
    """
    from triton import knobs
    from triton.backends.nvidia import driver
    from triton.runtime import build

    if not hasattr(driver, "make_launcher"):
        return
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "libcuda.so.1")
        function = b"void cuGetErrorString(void) {}"
        subprocess.run(["cc", "-shared", "-o", library, "-x", "c", "-"], input=function, check=True)
        with (
            mock.patch.object(knobs.nvidia, "libcuda_path", folder),
            mock.patch.object(build, "_load_module_from_path"),
        ):
            driver.libcuda_dirs.cache_clear()
            driver.library_dirs.cache_clear()
            driver.CudaLauncher(program.src, program.metadata)


def _built(x: Described) -> Any:
    import torch
    import triton

    kind, *content = x
    if kind == "tensor":
        room = torch.empty(64, dtype=getattr(torch, content[0]))
        return room if content[1] else room[1:]
    if kind == "function":
        return getattr(importlib.import_module(content[0]), content[1])
    if kind == "type":
        names = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
        return getattr(triton.language, names.get(content[0], content[0]))
    if kind == "tuple":
        return tuple(_built(each) for each in content[0])
    return content[0]


if __name__ == "__main__":
    sys.exit(main())
