"""What modules say while a model runs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphbench.contract import HasStatistics
from graphbench.train.forward_hooks import ForwardObserver, ask_statistics, averaged


class Speaking(nn.Module, HasStatistics):
    def forward(self, x: Tensor, *, by: float = 1.0) -> Tensor:
        return x * by

    def statistics(self, x: Tensor, *, by: float = 1.0) -> dict[str, Tensor]:
        return {"sum": x.sum() * by}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.silent, self.speaking = nn.Identity(), Speaking()

    def forward(self, x: Tensor) -> Tensor:
        return self.speaking(self.silent(x) + 1, by=2.0)


def test_a_module_is_asked_with_the_arguments_of_its_call_and_only_inside_the_block() -> None:
    model = Model()
    observer = ForwardObserver(model, HasStatistics, ask_statistics)
    assert list(observer.modules) == ["speaking"]
    with observer() as answers:
        model(torch.zeros(3))
    assert answers == {"speaking": {"sum": torch.tensor(6.0)}}
    model(torch.ones(3))
    assert answers == {"speaking": {"sum": torch.tensor(6.0)}}
    assert not model.speaking._forward_hooks


def test_modules_can_be_left_out_by_name() -> None:
    observer = ForwardObserver(Model(), HasStatistics, ask_statistics, lambda name: not name.startswith("speak"))
    assert not observer.modules


def test_statistics_of_several_modules_are_averaged_where_they_have_a_number() -> None:
    nan = torch.nan
    answers = [{"a": torch.tensor([1.0, nan, nan]), "b": torch.tensor([5.0])}, {}, {"a": torch.tensor([3.0, 4.0, nan])}]
    merged = averaged(answers)
    assert list(merged) == ["a", "b"]
    torch.testing.assert_close(merged["a"], torch.tensor([2.0, 4.0, nan]), equal_nan=True)
    assert merged["b"].tolist() == [5.0]
    assert averaged([]) == {}
