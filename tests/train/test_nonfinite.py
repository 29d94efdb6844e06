"""The part of a model that the message of a loss that is not finite names."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from graphbench.errors import RunFailed
from graphbench.structures import GraphBatch
from graphbench.train.nonfinite import Origin, find_origin
from tests.train.tiny_run import TinyModel, tiny_settings, tiny_trainer


class Function(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, h: Tensor) -> Tensor:
        return self.function(h)


class Residual(nn.Module):
    """Two layers that read the same states, one behind the other."""

    def __init__(self, one: nn.Module, other: nn.Module) -> None:
        super().__init__()
        self.one, self.other = one, other

    def forward(self, h: Tensor) -> Tensor:
        return self.one(h) + self.other(h)


def model(function: Callable[[Tensor], Tensor]) -> nn.Sequential:
    torch.manual_seed(0)
    middle = Residual(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), Function(function)))
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), middle, nn.Linear(4, 1))


def loss_of(network: nn.Module) -> Callable[[], Tensor]:
    """A loss that is finite for finite outputs."""
    x = torch.arange(15.0).view(5, 3)
    return lambda: network.train()(x).square().mean()


def found(network: nn.Module, **earlier: object) -> Origin | None:
    return find_origin(network, [loss_of(network)], **earlier)  # type: ignore[arg-type]


def test_the_first_module_whose_output_is_not_finite() -> None:
    origin = found(model(lambda h: h / 0))
    assert origin is not None
    assert (origin.part, origin.module) == ("output", "3.other.1")
    assert origin.kind.startswith(f"Function, {__file__}:"), "a class of a user has its place"


def test_an_input_that_the_module_itself_spoils_was_finite() -> None:
    origin = found(model(lambda h: h.mul_(math.nan)))
    assert origin is not None
    assert (origin.part, origin.module) == ("output", "3.other.1")


def test_what_only_the_backward_pass_shows() -> None:
    """The root of 0: layers before it pass on what they receive, and so do those that read the same states."""
    for network in (
        model(lambda h: (h - h).sqrt()),
        model(lambda h: (h[:, :1] - h[:, :1]).norm(dim=1, keepdim=True).sqrt()),
    ):
        origin = found(network)
        assert origin is not None
        assert (origin.part, origin.module) == ("gradient", "3.other.1")


def test_a_parameter_whose_own_gradient_is_not_finite() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.square = nn.Parameter(torch.zeros(4))

        def forward(self, h: Tensor) -> Tensor:
            return h + self.square.sqrt()

    origin = found(nn.Sequential(nn.Linear(3, 4), Scale(), nn.Linear(4, 1)))
    assert origin is not None
    assert (origin.part, origin.module) == ("gradient", "1")


def test_a_module_called_twice_is_not_to_blame_for_what_one_call_receives() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(4, 4)

        def forward(self, h: Tensor) -> Tensor:
            once = self.lin(h)
            return (once - once).sqrt() + self.lin(h)

    origin = found(nn.Sequential(nn.Linear(3, 4), Twice(), nn.Linear(4, 1)))
    assert origin is not None
    assert (origin.part, origin.module) == ("gradient", "1")


def test_parameters_and_buffers_that_are_not_finite() -> None:
    network = model(torch.relu)
    network[3].other[0].bias.data[1] = math.inf
    network[4].weight.data[:] = math.nan
    expected = Origin("parameters", "3.other.0", "Linear", ("3.other.0.bias (Linear)",))
    assert found(network) == expected
    assert found(network, earlier=network.state_dict(), weights="the first") == Origin(
        **{**vars(expected), "weights": "the first"}
    )
    network = model(torch.relu)
    network[1].running_mean[0] = math.nan
    assert found(network) is None, "in training nothing reads it"


def test_weights_from_before_are_taken_where_those_of_the_moment_are_spoiled() -> None:
    network, broken = model(torch.relu), model(torch.log)
    for each in (network, broken):
        each.before = {name: tensor.clone() for name, tensor in each.state_dict().items()}
        each[0].weight.data[:] = math.nan
    origin = found(network, earlier=network.before, weights="the first")
    assert origin == Origin("updates", tensors=("0.weight (Linear)",), weights="the first")
    origin = found(broken, earlier=broken.before, weights="the first")
    assert origin is not None
    assert (origin.part, origin.module, origin.weights) == ("output", "3.other.1", "the first")
    assert broken[0].weight.isnan().all(), "those of the moment are put back"


def test_infinity_that_a_later_module_reads_as_a_mask_is_none_of_it() -> None:
    class Masked(nn.Module):
        def __init__(self, last: nn.Module) -> None:
            super().__init__()
            self.mask, self.attend = Function(lambda h: h.log()), Function(lambda s: s.softmax(1))
            self.first, self.last = nn.Linear(3, 4), last

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.first(x) * self.attend(self.mask(torch.tensor([[0.0, 1.0, 1.0, 1.0]]))))

    origin = found(Masked(Function(lambda h: h / 0)))
    assert origin is not None
    assert origin.module == "last"
    assert found(Masked(nn.Linear(4, 1))) is None


def test_a_loss_of_finite_outputs() -> None:
    network = nn.Linear(3, 1)
    assert find_origin(network, [lambda: network(torch.ones(2, 3)).sum() * math.nan]) == Origin("loss")


@pytest.mark.parametrize("function", [torch.relu, lambda h: h / 0, lambda h: (h - h).sqrt(), lambda h: h.missing])
def test_nothing_is_left_of_it(function: Callable[[Tensor], Tensor]) -> None:
    """Nor of one that fails itself: then there is no answer, as where everything is finite."""
    network = model(function).eval()
    network[4].weight.grad = torch.ones(1, 4)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    random = torch.get_rng_state()
    answers = [found(network), found(network, earlier=before)]
    assert [each is None for each in answers] == [function is torch.relu or "missing" in function.__code__.co_names] * 2
    assert torch.equal(random, torch.get_rng_state())
    assert not any(module.training for module in network.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    assert torch.equal(network[4].weight.grad, torch.ones(1, 4))
    assert network[0].weight.grad is None


# ---------------------------------------------------------------------- what a run says


class Spoiled(TinyModel):
    """With a layer between two maps, whose function is another for the batch of the ``at``-th training step."""

    def __init__(self, at: int, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__(dropout=0.0)
        self.at, self.function = at, function
        self.first = nn.Sequential(nn.Linear(4, 8), Function(self.apply_function))
        self.batches: list[float] = []

    def forward(self, batch: GraphBatch) -> Tensor:
        if self.training:
            self.batches.append(float(batch.x.sum()))
        return super().forward(batch)

    def apply_function(self, h: Tensor) -> Tensor:
        spoiled = self.training and self.batches[-1] in self.batches[self.at : self.at + 1]
        return self.function(h) if spoiled else h


@pytest.mark.parametrize(
    ("at", "accumulation", "place", "weights"),
    [
        (0, 1, "epoch 0, batch 1", "that this run began with"),
        (9, 1, "epoch 2, batch 0", r"of epoch \d"),
        (5, 2, "epoch 1, batch 2", "of epoch 0"),
    ],
)
def test_a_gradient_spoils_the_update_before_the_loss(
    tmp_path: Path, at: int, accumulation: int, place: str, weights: str
) -> None:
    """The batch of that update is looked at as well, also where it was in the epoch before, or one of several."""
    network = Spoiled(at, lambda h: h + (h - h).sqrt())
    told = rf"{place}: the training loss is nan\. Computed again with the weights {weights}, first\.1 \(Function, "
    with pytest.raises(RunFailed, match=told + r".*\) is the first module that passes back gradients"):
        tiny_trainer(tmp_path, tiny_settings(batch_accumulation=accumulation), model=network).run()


def test_updates_that_diverge_are_told_from_a_layer_at_fault(tmp_path: Path) -> None:
    advice = r"epoch \d, batch \d: .* Lower optim\.base_lr.*32-true\..* Computed again with the weights "
    reason = (
        r".*, loss and gradients of this batch are finite: .*first\.weight \(Linear\), .* and \d+ more, which are not"
    )
    with pytest.raises(RunFailed, match=advice + reason):
        tiny_trainer(tmp_path, lr=1e38, optimizer="sgd", scheduler="none").run()


def test_weights_that_were_never_initialised(tmp_path: Path) -> None:
    network = TinyModel()
    network.last.bias.data[:] = math.nan
    told = r"epoch 0, batch 0: .* began with, last \(Linear\) is .*last\.bias \(Linear\): how are they initialised"
    with pytest.raises(RunFailed, match=told):
        tiny_trainer(tmp_path, model=network).run()


def test_a_healthy_run_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbench.train.trainer.find_origin", lambda *given: pytest.fail("it was"))
    tiny_trainer(tmp_path, tiny_settings(max_epoch=2)).run()


def test_a_run_whose_origin_is_not_found_says_what_it_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphbench.train.nonfinite.Snapshot", lambda *given: bytearray(1 << 60))
    with pytest.raises(
        RunFailed,
        match=r"batch \d: the training loss is nan\. Lower optim\.base_lr.*32-true\.((?!Computed).)* No checkpoint",
    ):
        tiny_trainer(tmp_path, model=Spoiled(3, lambda h: h / 0)).run()
