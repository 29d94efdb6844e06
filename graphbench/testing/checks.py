"""Checks that every component has to pass, wherever it lies; a failure is an ``AssertionError`` that says why.

A check works on a :class:`Subject`: a module and the way it is called on a batch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights, checked_attention_weights
from graphbench.structures import GraphBatch
from graphbench.testing.graphs import alone, example_batch, pair_order, permutations, permuted, tensors_of

Level = Literal["node", "edge", "graph", "pair", "label"]


@dataclass(frozen=True)
class Subject:
    """Component under test, and how it is called.

    Attributes:
        module: in float64 where tolerances matter; parameters away from special values (:func:`shaken`).
        call: ``(module, batch) -> outputs by name``.
        level: for every output whether its rows are ``"node"``, ``"edge"``, ``"graph"``, ``"pair"`` (all of a graph) or
            ``"label"`` (pairs asked about); None: others, which are neither counted nor permuted.
        width: columns of every output, or its shape without rows; None: any.
        idle: parameters that get no gradient by design (the norm of a missing branch).
    """

    module: nn.Module
    call: Callable[[nn.Module, GraphBatch], Mapping[str, Tensor]]
    level: Mapping[str, Level | None]
    width: Mapping[str, int | tuple[int, ...] | None]
    idle: frozenset[str] = frozenset()

    def __call__(self, batch: GraphBatch) -> Mapping[str, Tensor]:
        """Outputs by name."""
        return self.call(self.module, batch)


def shaken(module: nn.Module, seed: int = 0) -> nn.Module:
    """Moves parameters and running statistics away from 0 and 1, where forgotten terms do not show."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
        for name, buffer in module.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.add_(0.3 * torch.rand(buffer.shape, generator=generator, dtype=buffer.dtype))
    return module


def check_outputs(subject: Subject, batch: GraphBatch) -> None:
    """Shapes as announced, type of the parameters, nothing infinite; in training and in evaluation."""
    for training in (True, False):
        _checked_outputs(subject, batch, training)


def _checked_outputs(subject: Subject, batch: GraphBatch, training: bool) -> Mapping[str, Tensor]:
    subject.module.train(training)
    outputs = subject(batch)
    require(set(outputs) == set(subject.level), f"outputs are {sorted(outputs)}, not {sorted(subject.level)}")
    for name, value in outputs.items():
        level, width = subject.level[name], subject.width[name]
        rows = value.shape[:1] if level is None else (number_of_rows(batch, level),)
        shape = (*rows, *(value.shape[1:] if width is None else (width,) if isinstance(width, int) else width))
        require(value.shape == shape, f"{name} has shape {tuple(value.shape)}, not {shape}")
        require(bool(torch.isfinite(value).all()), f"{name} is not finite (training={training})")
    return outputs


def number_of_rows(batch: GraphBatch, level: Level) -> int:
    """Rows of an output."""
    if level == "label":
        return batch.edge_sets["label"].num_pairs
    numbers = {"node": batch.num_nodes, "edge": batch.num_edges, "graph": batch.num_graphs}
    return batch.ragged.num_pairs if level == "pair" else numbers[level]


def check_batch_independence(subject: Subject, batch: GraphBatch, tolerance: float = 1e-10) -> None:
    """In evaluation a graph's outputs are the same alone and in company."""
    subject.module.eval()
    together = subject(batch)
    first = dict.fromkeys(together, 0)  # rows of a graph lie behind those of the graphs before it
    for graph in range(batch.num_graphs):
        for name, value in subject(alone(batch, graph)).items():
            last = first[name] + len(value)
            expected = together[name][first[name] : last]
            assert_close(value, expected, tolerance, f"{name} of graph {graph} depends on its batch-mates")
            first[name] = last


