"""A training step of GPS layers (GatedGCN and attention) against the same layers built from PyG's ``GPSConv``.

Both have the same weights and must give the same output before anything is timed. Peak memory on the CPU is measured in
a fresh process per run: ``python -m graphbench.benchmarks.gps_step ours|peer FILE`` prints it.
"""

from __future__ import annotations

import copy
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import GPSConv, MessagePassing
from torch_geometric.utils import scatter

from graphbench.benchmarks.case import Case
from graphbench.benchmarks.measuring import CPU, device_name, paired, peak, peaks, replayed
from graphbench.benchmarks.step_kernels import watch
from graphbench.config import load_config
from graphbench.data.loading.padded import PaddedBatches, numbers_of
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.factory.data import read_data
from graphbench.layers.attention.transformer import Transformer
from graphbench.layers.gps import GPSBlock
from graphbench.layers.local.gated_gcn import CustomGatedGCN
from graphbench.structures import GraphBatch
from graphbench.structures.dropout_seeds import seeds_drawn_together

DIM, HEADS, LAYERS, DROPOUT = 96, 4, 4, 0.5
BATCHES = {32: 15.0, 128: 10.0}
"""Graphs of a batch, and how many times as fast as PyG's step one CUDA graph is to be."""
PAIRS, MEMORY_PAIRS = 7, 3
PEPTIDES = """
dataset:
  {format: OGB, name: peptides-functional, task: graph, task_type: classification_multilabel, transductive: false,
   node_encoder: true, node_encoder_name: Atom, edge_encoder: true, edge_encoder_name: Bond}
"""


def run(device: torch.device) -> Iterator[Case]:
    """Peptides, from dataset.dir or $GRAPHBENCH_DATA; random graphs of their sizes where they are not at hand."""
    to_compile = []
    for size, goal in BATCHES.items():
        store, numbers, what = _graphs(size)
        batch = _with_states(store.gather(numbers), device)
        torch.manual_seed(0)
        ours, peer = OursStack(), PeerStack()
        _give_weights(ours, peer)
        _check_equal(ours, peer, batch)
        step, peer_step = (_step(model.to(device), batch) for model in (ours, peer))
        for warm_up in (step, peer_step):
            warm_up()
        name = f"{what}, batch {size}, {batch.num_nodes} nodes"
        if device.type == "cuda":
            captured = captured_step(ours, store, numbers, device)
            yield _against(name, captured, "PyG", peer_step, goal, device)
            to_compile.append((name, captured, peer, batch, goal))
        yield Case(f"{name}, step, {device_name(device)}", "PyG", *paired(step, peer_step, PAIRS, device), target=2.5)
        mine, theirs = _peaks(batch)
        yield Case(f"{name}, peak memory", "PyG", mine, theirs, target=2.0, unit="MiB")
    for name, captured, peer, batch, goal in to_compile:  # last, because it takes minutes
        compiled = _step(torch.compile(peer), batch)
        compiled()
        yield _against(name, captured, "PyG, compiled", compiled, goal, device)


def _against(
    name: str, captured: Callable[[], None], peer: str, peer_step: Callable[[], None], goal: float, device: torch.device
) -> Case:
    """One CUDA graph against PyG's step, with the share of the time in which the GPU computes."""
    seconds = paired(captured, peer_step, PAIRS, device)
    case = f"{name}, captured step{watch(captured, device)}, {device_name(device)}"
    return Case(case, f"{peer}{watch(peer_step, device)}", *seconds, target=goal)


