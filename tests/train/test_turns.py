"""Work in turns: who has which random numbers, and what is raised when all has ended."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from graphbench.errors import Interrupted, RunFailed, UserError
from graphbench.runs.identity import RunIdentity
from graphbench.runs.run_directory import RunDirectory
from graphbench.train.random_state import OwnGenerators
from graphbench.train.seeding import seed_everything
from graphbench.train.turns import Turns, take_turns, without_pause
from tests.second_device import GPU

CPU = torch.device("cpu")


def nobody(name: str, error: Exception) -> None:
    """Is told."""


def drawing(seed: int, into: list[float]) -> Turns[None]:
    seed_everything(seed)
    for _ in range(3):
        yield
        # The second gauss of a pair is kept by the generator.
        into += [torch.rand(1).item(), np.random.standard_normal(), random.gauss(0, 1)]  # noqa: NPY002


def test_everybody_draws_what_it_would_draw_alone() -> None:
    alone: dict[int, list[float]] = {seed: [] for seed in (3, 4, 5)}
    turns: dict[int, list[float]] = {seed: [] for seed in (3, 4, 5)}
    for seed, into in alone.items():
        without_pause(drawing(seed, into))
    seed_everything(0)
    take_turns({str(seed): drawing(seed, into) for seed, into in turns.items()}, CPU, nobody)
    assert turns == alone
    after = torch.rand(1), random.random()
    seed_everything(0)
    assert after == (torch.rand(1), random.random()), "the process draws what it would have drawn"


def test_everybody_has_its_own_log(tmp_path: Path) -> None:
    logger = logging.getLogger("graphbench.for_a_test")

    def work(name: str) -> Turns[None]:
        with RunDirectory(tmp_path, "c", name).open(identity=RunIdentity("h"), config_text="a: 1\n"):
            for step in range(int(name)):
                logger.info("%s %d", name, step)
                yield

    take_turns({name: work(name) for name in ("3", "1", "2")}, CPU, nobody)
    for name in ("1", "2", "3"):
        lines = (tmp_path / "c" / name / "logging.log").read_text().splitlines()
        assert [line.split("INFO ")[1] for line in lines] == [f"{name} {step}" for step in range(int(name))]


def test_a_defect_is_raised_after_the_others_have_ended() -> None:
    done = []

    def work(name: str, error: Exception | None):  # type: ignore[no-untyped-def]
        yield
        if error is not None:
            raise error
        yield
        done.append(name)

    told: list[str] = []
    trainings = {
        "a": work("a", ZeroDivisionError("for a test")),
        "b": work("b", None),
        "c": work("c", RunFailed("bad")),
    }
    with pytest.raises(ZeroDivisionError, match="for a test"):
        take_turns(trainings, torch.device("cpu"), lambda name, error: told.append(name))
    assert done == ["b"]
    assert told == ["a", "c"]


@pytest.mark.parametrize(
    ("errors", "expected", "message"),
    [
        ([RunFailed("a")], RunFailed, "^a$"),
        ([UserError("a"), RunFailed("b")], RunFailed, "^2 trainings of those together:\n  0: a\n  1: b$"),
        ([RunFailed("a"), Interrupted("b")], Interrupted, "  0: a\n  1: b$"),
        ([UserError("a"), UserError("b")], UserError, "^2 trainings"),
        ([MemoryError("a")], RunFailed, "memory is exhausted"),
    ],
)
def test_what_is_raised_for_all(errors: list[Exception], expected: type[Exception], message: str) -> None:
    def work(error: Exception) -> Turns[None]:
        yield
        raise error

    with pytest.raises(expected, match=message):
        take_turns({str(number): work(error) for number, error in enumerate(errors)}, CPU, nobody)


def test_what_nobody_catches_ends_the_others_at_once() -> None:
    ended = []

    def work(error: BaseException | None) -> Turns[None]:
        try:
            yield
            if error is not None:
                raise error
            yield
        finally:
            ended.append(error is None)

    with pytest.raises(KeyboardInterrupt):
        take_turns({"a": work(None), "b": work(KeyboardInterrupt()), "c": work(None)}, CPU, nobody)
    assert ended == [False, True, True]


@pytest.mark.skipif(not GPU, reason="generator states are exchanged by address on a GPU only")
def test_graphs_on_several_streams_draw_from_their_own_generators() -> None:
    """Launched side by side, they give what they give alone: seed and offset of one are not those of another."""
    device = torch.device("cuda", 0)

    def replays(seed: int, into: list[Tensor]) -> Turns[None]:
        torch.manual_seed(seed)
        drawn = torch.empty(1 << 22, device=device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            drawn.uniform_()
        for _ in range(5):
            graph.replay()
            into.append(drawn[::4096].clone())
            yield

    alone: dict[int, list[Tensor]] = {seed: [] for seed in range(4)}
    beside: dict[int, list[Tensor]] = {seed: [] for seed in range(4)}
    for seed, into in alone.items():
        with OwnGenerators(device).in_use():
            without_pause(replays(seed, into))
        torch.cuda.synchronize()
    take_turns({str(seed): replays(seed, into) for seed, into in beside.items()}, device, nobody)
    torch.cuda.synchronize()
    for seed in range(4):
        assert all(torch.equal(a, b) for a, b in zip(alone[seed], beside[seed], strict=True))