def check_permutation(
    subject: Subject,
    batch: GraphBatch,
    tolerance: float = 1e-10,
    renumbered: Callable[[GraphBatch, Tensor, Tensor], GraphBatch] = permuted,
) -> None:
    """Other node numbers permute node outputs, other edge order edge outputs; outputs of graphs and labels stay.

    Args:
        subject: component under test.
        batch: the graphs.
        tolerance: of relative differences.
        renumbered: makes the same graphs from orders of nodes and edges.
    """
    subject.module.eval()
    node, edge = permutations(batch)
    before, after = subject(batch), subject(renumbered(batch, node, edge))
    order = {"node": node, "edge": edge, "pair": pair_order(batch, node)}
    for name, level in subject.level.items():
        if level is not None:
            expected = before[name][order[level]] if level in order else before[name]
            assert_close(after[name], expected, tolerance, f"{name} depends on the numbering")


def check_gradients(subject: Subject, batch: GraphBatch, *, vectors: bool = False) -> None:
    """Every parameter that is not idle gets a finite gradient, and every matrix one that is not zero.

    Args:
        subject: component under test.
        batch: with at least one edge.
        vectors: refuse zero gradients of vectors, too; a bias in front of a normalisation has them.
    """
    subject.module.train()
    subject.module.zero_grad(set_to_none=True)
    torch.manual_seed(11)
    _differentiate(
        subject.module,
        _total(value * torch.cos(torch.arange(value.numel())).view_as(value) for value in subject(batch).values()),
    )
    for name, parameter in subject.module.named_parameters():
        if name in subject.idle:
            require(parameter.grad is None, f"{name} should get no gradient")
            continue
        if parameter.grad is None:
            raise AssertionError(f"no gradient reaches {name}")
        require(bool(torch.isfinite(parameter.grad).all()), f"the gradient of {name} is not finite")
        if vectors or parameter.dim() > 1:
            require(bool(parameter.grad.abs().max() > 0), f"the gradient of {name} is zero")
    subject.module.zero_grad(set_to_none=True)


def check_corner_cases(subject: Subject, example: Callable[..., GraphBatch] = example_batch) -> None:
    """No graphs, empty graphs, one node, no edges: shapes fit, values and gradients are finite.

    Args:
        subject: component under test.
        example: like :func:`example_batch`, called with ``sizes`` and ``edges``.
    """
    for sizes, edges in (((), True), ((0,), True), ((0, 3, 0), True), ((1,), True), ((4, 3), False), ((2, 1), False)):
        batch = example(sizes, edges=edges)
        for training in (True, False):
            subject.module.zero_grad(set_to_none=True)
            total = _total(_checked_outputs(subject, batch, training).values())
            if total.requires_grad:
                total.backward()
            for name, parameter in subject.module.named_parameters():
                finite = parameter.grad is None or bool(torch.isfinite(parameter.grad).all())
                case = f"graphs of {sizes} nodes, edges={edges}, training={training}"
                require(finite, f"the gradient of {name} is not finite for {case}")
    subject.module.zero_grad(set_to_none=True)


def check_untouched(subject: Subject, batch: GraphBatch) -> None:
    """Forward and backward leave the batch as it was."""
    before = {name: value.clone() for name, value in tensors_of(batch)}
    subject.module.train()
    _differentiate(subject.module, _total(subject(batch).values()))
    subject.module.zero_grad(set_to_none=True)
    after = dict(tensors_of(batch))
    require(after.keys() == before.keys(), "something was added to the batch, or taken from it")
    for name, value in before.items():
        require(same(value, after[name]), f"{name} of the batch was modified")


def check_state_dict(subject: Subject, batch: GraphBatch) -> None:
    """All state is in the state_dict: a copy with other parameters gives the same outputs after loading."""
    with torch.no_grad():  # what a module keeps of a forward pass can only be copied without gradients
        subject.module.train()
        subject(batch)
    other = Subject(shaken(copy.deepcopy(subject.module), seed=5), subject.call, subject.level, subject.width)
    other.module.load_state_dict(subject.module.state_dict())
    subject.module.eval()
    other.module.eval()
    before, after = subject(batch), other(batch)
    for name, value in before.items():
        require(torch.equal(value, after[name]), f"{name} depends on more than the state_dict has")