def captured_step(
    model: nn.Module, store: GraphStore, numbers: Sequence[int], device: torch.device
) -> Callable[[], None]:
    """Assembly of a padded batch, forward and backward pass by one replay.

    Args:
        model: model of a batch with states of nodes and edges.
        store: store of the graphs.
        numbers: numbers of the graphs in the batch.
        device: a GPU.
    """
    padded, chosen = PaddedBatches(store.to(device)), np.asarray(numbers)
    plan = padded.plan(chosen, padded.classes([chosen]))
    capacity, on_device = plan.capacity, numbers_of(plan).to(device)
    assert capacity is not None  # it was made for this batch
    rows = (capacity.nodes, capacity.edges)
    x, edge_attr = (torch.randn(each, DIM, device=device, requires_grad=True) for each in rows)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        x.grad = edge_attr.grad = None
        batch = padded.assemble(capacity, on_device).batch
        with seeds_drawn_together():
            out = model(batch.replace(x=x, edge_attr=edge_attr))
        out.square().mean().backward()

    replay = replayed(step, device)
    replay()
    if not all(bool(each.grad.isfinite().all()) for each in model.parameters() if each.grad is not None):
        raise AssertionError("the captured step gives gradients that are not finite")
    return replay


class OursStack(nn.Module):
    """Blocks of this package."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            GPSBlock(
                DIM,
                [
                    CustomGatedGCN(DIM, DIM, dim_edge=DIM, dropout=DROPOUT),
                    Transformer(DIM, heads=HEADS, dropout=DROPOUT),
                ],
                dropout=DROPOUT,
            )
            for _ in range(LAYERS)
        )

    def forward(self, batch: GraphBatch) -> Tensor:
        """Node states after the last block."""
        h: Any = batch.x
        e: Any = batch.edge_attr
        for layer in self.layers:
            h, e, batch = layer(h, e, batch)
        return h


class PyGGatedGCN(MessagePassing):
    """GatedGCN as one writes it with PyG; the new edge states stay in ``edge``, for the next layer to read."""

    def __init__(self, dim: int = DIM) -> None:
        super().__init__(aggr=None)
        for name in ("lin_self", "lin_neighbor", "gate_edge", "gate_target", "gate_source"):
            setattr(self, name, nn.Linear(dim, dim))
        self.node_norm, self.edge_norm = nn.BatchNorm1d(dim), nn.BatchNorm1d(dim)
        self.edge: Tensor | None = None

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        """New node states without dropout and residual, which GPSConv adds."""
        neighbours = self.propagate(
            edge_index, to=self.gate_target(x), at=self.gate_source(x), value=self.lin_neighbor(x), edge_attr=edge_attr
        )
        new = nn.functional.dropout(self.edge_norm(self.logit).relu(), DROPOUT, self.training)
        self.edge = edge_attr + new
        return self.node_norm(self.lin_self(x) + neighbours).relu()

    def message(self, to_i: Tensor, at_j: Tensor, edge_attr: Tensor) -> Tensor:
        """Gates."""
        self.logit = to_i + at_j + self.gate_edge(edge_attr)
        return self.logit.sigmoid()

    def aggregate(self, inputs: Tensor, index: Tensor, value_j: Tensor, dim_size: int) -> Tensor:
        """Gated mean."""
        total = scatter(inputs * value_j, index, 0, dim_size)
        return total / (scatter(inputs, index, 0, dim_size) + 1e-6)


class PeerStack(nn.Module):
    """PyG's layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            GPSConv(DIM, PyGGatedGCN(), heads=HEADS, dropout=DROPOUT, attn_kwargs={"dropout": DROPOUT})
            for _ in range(LAYERS)
        )

    def forward(self, batch: GraphBatch) -> Tensor:
        """Node states after the last layer."""
        h: Any = batch.x
        e: Any = batch.edge_attr
        for layer in self.layers:
            h = layer(h, batch.edge_index, batch.ragged.graph_id, edge_attr=e)
            e = layer.conv.edge
        return h


NAMES = (
    ("conv.", "branches.0.part."),
    ("attn.in_proj_", "branches.1.part.qkv."),
    ("attn.out_proj.", "branches.1.part.out."),
    ("norm1.module.", "branches.0.norm."),
    ("norm2.module.", "branches.1.norm."),
    ("norm3.module.", "norm_out."),
    ("mlp.0.", "feed_forward.lin_in."),
    ("mlp.3.", "feed_forward.lin_out."),
)


