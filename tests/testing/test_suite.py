"""The checks for components other than layers: each finds the component that it is there for, and sound ones pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench import testing
from graphbench.data.store import GraphStore
from graphbench.encoders.contract import BatchEncoder, ColumnEncoder, FeatureEncoder
from graphbench.heads.contract import Head, Row
from graphbench.models.contract import Frame, Model
from graphbench.ops.segment import segment_mean
from graphbench.registry import FromContext
from graphbench.structures import GraphBatch
from graphbench.structures.capacity import RealRows
from graphbench.tasks.loss import Loss
from graphbench.tasks.metric import Metric
from graphbench.testing import check_encoder, check_head, check_loss, check_metric, check_model, check_transform
from graphbench.testing.suite import KINDS
from graphbench.train.optimizers.sgd import SGD
from graphbench.transforms.base import Transform


class Degree(Transform):
    """In-degrees."""

    version = 1
    outputs = ("degree",)

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        first = torch.repeat_interleave(store.node_ptr[:-1], store.edge_counts)
        degree = torch.bincount(store.edge_index[1] + first, minlength=store.num_nodes)
        return {"degree": degree.float().unsqueeze(1)}


class Standardised(Degree):
    """Over the graphs of the data set, test graphs included."""

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        degree = super().__call__(store)["degree"]
        return {"degree": (degree - degree.mean()) / degree.std().clamp(min=1e-6) if len(degree) > 1 else degree}


class Misnamed(Degree):
    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        return {"degrees": super().__call__(store)["degree"]}


class Shortened(Degree):
    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        return {"degree": super().__call__(store)["degree"][1:]}


class Drawn(Degree):
    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        return {"degree": torch.rand(store.num_nodes, 1)}


class Overwriting(Degree):
    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        store.edge_index[0] = store.edge_index[1]
        return super().__call__(store)


class Forgetful(Degree):
    """Does not keep its argument."""

    def __init__(self, power: float = 1.0) -> None:
        pass


class Features(FeatureEncoder):
    """A linear map of the features."""

    def __init__(self, dim: FromContext[int], node_in: FromContext[int]) -> None:
        super().__init__()
        self.lin = nn.Linear(node_in, dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        return self.lin(batch.x)


class Centred(Features):
    def forward(self, batch: GraphBatch) -> Tensor:
        h = super().forward(batch)
        return h - h.mean(0)


class Places(ColumnEncoder):
    """The place of a node in its graph."""

    def __init__(self, dim_pe: int = 4) -> None:
        super().__init__()
        self.lin = nn.Linear(1, dim_pe)

    def forward(self, batch: GraphBatch) -> Tensor:
        place = torch.arange(batch.num_nodes) - batch.ragged.ptr[batch.ragged.graph_id]
        return self.lin(place.double().unsqueeze(1))


class Biased(BatchEncoder):
    """States as they came, and a bias for pairs."""

    def __init__(self, heads: FromContext[int]) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1, heads))

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        distance = batch.pairs.distance.double().unsqueeze(1)
        return h * (1 + self.bias.sum()), batch.with_state(pair_bias=distance * self.bias)


class Summing(Biased):
    """Over all pairs of a batch."""

    def forward(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, GraphBatch]:
        h, after = super().forward(h, batch)
        return h, after.with_state(pair_bias=after.state.pair_bias / after.state.pair_bias.abs().sum().clamp(min=1e-9))


class Pooled(Head):
    """A linear map of the mean; does not say what it predicts."""

    def __init__(self, dim_in: FromContext[int], out_dim: FromContext[int]) -> None:
        super().__init__()
        self.lin = nn.Linear(dim_in, out_dim)

    def forward(self, h: Any, batch: GraphBatch) -> Tensor:
        return self.lin(segment_mean(h, batch.ragged))


class SaysNodes(Pooled):
    predicts: ClassVar[Row | None] = "node"


class Ranked(Pooled):
    """Of nodes, against all of the batch."""

    def forward(self, h: Any, batch: GraphBatch) -> Tensor:
        return self.lin(h) - self.lin(h).mean(0)


class Whole(Model):
    """Encoder and head."""

    def __init__(self, frame: Frame, *, dropout: FromContext[float] = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.encoder, self.head = frame.encoder, frame.head(frame.dim_encoded)

    def forward(self, batch: GraphBatch) -> Tensor:
        h, batch = self.encoder(batch)
        return self.head(self.dropout(h), batch)


class Idle(Whole):
    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.lin = nn.Linear(2, 2)


class Remembering(Whole):
    """State that is in no state_dict."""

    calls = 0

    def forward(self, batch: GraphBatch) -> Tensor:
        self.calls += 1
        return super().forward(batch) * self.calls


class Huber(Loss):
    kinds = ("regression",)
    row_wise = True

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        return self.reduce(F.huber_loss(pred, true, reduction="sum") / self.out_dim, len(true))


class Bare(Huber):
    """Without reduce: NaN for no rows, and a mean where a sum is asked for."""

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        return F.huber_loss(pred, true)


class Filling(Huber):
    """Takes unknown targets for zeros."""

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        return super().value(pred, true.nan_to_num(0))


class Recency(Huber):
    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        return self.reduce(((pred - true).square().mean(1) * torch.arange(len(true))).sum(), len(true))


class Unmasked(Huber):
    capturable = True


class Straight(Huber):
    """Another gradient than that of the value."""

    def value(self, pred: Tensor, true: Tensor, real: RealRows | None = None) -> Tensor:
        value = super().value(pred, true)
        return 2 * value - value.detach()


class Error(Metric):
    maximize = False
    kinds = ("regression",)

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        return (pred - true.nan_to_num(0)).abs().double().mean()


class Upwards(Error):
    maximize = True


class Averaging(Error):
    """Over all calls."""

    total = 0.0

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        self.total += super().value(pred, true)
        return self.total


class Last(Error):
    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        return super().value(pred[-3:], true[-3:])


class Rounded(Error):
    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        return super().value(pred, true) + (pred.dtype == torch.float32)


class Spread(Error):
    """NaN, without a reason, where there is one row."""

    def value(self, pred: Tensor, true: Tensor) -> Tensor:
        return super().value(pred, true) * (
            1 + 0 * (pred.double() - pred.double().mean(0)).abs().mean() / (len(pred) - 1)
        )


SOUND = [
    (check_transform, Degree, {}),
    (check_encoder, Features, {"dim": 5}),
    (check_encoder, Biased, {"heads": 2}),
    (check_head, Pooled, {"out_dim": 4}),
    (check_model, Whole, {}),
    (check_loss, Huber, {"size_average": "sum"}),
    (check_metric, Error, {}),
]
BROKEN = [
    (check_transform, Standardised, "graph_independence: pe.Standardised.degree of graph 0 depends on other graphs"),
    (check_transform, Misnamed, r"outputs: ContractError: .*named degree \(outputs\)"),
    (check_transform, Shortened, "outputs: ValueError: "),
    (check_transform, Drawn, "determinism: a second call gives another degree"),
    (check_transform, Overwriting, "untouched: edge_index of the graphs was modified"),
    (check_transform, Forgetful, "outputs: AttributeError: .*power"),
    (check_encoder, Centred, "batch_independence: encoding of graph 0 depends on its batch-mates"),
    (check_encoder, Places, "permutation: encoding depends on the numbering"),
    (check_encoder, Summing, "batch_independence: pair_bias of graph 0 depends on its batch-mates"),
    (check_head, Ranked, "batch_independence: prediction of graph 0"),
    (check_head, SaysNodes, r"outputs: prediction has shape \(5, 3\), not \(27, 3\)"),
    (check_model, Idle, "gradients: no gradient reaches lin.weight"),
    (check_model, Remembering, "determinism: the same seed gives other outputs"),
    (check_loss, Bare, r"few_rows: regression: 0 rows have the loss nan, not 0 \(least_rows = 1; Loss.reduce"),
    (check_loss, Filling, r"unknown: regression: unknown targets \(NaN\) count"),
    (check_loss, Recency, "order: regression: the loss depends on the order of rows"),
    (check_loss, Unmasked, r"padding: regression: .*capturable"),
    (check_loss, Straight, "gradients: regression: gradients are not those of finite differences"),
    (check_metric, Upwards, r"direction: regression: the truth has 0.0, .* and maximize = True"),
    (check_metric, Averaging, "value: regression: the same predictions have the value"),
    (check_metric, Last, "order: regression: rows in another order"),
    (check_metric, Rounded, "precision: regression: "),
    (check_metric, Spread, "degenerate: regression: nan without a reason"),
]


@pytest.mark.parametrize(("check", "component", "arguments"), SOUND)
def test_a_sound_component_passes(check: Callable[..., list[str]], component: type, arguments: dict[str, Any]) -> None:
    assert check(component, **arguments)


@pytest.mark.parametrize(("check", "component", "message"), BROKEN)
def test_a_broken_component_is_told_what_it_breaks(
    check: Callable[..., list[str]], component: type, message: str
) -> None:
    with pytest.raises(AssertionError, match=rf"{component.__name__} breaks the contract of \w+:(.|\n)*{message}"):
        check(component)


def test_a_mean_where_a_sum_is_asked_for_is_told() -> None:
    with pytest.raises(AssertionError, match="reduction: regression: no sum over rows, each there twice"):
        check_loss(Bare, size_average="sum")


def test_dropout_is_checked_where_a_component_takes_it() -> None:
    assert "dropout" in check_model(Whole)
    assert "dropout" not in check_head(Pooled)


def test_a_run_is_about_one_kind_of_task() -> None:
    class Both(Error):
        kinds = ("regression", "multilabel")

    with pytest.raises(AssertionError, match="multilabel"):
        check_metric(Both)
    check_metric(Both, context={"task_type": "regression", "out_dim": 2})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.function)
def test_every_kind_has_a_function_which_names_the_right_one_for_others(kind: Any) -> None:
    function = getattr(testing, kind.function)
    assert kind.function in testing.__all__
    of_others = Degree if kind.function != "check_transform" else Whole
    right = "check_transform" if of_others is Degree else "check_model"
    received = f"received the class {of_others.__name__}, which {right} checks"
    with pytest.raises(TypeError, match=re.escape(f"{kind.function} takes the class of {kind.what}, {received}")):
        function(of_others)
    with pytest.raises(TypeError, match=r"received the class SGD$"):
        function(SGD)