def check_determinism(subject: Subject, batch: GraphBatch) -> None:
    """In training one seed gives one result, outputs and gradients, bit for bit."""
    subject.module.train()
    state = copy.deepcopy(subject.module.state_dict())
    results = []
    for _ in range(2):
        subject.module.load_state_dict(state)
        subject.module.zero_grad(set_to_none=True)
        torch.manual_seed(11)
        outputs = subject(batch)
        _differentiate(subject.module, _total(value * value for value in outputs.values()))
        gradients = [p.grad.clone() for p in subject.module.parameters() if p.grad is not None]
        results.append([value.detach() for value in outputs.values()] + gradients)
    subject.module.load_state_dict(state)
    subject.module.zero_grad(set_to_none=True)
    same = all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    require(same, "the same seed gives other outputs or gradients the second time")


def check_dropout(subject: Subject, batch: GraphBatch) -> None:
    """Dropout acts in training, and in evaluation nothing is random; for a module with a dropout above 0."""
    for training, what in ((True, "dropout does nothing in training"), (False, "evaluation is random")):
        subject.module.train(training)
        first, second = subject(batch), subject(batch)
        same = all(torch.equal(value, second[name]) for name, value in first.items())
        require(same is not training, what)


def check_attention_weights(subject: Subject, batch: GraphBatch) -> None:
    """In evaluation, one (heads, n, n) tensor per graph of n nodes; for what inherits ``HasAttentionWeights``."""
    found: list[list[Tensor]] = []

    def ask(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        assert isinstance(module, HasAttentionWeights)
        found.append(checked_attention_weights(module, *args, **kwargs))

    subject.module.eval()
    handle = subject.module.register_forward_hook(ask, with_kwargs=True)
    try:
        subject(batch)
    finally:
        handle.remove()
    sizes = [tuple(each.shape[1:]) for each in found[0]]
    require(
        sizes == [(size, size) for size in batch.ragged.sizes],
        f"attention_weights gave matrices {sizes} for graphs of {list(batch.ragged.sizes)} nodes",
    )


CHECKS: dict[str, Callable[[Subject, GraphBatch], None]] = {
    "outputs": check_outputs,
    "batch_independence": check_batch_independence,
    "permutation": check_permutation,
    "gradients": check_gradients,
    "untouched": check_untouched,
    "state_dict": check_state_dict,
    "determinism": check_determinism,
}


def _differentiate(module: nn.Module, total: Tensor) -> None:
    """Gradients of a sum of outputs, which a module without parameters has none of.

    Raises:
        AssertionError: the outputs do not depend on the parameters.
    """
    if total.requires_grad:
        total.backward()
    else:
        require(
            not any(parameter.requires_grad for parameter in module.parameters()),
            "the outputs depend on no parameter: are they detached, or the inputs themselves?",
        )


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are equal, NaN where the other has it."""
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def assert_close(value: Tensor, expected: Tensor, tolerance: float, message: str) -> None:
    """Refuses values that differ by more than ``tolerance`` beside the largest that is expected, or beside 1."""
    require(value.shape == expected.shape, f"{message}: shape {tuple(value.shape)}, not {tuple(expected.shape)}")
    if value.numel():
        error = ((value - expected).abs().max() / expected.abs().max().clamp(min=1)).item()
        require(error <= tolerance, f"{message}: relative difference {error:.1e}")


def _total(values: Iterable[Tensor]) -> Tensor:
    return torch.stack([value.sum() for value in values]).sum()


def require(holds: bool, message: str) -> None:
    """Refuses what does not hold, with or without ``python -O``."""
    if not holds:
        raise AssertionError(message)
