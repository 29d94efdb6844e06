"""What is run first on a GPU that is lent, in order of worth, in pieces that a short lease can hold.

    python -m scripts.gpu_check FOLDER [PART ...] [--minutes 9] [--most 5] [--earlier FOLDER ...]

``kernels``: Triton kernels against their references. ``captured``: 50 steps captured and not with equal losses, two
captured runs equal bit for bit, other dropout masks in every step, a kernel on another stream noticed, seeds on streams
of their own. ``launches``: kernels of a training step by the profiler, beside the budget that is counted without a GPU.
``benchmarks`` and ``epochs``: ``bench.py`` with its peers. ``blocks``: times of the kernels' tiles, as
``scripts.measure_blocks`` has them. All of them without a word.

Every part consists of commands. What one printed is written to ``FOLDER/<part>.json`` when it ends, with software,
hardware and a digest of the code, so that a call of the same code goes on where the last one stopped, or where those
did whose files are in ``--earlier``. After ``--minutes`` the command that runs is ended, and begun anew by the next
call. One that has run for ``--most`` minutes has failed, with what it printed until then: a kernel that never ends
costs no more than that. The exit code is 0 when all commands of the parts have succeeded, 1 when one has failed, 4 when
some are left.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphbench import atomic
from graphbench.benchmarks.epochs import MEASURED
from graphbench.command_line import CommandParser
from graphbench.runs.environment import environment
from scripts.measure_blocks import PIECES
from tests.ops.ragged_inputs import kernel_tests

ROOT = Path(__file__).resolve().parent.parent
LEFT = 4
"""Exit code where commands are left for another call."""
_CAPTURED = ("step_graph", "captured_step", "captured_training", "captured_evaluation", "turns")
TOO_LONG = 124
"""Code of a command that has run for too long."""
_KEPT = 8000  # characters of what a command printed


def parts() -> dict[str, dict[str, list[str]]]:
    """Part -> name of a command -> the command, in order of worth."""
    here = sys.executable
    # pytest-benchmark, where an image has it, warns beside other processes, and warnings are errors.
    pytest = [here, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:benchmark", *_side_by_side(), "-m"]
    of_kernels = ["env", "GRAPHBENCH_TEST_KERNELS=1", *pytest, "not exhaustive"]
    budgets = json.loads((ROOT / "tests/launch_budgets.json").read_text())
    bench = [here, "scripts/bench.py", "--device", "cuda"]
    names = ("gps_step", "sgformer", "sparse_flow", "distance", "sfi_step", "geco")
    return {
        "kernels": {name: [*of_kernels, f"tests/ops/{name}"] for name in kernel_tests()},
        "captured": {name: [*pytest, "slow or not slow", f"tests/train/test_{name}.py"] for name in _CAPTURED},
        "launches": {name: [here, "-m", "scripts.launches", name, "--profiler"] for name in budgets},
        "benchmarks": {name: [*bench, name] for name in names},
        "epochs": {each.label: [*bench, "epochs", "--only", each.label] for each in MEASURED},
        "blocks": {piece: [here, "-m", "scripts.measure_blocks", piece, "--dry-run"] for piece in PIECES},
    }


def _side_by_side() -> list[str]:
    """Tests in several processes, where they can be: what takes time is the compiler of kernels, on one core each."""
    processes = min(8, (os.cpu_count() or 1) // 2)
    return ["-n", str(processes)] if processes > 1 and importlib.util.find_spec("xdist") else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is left of the parts asked for, in their order."""
    known = parts()
    parser = CommandParser(description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the results, a file per part")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--minutes", type=float, default=9.0, help="after which this call ends (default: %(default)s)")
    parser.add_argument("--most", type=float, default=5.0, help="minutes of one command (default: %(default)s)")
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], metavar="FOLDER", help="with results to skip")
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in known]
    if unknown:
        parser.error(f"parts are {', '.join(known)}; received {', '.join(unknown)}")
    end, codes = time.monotonic() + 60 * options.minutes, []
    options.folder.mkdir(parents=True, exist_ok=True)
    for part in options.parts or known:
        codes += run(known[part], options.folder / f"{part}.json", options.earlier, end, 60 * options.most)
    print(f"{sum(code == 0 for code in codes)} succeeded, {sum(map(bool, codes))} failed or are left", flush=True)
    return 1 if any(code not in (0, None) for code in codes) else LEFT if None in codes else 0


def run(
    commands: dict[str, list[str]], file: Path, earlier: Sequence[Path], end: float, most: float
) -> list[int | None]:
    """Runs commands until a point in time; their exit codes, None for those that are left.

    Args:
        commands: by name.
        file: of their results.
        earlier: folders with files of the same name, of earlier calls.
        end: of ``time.monotonic()``.
        most: seconds of one command.
    """
    where, done = environment(), {}
    for known in (*(folder / file.name for folder in earlier), file):
        stored = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
        if stored.get("environment", {}).get("source") == where["source"]:
            done |= stored["results"]
    for name, command in commands.items():
        left = end - time.monotonic()
        if name in done or left <= 0:
            continue
        result = _result(command, left, most)
        if result is not None:
            done[name] = result
            atomic.write_text(file, json.dumps({"environment": where, "results": done}, indent=1))
            print(f"{file.stem} {name}: code {result['code']}, {result['seconds']:.0f} s", flush=True)
    return [done[name]["code"] if name in done else None for name in commands]


def _result(command: Sequence[str], left: float, most: float) -> dict[str, Any] | None:
    """What a command printed and how long it ran; None where nothing was left of the time of the call.

    Args:
        command: of Python.
        left: seconds until the call ends.
        most: seconds of a command.
    """
    begun = time.monotonic()
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    environ = os.environ | {"PYTHONUNBUFFERED": "1"}  # what it has printed is there when it is ended
    with subprocess.Popen(command, cwd=ROOT, env=environ, start_new_session=True, **pipe) as process:  # type: ignore[call-overload]
        try:
            printed, _ = process.communicate(timeout=min(left, most))
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # tests start processes of their own
            if left < most:
                return None
            printed, _ = process.communicate()
            code = TOO_LONG
    ran = {"code": code, "seconds": round(time.monotonic() - begun, 1), "result": _last_object(printed)}
    return {"command": " ".join(["python", *command[1:]]), **ran, "output": printed[-_KEPT:]}


def _last_object(printed: str) -> Any:
    """What the last line says in JSON; None where it says none, as where a command broke off."""
    lines = printed.rstrip().splitlines()
    try:
        return json.loads(lines[-1]) if lines and lines[-1].startswith("{") else None
    except json.JSONDecodeError:
        return None


if __name__ == "__main__":
    sys.exit(main())
