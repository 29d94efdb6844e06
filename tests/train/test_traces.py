"""Equal traces: all batches of one class take the same operations, shapes, grids and numbers from the host.

That is what capturing needs: a seed drawn on the host, a table made from sizes, a shape that depends on a batch differ.
Every method that declares itself capturable, on the second device, Triton kernels recorded but not run; their replays
are compared with the steps in ``interpreted_capture.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from graphbench.contract import capture_obstacle
from tests.ops.triton_compiler import run_interpreted
from tests.second_device import GPU, second_device, triton_stubbed
from tests.test_configs import CONFIGS
from tests.train.capture_case import Training, training
from tests.train.step_tape import Tape

FOLDERS = ("gnnbench", "lrgb", "ogb")
FAST = ("sfi", "geco", "gradformer", "ffgt", "gps")
BATCHES = 5
LISTS = ("spn", "drew", "gred", "ginak")
"""Methods whose batches hold lists of neighbours within some hops, which no loader assembles on the device."""


def _one_per_method() -> list[object]:
    seen: set[str] = set()
    cases = []
    for path in CONFIGS:
        method = path.stem.partition("-")[0]
        if path.parent.name in FOLDERS and method not in seen and method not in LISTS:
            seen.add(method)
            marks = () if method in FAST else pytest.mark.slow
            cases.append(pytest.param(f"{path.parent.name}/{path.stem}", id=path.stem, marks=marks))
    return cases


def traces(run: Training, trains: bool) -> list[list[object]]:
    """Of the steps, or of the evaluation, on batches of the class that most batches fit."""
    plans = run.plans(8)
    capacities = [plan.capacity for plan in plans]
    capacity = max(capacities, key=capacities.count)
    chosen = [plan for plan in plans if plan.capacity == capacity][:BATCHES]
    assert len(chosen) == BATCHES
    recorded = []
    for plan in chosen:
        numbers = run.loaders.numbers_of(plan).to(run.captured._device)
        tape = Tape(stubbed=True)

        def work(plan=plan, numbers=numbers) -> None:  # type: ignore[no-untyped-def]
            batch = run.loaders.assemble(plan, numbers)
            if trains:
                run.step.forget_gradients()
                run.step.backward(batch)
                run.step.update()
            else:
                run.predict(batch.batch)

        if not recorded:  # an optimizer makes its state in the first step
            with triton_stubbed():
                work()
        tape.capture(work)
        recorded.append(tape.trace)
    return recorded


@pytest.mark.skipif(GPU, reason="only the tape has a trace")
@pytest.mark.parametrize("name", _one_per_method())
def test_equal_traces(name: str, tmp_path: Path) -> None:
    with second_device():
        run = training(name, tmp_path, dropout=True)
        obstacle = run.loaders.capture_obstacle() or run.task.capture_obstacle() or capture_obstacle(run.model)
        if obstacle is not None:
            pytest.skip(obstacle)
        recorded = [traces(run, trains=True)]
        run.model.eval()
        recorded.append(traces(run, trains=False))
    for first, *others in recorded:
        for trace in others:
            for number, (ours, expected) in enumerate(zip(trace, first, strict=True)):
                assert ours == expected, f"operation {number}"


@pytest.mark.slow
def test_replays_of_attentions() -> None:
    run_interpreted("../train/interpreted_capture.py")


@pytest.mark.slow
@pytest.mark.exhaustive
def test_replays_of_all_attentions() -> None:
    run_interpreted("../train/interpreted_capture.py", marked="exhaustive")
