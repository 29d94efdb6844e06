"""Graph MLP-Mixer and Graph ViT against the authors' program, see ``originals.py``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from graphbench.config import load_config
from graphbench.factory.model import build_model
from graphbench.structures import DataInfo, EdgeSet
from tests.models.originals import NODES, Weights, batch_of, compare, edge_index, read, renamed
from tests.paths import ROOT


def patches_of(graphs: list[str], patches: list[list[list[int]]]) -> dict[str, EdgeSet]:
    """What the transforms of GraphMixer say of patches that are given, node by node."""
    first, members, edges = 0, [], []
    for graph, lists in enumerate(patches):
        nodes = [(patch, node) for patch, of_patch in enumerate(lists) for node in of_patch]
        place = {member: number for number, member in enumerate(nodes)}
        members.append([[first + node, patch] for patch, node in nodes])
        ends = edge_index([graphs[graph]]).t().tolist()
        inside = [
            [first + a, first + b, number, place[patch, a], place[patch, b]]
            for patch in range(len(lists))
            for number, (a, b) in enumerate(ends)
            if (patch, a) in place and (patch, b) in place
        ]
        edges.append(inside)
        first += NODES[graphs[graph]]
    counts = [torch.tensor([0, *(len(rows) for rows in each)]).cumsum(0) for each in (members, edges)]
    node, patch = torch.tensor([row for rows in members for row in rows]).t()
    between = torch.tensor([row for rows in edges for row in rows])
    return {
        "Patches": EdgeSet(torch.stack([node, node]), counts[0], patch),
        "PatchEdges": EdgeSet(between[:, :2].t(), counts[1], between[:, 2:]),
    }


RULES = {
    r"^rw_encoder\.layers\.0": "encoder.positional.RWSE.lin",
    r"^rw_encoder\.norms\.0": "encoder.positional.RWSE.norm",
    "^input_encoder": "encoder.features.lin",
    "^edge_encoder": "edge_encoder.features.lin",
    r"^gnns\.(\d)\.convs\.0\.layer\.eps": r"layers.\1.eps",
    r"^gnns\.(\d)\.convs\.0\.nn\.layers\.0": r"layers.\1.mlp.0",
    r"^gnns\.(\d)\.convs\.0\.nn\.norms\.0": r"layers.\1.mlp.1",
    r"^gnns\.(\d)\.convs\.0\.nn\.layers\.1": r"layers.\1.mlp.3",
    r"^gnns\.(\d)\.norms\.0": r"norms.\1",
    r"^gnns\.(\d)\.output_encoder": r"maps.\1",
    r"^U\.0\.layers\.0": "exchanges.0.0",
    r"^U\.0\.norms\.0": "exchanges.0.1",
    r"^patch_rw_encoder\.layers\.0": "patch_encoder.0",
    r"^patch_rw_encoder\.norms\.0": "patch_encoder.1",
    r"^output_decoder\.layers": "head.lin",
    r"^output_decoder\.norms": "head.norm",
    r"^transformer_encoder\.layer_norm": "mixer.norm_out",
    r"^transformer_encoder\.mixer_blocks\.(\d)\.token_mix\.0": r"mixer.norms_patches.\1",
    r"^transformer_encoder\.mixer_blocks\.(\d)\.token_mix\.2\.net": r"mixer.patches.\1",
    r"^transformer_encoder\.mixer_blocks\.(\d)\.channel_mix\.0": r"mixer.norms_channels.\1",
    r"^transformer_encoder\.mixer_blocks\.(\d)\.channel_mix\.1\.net": r"mixer.channels.\1",
    r"^transformer_encoder\.transformer_encoder\.(\d)\.self_attn\.out_proj": r"mixer.out.\1",
    r"^transformer_encoder\.transformer_encoder\.(\d)\.linear1": r"mixer.feed_forwards.\1.lin_in",
    r"^transformer_encoder\.transformer_encoder\.(\d)\.linear2": r"mixer.feed_forwards.\1.lin_out",
    r"^transformer_encoder\.transformer_encoder\.(\d)\.norm1": r"mixer.norms.\1",
    r"^transformer_encoder\.transformer_encoder\.(\d)\.norm2": r"mixer.norms_ffn.\1",
}


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("mixer", ["mlp", "hadamard"])
def test_graph_mixer(mode: str, mixer: str) -> None:
    """Graph MLP-Mixer and Graph ViT as their configurations build them; the first patches are empty."""
    recorded = read(f"graph_mixer_{mixer}")
    own = recorded["arguments"]
    dim = own["nhid"]
    settings = {"patches": 5, "patch_steps": own["patch_rw_dim"], "mixer": mixer, "mixer_layers": 2}
    config = load_config(
        ROOT / "configs/gnnbench/graph-mixer-zinc.yaml",
        [
            *("dataset.node_encoder_name", "LinearNode+RWSE", "dataset.edge_encoder_name", "LinearEdge"),
            *("posenc_RWSE.kernel.times_func", "range(1,4)", "posenc_RWSE.dim_pe", str(dim)),
            *("gnn.dim_inner", str(dim), "gnn.layers_mp", str(own["nlayer_gnn"])),
            *(str(part) for key, value in settings.items() for part in (f"gt.GraphMixer.{key}", value)),
        ],
    )
    info = DataInfo("original", "graph", "regression", node_in=6, edge_in=4, out_dim=3, metric="mae", maximize=False)

    def ours(weights: Weights) -> dict[str, Tensor]:
        state = renamed(weights, RULES, r"nn\.norms\.1|output_decoder\.norms\.1|norm3|[qkv]_proj")  # norms unused there
        for layer in range(2):
            for part in ("weight", "bias") if mixer == "hadamard" else ():
                theirs = f"transformer_encoder.transformer_encoder.{layer}.self_attn"
                packed = [weights[f"{theirs}.{each}_proj.{part}"] for each in "qkv"]
                state[f"mixer.qkv.{layer}.{part}"] = torch.cat(packed)
            for number in (0, 3):  # a norm behind takes a bias out, and the original has none
                state[f"layers.{layer}.mlp.{number}.bias"] = torch.zeros(dim, dtype=torch.float64)
        return state

    model = build_model(config, info)
    batch = batch_of(own["graphs"], edge_sets=patches_of(own["graphs"], own["patches"]))

    def call(model: Any, inputs: dict[str, Tensor]) -> Tensor:
        filled = batch.replace(x=inputs["x"], edge_attr=inputs["e"], pe={"RWSE.landing": inputs["walks"]})
        prediction: Tensor = model(filled)
        return prediction

    compare(recorded, mode, model, call, ours)