def _give_weights(ours: nn.Module, peer: nn.Module) -> None:
    state = ours.state_dict()

    def our_name(name: str) -> str:
        _, number, rest = name.split(".", 2)
        theirs, mine = next(pair for pair in NAMES if rest.startswith(pair[0]))
        return f"layers.{number}.{mine}{rest.removeprefix(theirs)}"

    peer.load_state_dict({name: state[our_name(name)] for name in peer.state_dict()})


def _check_equal(ours: nn.Module, peer: nn.Module, batch: GraphBatch) -> None:
    """Ours where the batch lies, PyG on the CPU."""
    batch = batch.replace(x=batch.x.detach().double(), edge_attr=batch.edge_attr.detach().double())
    with torch.no_grad():
        a, b = (
            copy.deepcopy(model).double().eval().to(inputs.device)(inputs)
            for model, inputs in ((ours, batch), (peer, batch.to(CPU)))
        )
    torch.testing.assert_close(a.to(CPU), b)


def _step(model: nn.Module, batch: GraphBatch) -> Callable[[], None]:
    """Forward and backward, as in a training epoch: a batch is new, and what is derived from it is built anew."""

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(batch.replace()).square().mean().backward()

    return step


def _graphs(size: int) -> tuple[GraphStore, Sequence[int], str]:
    """A store, the graphs of a batch, and what they are."""
    try:
        return _peptides(), range(0, size * 31, 31), "Peptides"
    except (UserError, ImportError):
        store = random_peptides(size, torch.Generator().manual_seed(0))
        return store, range(size), "random graphs of Peptides' sizes"


def _with_states(batch: GraphBatch, device: torch.device) -> GraphBatch:
    generator = torch.Generator().manual_seed(0)
    states = [torch.randn(rows, DIM, generator=generator) for rows in (batch.num_nodes, batch.num_edges)]
    x, edge_attr = (tensor.to(device).requires_grad_() for tensor in states)
    return batch.to(device).replace(x=x, edge_attr=edge_attr, y=None)


def _peptides() -> GraphStore:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "peptides.yaml"
        path.write_text(PEPTIDES)
        return read_data(load_config(path)).store


def random_peptides(size: int, generator: torch.Generator) -> GraphStore:
    """Trees with a ring here and there: 151 nodes and 307 directed edges on average, as in the published table."""
    sizes = (151 + 55 * torch.randn(size, generator=generator)).clamp(8, 444).long().tolist()
    parts = []
    for nodes in sizes:
        child = torch.arange(1, nodes)
        parent = child - 1 - (torch.rand(nodes - 1, generator=generator) < 0.2).long() * (child > 2)
        ring = torch.randint(6, nodes, (nodes // 55,), generator=generator)
        half = torch.cat([torch.stack([child, parent]), torch.stack([ring, ring - 6])], dim=1)
        parts.append(torch.cat([half, half.flip(0)], dim=1))
    return GraphStore.from_arrays(sizes, [edge_index.shape[1] for edge_index in parts], torch.cat(parts, dim=1))


def _peaks(batch: GraphBatch) -> tuple[list[float], ...]:
    """Memory peaks of a step, MiB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batch.pt"
        torch.save(batch.replace(), path)
        return peaks(one_step, ("ours", "peer"), MEMORY_PAIRS, batch.device, str(path))


def one_step(which: str, device: torch.device, path: str) -> Callable[[], None]:
    """Forward and backward on the batch of a file, nothing of which has run before."""
    batch = torch.load(path, weights_only=False, map_location=device)
    return _step({"ours": OursStack, "peer": PeerStack}[which]().to(device), batch)


if __name__ == "__main__":
    print(peak(one_step(sys.argv[1], CPU, sys.argv[2]), CPU))
