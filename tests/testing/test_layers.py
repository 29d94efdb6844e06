"""The checks for layers of plug-ins: each finds the layer that it is there for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench.contract import Capturable, HasAttentionWeights
from graphbench.layers.contract import GlobalAttention, LocalLayer
from graphbench.ops.segment import segment_mean, segment_repeat
from graphbench.registry import FromContext
from graphbench.structures import GraphBatch
from graphbench.testing import check_layer, example_batch, layer_checks, layer_subject
from graphbench.transforms.heat_kernel_se import HeatKernelSE


class Sound(GlobalAttention):
    """The mean of a graph."""

    def __init__(self, dim: FromContext[int], *, dropout: FromContext[float] = 0.0, scale: float = 1.0):
        super().__init__()
        self.scale = scale
        self.dropout = nn.Dropout(dropout)
        self.lin = nn.Linear(dim, dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        mean = segment_mean(self.dropout(self.lin(h)), batch.ragged)
        return self.scale * segment_repeat(mean, batch.ragged)


class Looked(Sound, HasAttentionWeights):
    """With its weights: 1 / n."""

    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        return [torch.full((1, size, size), 1 / max(size, 1)) for size in batch.ragged.sizes]


class LookedWhole(Looked):
    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        return torch.ones(len(h), 9, 9)  # type: ignore[return-value]


class LookedFlat(Looked):
    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        return [weights[0] for weights in super().attention_weights(h, e, batch)]


class LookedWide(Looked):
    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        return [torch.ones(2, 3, 3) for _ in batch.ragged.sizes]


class LookedElsewhere(Looked):
    def attention_weights(self, h: Tensor, batch: GraphBatch) -> list[Tensor]:  # type: ignore[override]
        return [torch.ones(2, 3, 3) for _ in batch.ragged.sizes]


class Mixing(Sound):
    """Softmax over the nodes of the whole batch."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        return torch.softmax(h @ h.T, dim=1) @ self.dropout(self.lin(h))


class Ordered(Sound):
    """The place of a node in its graph, added."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        place = torch.arange(len(h)) - batch.ragged.ptr[batch.ragged.graph_id]
        return self.dropout(self.lin(h)) + place[:, None]


class SaysOrdered(Ordered):
    permutation_equivariant = False


class Idle(Sound):
    """Parameters that nothing depends on."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        return self.dropout(h) * self.lin.bias


class Writing(Sound):
    """Writes onto the batch."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        batch.edge_index.zero_()
        return super().forward(h, e, batch)


class Counting(Sound):
    """State that is in no state_dict."""

    calls = 0

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        self.calls += 1
        return super().forward(h, e, batch) * self.calls


class NeedsGraphs(Sound):
    """Fails without a node."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        return super().forward(h, e, batch) + 0 * h.max()


class AlwaysRandom(Sound):
    """Dropout in evaluation, too."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        return nn.functional.dropout(super().forward(h, e, batch), self.dropout.p)


class Narrow(Sound):
    """Loses a column."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        return super().forward(h, e, batch)[:, 1:]


class Detached(Sound):
    """Learns nothing."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        return super().forward(h, e, batch).detach()


class Local(LocalLayer):
    """States as they came, mapped."""

    def __init__(self, dim: FromContext[int]):
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        return self.lin(h), e


BROKEN = [
    (Mixing, "batch_independence: h of graph 0 depends on its batch-mates"),
    (Ordered, "permutation: h depends on the numbering"),
    (Idle, "gradients: no gradient reaches lin.weight"),
    (Detached, "gradients: the outputs depend on no parameter: are they detached, or the inputs themselves?"),
    (Writing, "untouched: edge_index of the batch was modified"),
    (Counting, "determinism: the same seed gives other outputs"),
    (NeedsGraphs, "corner_cases: "),
    (AlwaysRandom, "dropout: evaluation is random"),
    (Narrow, r"outputs: h has shape \(27, 11\), not \(27, 12\)"),
]


@pytest.mark.parametrize(("component", "message"), BROKEN)
def test_a_broken_layer_is_told_what_it_breaks(component: type[GlobalAttention], message: str) -> None:
    with pytest.raises(AssertionError, match=rf"{component.__name__} breaks the contract of layers:(.|\n)*{message}"):
        check_layer(component)


def test_a_sound_layer_passes() -> None:
    assert check_layer(Sound, scale=0.5) == layer_checks(Sound)
    check_layer(Sound, dropout=0.2)
    check_layer(SaysOrdered)
    check_layer(Local)
    check_layer(Sound, dim=20)
    check_layer(Local, context={"dim": 20})
    with pytest.raises(AssertionError, match=r"outputs: RuntimeError: mat1 and mat2 .*27x8 and 20x20"):
        check_layer(Sound, dim=20, context={"dim": 8})
    assert set(layer_checks(Sound)) - set(layer_checks(SaysOrdered)) == {"permutation"}
    assert "dropout" not in layer_checks(Local)
    assert isinstance(layer_subject(Sound).module, Capturable)


def test_a_layer_that_reads_more_brings_its_graphs() -> None:
    class Reading(Sound):
        def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
            return super().forward(h, e, batch) + batch.pe["Mine.number"]

    with pytest.raises(AssertionError, match=r"outputs: KeyError: 'Mine\.number'"):
        check_layer(Reading)
    check_layer(Reading, example=lambda *sizes, **options: example_batch(*sizes, **options, pe={"Mine.number": (1,)}))


@pytest.mark.parametrize(
    ("component", "received"),
    [
        (HeatKernelSE, "the class HeatKernelSE, which check_transform checks"),
        (list, "the class list$"),
        (Sound(4), "an object of Sound"),
        ("Sound", "an object of str"),
    ],
)
def test_what_is_no_class_of_a_layer_is_refused(component: Any, received: str) -> None:
    with pytest.raises(TypeError, match=f"takes the class of an attention, .*, received {received}"):
        check_layer(component)


def test_attention_weights_are_those_of_every_graph() -> None:
    assert "attention_weights" in check_layer(Looked)
    for wrong, told in (
        (LookedWhole, "must return a list of one .heads, n, n. tensor per graph"),
        (LookedFlat, "must return a list of one .heads, n, n. tensor per graph"),
        (LookedWide, "attention_weights gave matrices"),
        (LookedElsewhere, "LookedElsewhere.attention_weights must take the arguments of forward"),
    ):
        with pytest.raises(AssertionError, match=f"breaks the contract of layers:\n  attention_weights: .*{told}"):
            check_layer(wrong)
