"""Hidden states of a trained model: what its prediction head reads, or what any module returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from graphbench import atomic
from graphbench.contract import HasPooling, PredictionHead
from graphbench.errors import UserError, unknown
from graphbench.structures import GraphBatch, Ragged, as_dense

ENDING = ".npz"


@dataclass(frozen=True, eq=False, repr=False)
class Embeddings:
    """Rows of nodes, of graphs, or both, in the order of the graphs.

    Attributes:
        module: name of the module that returned them, or of the head that reads them.
        nodes: (R, d) one row per node, graph after graph; None where the module has one per graph.
        graphs: (G, d) one row per graph: pooled as the head does, or as the module returned it; None where there is
            neither.
        graph: (R,) number of every node's graph, from 0.
        node: (R,) number of every node inside its graph.
        num_graphs: G.
    """

    module: str
    nodes: Tensor | None
    graphs: Tensor | None
    graph: Tensor
    node: Tensor
    num_graphs: int

    def __repr__(self) -> str:
        """One line: what there is, with shapes."""
        there = [f"{name} {tuple(rows.shape)}" for name, rows in self._rows().items()]
        return f"Embeddings({self.module}: {', '.join(there)})"

    def _rows(self) -> dict[str, Tensor]:
        named = {"nodes": self.nodes, "graphs": self.graphs}
        return {name: rows for name, rows in named.items() if rows is not None}

    @property
    def per_graph(self) -> list[Tensor]:
        """(n, d) rows of the nodes, by graph.

        Raises:
            ValueError: there are none.
        """
        if self.nodes is None:
            raise ValueError(f"{self.module} has one row per graph; they are in graphs")
        return [self.nodes[self.graph == number] for number in range(self.num_graphs)]

    def of_nodes(self, rows: Tensor) -> Embeddings:
        """Embeddings of a subset of nodes, numbered through all graphs; rows of graphs stay."""
        nodes = None if self.nodes is None else self.nodes[rows]
        return replace(self, nodes=nodes, graph=self.graph[rows], node=self.node[rows])

    def write(self, file: str | Path) -> None:
        """Writes ``nodes``, ``graph`` and ``node``, and ``graphs``, as far as there are any, to a ``.npz`` file."""
        file = Path(file)
        check_ending(file)
        rows = self._rows() | ({} if self.nodes is None else {"graph": self.graph, "node": self.node})
        with atomic.output(file) as target:
            np.savez_compressed(target, **dict[str, Any]({name: each.numpy() for name, each in rows.items()}))


def check_ending(file: Path) -> None:
    """Refuses a file that is no ``.npz``."""
    if file.suffix != ENDING:
        raise UserError(f"--embeddings {file}: the ending must be {ENDING}.")


@torch.no_grad()
def hidden_states(model: nn.Module, batches: Iterable[GraphBatch], module: str | None = None) -> Embeddings:
    """States inside a model while it predicts.

    Args:
        model: in evaluation.
        batches: the graphs.
        module: name in ``model.named_modules()``, whose output they are (its first tensor; of several calls in one
            forward pass the last); None: the input of the prediction head, and what the head pools of it.

    Raises:
        UserError: no such module, one that is not called, or one whose rows are neither nodes nor graphs.
    """
    name = _head_name(model) if module is None else module
    modules = dict(model.named_modules())
    if not name or name not in modules:
        raise unknown("module", name, filter(None, modules), listed="print(model.models[0])")
    seen: list[tuple[Tensor, Tensor | None]] = []

    def keep(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        pooled = layer.pooled(*args, **kwargs).cpu() if module is None and isinstance(layer, HasPooling) else None
        seen.append((_first_tensor(name, args if module is None else output), pooled))

    rows: list[Tensor] = []
    pooled: list[Tensor] = []
    sizes: list[int] = []
    with modules[name].register_forward_hook(keep, with_kwargs=True):
        for batch in batches:
            model(batch)
            if not seen:
                raise UserError(f"module {name} is not called in predictions; name the one that it belongs to.")
            of_batch, pooled_here = seen[-1]
            rows.append(of_batch)
            pooled += [] if pooled_here is None else [pooled_here]
            sizes += batch.ragged.sizes
            seen.clear()
    return _sorted_out(name, torch.cat(rows), torch.cat(pooled) if pooled else None, Ragged.from_sizes(sizes))


def _head_name(model: nn.Module) -> str:
    """Name of the prediction head.

    Raises:
        UserError: there is none, or several.
    """
    names = [name for name, part in model.named_modules() if isinstance(part, PredictionHead)]
    outer = [name for name in names if not any(name.startswith(f"{other}.") for other in names)]
    if len(outer) != 1:
        raise UserError(f"the model has {len(outer)} prediction heads ({', '.join(outer) or 'none'}): name a module.")
    return outer[0]


def _first_tensor(name: str, value: Any) -> Tensor:
    """Rows that a module reads or returns: (h, e, batch) are node states first."""
    rows = as_dense(value[0] if isinstance(value, tuple) and value else value)
    if not isinstance(rows, Tensor) or not rows.dim():
        raise UserError(f"module {name} has no rows of nodes or graphs: it returns {type(rows).__name__}.")
    return rows.cpu()


def _sorted_out(name: str, rows: Tensor, pooled: Tensor | None, ragged: Ragged) -> Embeddings:
    """Says by their number what the rows are of; rows of graph tokens, the first of their graphs, are left out."""
    graph, nodes, graphs = ragged.graph_id, ragged.num_rows, ragged.num_graphs
    node = torch.arange(nodes) - ragged.ptr[graph]
    of_nodes: Tensor | None = rows
    if len(rows) == nodes + graphs:
        of_nodes = rows[torch.arange(nodes) + graph + 1]
    elif len(rows) == graphs != nodes:
        of_nodes, pooled = None, rows if pooled is None else pooled
    elif len(rows) != nodes:
        raise UserError(f"module {name} gives {len(rows):,} rows for {nodes:,} nodes of {graphs:,} graphs: of neither.")
    return Embeddings(name, of_nodes, pooled, graph, node, graphs)
