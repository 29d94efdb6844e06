"""A trained model as a program of PyTorch alone: ``torch.export``, one graph at a time, any number of nodes and edges.

The program takes what a batch of one graph holds, by name (``edge_index``, ``x``, ``edge_attr``, encodings as
``pe.<name>`` and ``edge_pe.<name>``), see :func:`inputs_of`. Attention is traced by the reference formulas of
:mod:`graphbench.ops`, whose memory is quadratic in the nodes of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from graphbench.data.graph_records import level_of
from graphbench.errors import UserError
from graphbench.ops.backend import traced
from graphbench.structures import GraphBatch, Ragged
from graphbench.structures.buckets import Bucket, PaddedLayout

if TYPE_CHECKING:
    from graphbench.predict.trained import TrainedModel
    from graphbench.structures import DataInfo

FILE, COMPILED = "model.pt2", "model.aoti.pt2"
LEAST = 3
"""Nodes and edges that a graph must have: PyTorch treats sizes below as constants."""
SIZES = (17, 3, 40)
"""Nodes of the graphs that a program is traced with (the first) and compared on."""


def inputs_of(batch: GraphBatch) -> dict[str, Tensor]:
    """The inputs of a program for a batch of one graph.

    Raises:
        UserError: the graph has something that a program has no input for.
    """
    further = {"sets of pairs": batch.edge_sets, "pair_pe": batch.pair_pe, "distances": batch.pairs, "hops": batch.hops}
    named = [name for name, value in further.items() if value]
    if named or not (batch.x is None or isinstance(batch.x, Tensor)):
        raise UserError(f"no program: the model reads {', '.join(named) or 'sparse features'}, which have no input.")
    fields = {"edge_index": batch.edge_index, "x": batch.x, "edge_attr": batch.edge_attr}
    encodings = [("pe", batch.pe), ("edge_pe", batch.edge_pe)]
    named_encodings = {f"{prefix}.{name}": value for prefix, each in encodings for name, value in each.items()}
    return {name: value for name, value in {**fields, **named_encodings}.items() if isinstance(value, Tensor)}


def write_program(trained: TrainedModel, file: Path) -> float:
    """Traces the model of one run, compares it with the program on graphs of other sizes, and writes the program.

    Returns:
        Largest difference, relative to the largest output of the graph.

    Raises:
        UserError: the model cannot be traced for graphs of any size, or the program computes something else.
    """
    _, model = trained.run
    if level_of(trained.info.task) == "pair":
        raise UserError("no program: the model predicts pairs of nodes, which have no input.")
    batches = [trained.batch_of([graph]) for graph in _examples(trained.info)]
    inputs = [inputs_of(batch) for batch in batches]
    if all("edge" in name for name in inputs[0]):
        raise UserError("no program: the graphs have neither features nor encodings: no input has a row per node.")
    nodes, edges = (torch.export.Dim(name, min=LEAST, max=1 << 24) for name in ("nodes", "edges"))
    shapes = {name: {0: edges if "edge" in name else nodes} for name in inputs[0]} | {"edge_index": {1: edges}}
    frozen = _OneGraph(model).requires_grad_(False).eval()
    try:
        program = torch.export.export(frozen, (inputs[0],), dynamic_shapes=(shapes,), strict=False)
    except Exception as error:  # whatever a layer does that cannot be traced, in the words of the tracer
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"no program: this model cannot be traced for graphs of any size ({reason}).") from error
    difference = max(_differences(program.module(), model, batches, inputs))
    if not difference < 1e-4:
        raise UserError(f"no program: traced, it differs from the model by {difference:.1e} of the largest output.")
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, file)
    return difference


def write_compiled(trained: TrainedModel, program: Path, file: Path) -> float:
    """Compiles a program of :func:`write_program` ahead of time for this processor, and compares it with the model.

    ``torch._inductor.aoti_load_package(file)`` is the model as compiled code; C++ loads the same file. Needs a C++
    compiler and takes a minute.

    Args:
        trained: model that the program was made of.
        program: file of the program.
        file: file to be written; its name ends in ``.pt2``.

    Returns:
        Largest difference, relative to the largest output of the graph.

    Raises:
        UserError: the compiler is missing or fails, or the compiled program computes something else.
    """
    _, model = trained.run
    batches = [trained.batch_of([graph]) for graph in _examples(trained.info)]
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        torch._inductor.aoti_compile_and_package(torch.export.load(program), package_path=str(file))
        compiled = torch._inductor.aoti_load_package(str(file))
    except Exception as error:  # of the C++ compiler, in its words
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"no compiled program: PyTorch's compiler failed ({reason}).") from error
    difference = max(_differences(compiled, model, batches, [inputs_of(batch) for batch in batches]))
    if not difference < 1e-4:
        file.unlink()
        raise UserError(f"no compiled program: it differs from the model by {difference:.1e} of the largest output.")
    return difference


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


class _OneGraph(nn.Module):
    """A model as a function of named tensors of one graph."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tensors: dict[str, Tensor]) -> Tensor:
        edge_index = tensors["edge_index"]
        nodes = next(value.shape[0] for name, value in tensors.items() if "edge" not in name)
        ptr = torch.cat([edge_index.new_zeros(1), edge_index.new_full((1,), nodes)])
        batch = GraphBatch(
            _OneSize(ptr, (nodes,)),
            edge_index,
            x=tensors.get("x"),
            edge_attr=tensors.get("edge_attr"),
            pe=_named(tensors, "pe."),
            edge_pe=_named(tensors, "edge_pe."),
        )
        with traced():
            predicted: Tensor = self.model(batch)
        return predicted


