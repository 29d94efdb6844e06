"""One of several processes (gloo) that share the blocks of a graph.

``python shared_process.py RANK WORLD_SIZE FOLDER`` writes what every model of :func:`predictions` gives it to
``FOLDER/RANK.pt``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from graphbench.blockwise import exchange, forward
from graphbench.blockwise.stored import StoredBlocks
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import NodeEncoder
from graphbench.heads.node import NodeHead
from graphbench.layers.attention.difformer import DIFFormer
from graphbench.layers.attention.geco.layer import GECO
from graphbench.layers.attention.nodeformer import NodeFormer
from graphbench.models.decoupled import SGC, PreFrame
from graphbench.structures import SparseRows
from tests.blockwise.test_forward import DIM, LARGE, small_store, two_branch
from tests.contract import shaken

ROOT = Path(__file__).resolve().parents[2]
ATTENTIONS = {
    "DIFFormer": partial(DIFFormer, DIM, 2),
    "NodeFormer": partial(NodeFormer, DIM, 2, bias_order=1),
    "GECO": partial(GECO, DIM),
}
BLOCKS = {
    "many blocks": {"max_nodes": 7, "max_edges": 10**6},
    "on disk": {"max_nodes": 13, "in_memory": 0},
    "fewer blocks than processes": {},
}


def models(store: GraphStore) -> dict[str, tuple[torch.nn.Module, GraphStore]]:
    """Sums, neighbours, edge states, channels, and features that stay sparse."""
    made = {"SGFormer": two_branch(**LARGE), "edges": two_branch(edges=True, local="CustomGatedGCN", **LARGE)}
    for name, make in ATTENTIONS.items():
        made[name] = two_branch(**LARGE)
        for number in range(2):
            made[name].attention_branch.layers[number] = shaken(make().double()).eval()
    sgc = SGC(PreFrame(NodeEncoder(None, {}, 2, False), 2, DIM, lambda width: NodeHead(width, 4), None), hops=2)
    sparse = store.replace(x=SparseRows.of(store.x))
    return {name: (model, store) for name, model in made.items()} | {"sparse": (shaken(sgc.double()).eval(), sparse)}


def predictions(rank: int = 0, world_size: int = 1) -> dict[str, Tensor]:
    """Of every model, for every way to cut."""
    forward.CELLS, exchange.CELLS = 300, 50  # several pieces of channels, and several messages for a block
    torch.manual_seed(0)
    found = {}
    with torch.no_grad():
        for name, (model, store) in models(small_store()).items():
            for blocks, options in BLOCKS.items():
                graph = StoredBlocks(store, rank=rank, world_size=world_size, **options)
                found[f"{name}, {blocks}"] = model.forward_blockwise(graph)
    return found


def of_processes(world_size: int, folder: Path) -> list[dict[str, Tensor]]:
    """What each of several processes has found."""
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(world_size), str(folder)],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(world_size)
    ]
    for process in processes:
        _, err = process.communicate(timeout=600)
        assert process.returncode == 0, err
    return [torch.load(folder / f"{rank}.pt") for rank in range(world_size)]


def main(rank: int, world_size: int, folder: Path) -> None:
    torch.set_num_threads(1)
    store = torch.distributed.FileStore(str(folder / "store"), world_size)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=world_size)
    torch.save(predictions(rank, world_size), folder / f"{rank}.pt")
    torch.distributed.barrier()
    os._exit(0)  # PyTorch 2.7's destroy_process_group may wait for a thread that waits for the interpreter's lock


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