class _OneSize(Ragged):
    """The partition of one graph whose size is a symbol: nothing is asked of it that would make it a number."""

    @property
    def num_graphs(self) -> int:
        return 1

    @cached_property
    def num_rows(self) -> int:
        return self.sizes[0]

    @cached_property
    def max_size(self) -> int:
        return self.sizes[0]

    @cached_property
    def graph_id(self) -> Tensor:
        return self.ptr.new_zeros(self.sizes[0])

    @cached_property
    def layout(self) -> PaddedLayout:
        rows = torch.arange(self.sizes[0], device=self.device)
        return PaddedLayout((Bucket((0,), self.sizes[0], 0, None),), None, rows, None)

    def layout_for_pairs(self, heads: int, pairs: int) -> PaddedLayout:
        return self.layout


def _examples(info: DataInfo) -> Iterator[dict[str, Tensor]]:
    """Rings with chords that look like the data of the training."""
    draw = torch.Generator().manual_seed(0)

    def features(level: str, rows: int, columns: int) -> Tensor | None:
        if not columns:
            return None
        vocabulary = info.vocabularies.get(level, ())
        if not vocabulary:
            return torch.randn(rows, columns, generator=draw)
        return torch.stack([torch.randint(count, (rows,), generator=draw) for count in vocabulary], 1)

    for size in SIZES:
        here = torch.arange(size)
        pairs = torch.cat([torch.stack([here, (here + step) % size]) for step in ((1, 4) if size > 8 else (1,))], 1)
        edges = torch.cat([pairs, pairs.flip(0)], 1)
        x, edge_attr = features("node", size, info.node_in), features("edge", edges.shape[1], info.edge_in)
        graph = {"edge_index": edges, "x": x, "edge_attr": edge_attr, "num_nodes": torch.tensor(size)}
        yield {name: value for name, value in graph.items() if value is not None}


@torch.no_grad()
def _differences(
    program: Callable[..., Tensor], model: nn.Module, batches: list[GraphBatch], inputs: list[dict[str, Tensor]]
) -> Iterator[float]:
    for batch, tensors in zip(batches, inputs, strict=True):
        expected = model(batch)
        yield float((program(tensors) - expected).abs().max() / expected.abs().max().clamp(min=1e-6))
