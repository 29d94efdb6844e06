"""Graph MLP-Mixer and Graph ViT, patch by patch from their equations."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from graphbench import registry
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.encoders.edge.linear import LinearEdge
from graphbench.encoders.node.linear import LinearNode
from graphbench.heads.graph import GraphHead
from graphbench.layers.local.gin import GINE
from graphbench.models.graph_mixer import GraphMixer
from graphbench.models.patch_mixers import PatchAttention, PatchMLPs
from graphbench.structures import EdgeSet, GraphBatch
from graphbench.transforms.patches import PatchEdges, Patches
from tests.contract import alone, example_batch, shaken

SIZES, DIM, PATCHES = (9, 2, 14), 16, 4


def build(**own: Any) -> Any:
    arguments = {
        "encoder": NodeEncoder(LinearNode(DIM, 12), {}, DIM, batch_norm=False),
        "dim_encoded": DIM,
        "edge_encoder": EdgeEncoder(LinearEdge(DIM, 12), {}, DIM, batch_norm=False),
        "dim": DIM,
        "layers": 2,
        "local": lambda dim_in, dim_out: GINE(dim_in, dim_out, dim_edge=DIM),
        "head": lambda width: GraphHead(width, 3, pooling="mean"),
        "patches": PATCHES,
        "patch_steps": 3,
        "mixer_layers": 2,
    }
    return shaken(registry.construct(GraphMixer, {**arguments, **own}).double()).eval()


def patched() -> tuple[GraphBatch, list[list[list[int]]]]:
    """Graphs with their patches, and these as lists of nodes of every graph."""
    batch = example_batch(SIZES)
    graph = batch.ragged.graph_id[batch.edge_index[0]]
    edges = batch.edge_index - batch.ragged.ptr[graph]
    store = GraphStore.from_arrays(SIZES, torch.bincount(graph, minlength=3), edges)
    outputs = {"Patches": Patches(PATCHES)(store), "PatchEdges": PatchEdges(PATCHES)(store)}
    members = outputs["Patches"]
    lists: list[list[list[int]]] = [[[] for _ in range(PATCHES)] for _ in SIZES]
    for number, _ in enumerate(SIZES):
        for row in range(*members["ptr"][number : number + 2].tolist()):
            lists[number][int(members["attr"][row])].append(int(members["index"][0, row]))
    sets = {}
    for name, out in outputs.items():
        of = torch.repeat_interleave(torch.arange(3), out["ptr"].diff())
        sets[name] = EdgeSet(out["index"] + batch.ragged.ptr[of], out["ptr"], out["attr"])
    return batch.replace(edge_sets=sets), lists


def local_part(model: GraphMixer, graph: GraphBatch, patches: list[list[int]]) -> Tensor:
    """(P, dim) what is handed to the mixer, by a loop over patches."""
    h, e = model.encoder(graph)[0], model.edge_encoder(graph)
    x = {(p, v): h[v] for p, nodes in enumerate(patches) for v in nodes}

    def mean(p: int) -> Tensor:
        return torch.stack([x[p, v] for v in patches[p]]).mean(0) if patches[p] else torch.zeros(DIM).double()

    for number, layer in enumerate(model.layers):
        if number:
            added = {(p, v): x[p, v] + model.exchanges[number - 1](mean(p)[None])[0] for p, v in x}
            means = {v: torch.stack([added[q, u] for q, u in added if u == v]).mean(0) for _, v in x}
            x = {(p, v): means[v] for p, v in x}
        new = {}
        for p, v in x:
            heard = x[p, v].clone()
            for edge, (source, target) in enumerate(graph.edge_index.t().tolist()):
                if target == v and source in patches[p]:
                    heard = heard + torch.relu(x[p, source] + e[edge])
            mapped = model.norms[number](layer.mlp(heard[None], None)).relu()[0]
            new[p, v] = model.maps[number](x[p, v] + mapped)
        x = new
    shared = torch.tensor([[len(set(a) & set(b)) for b in patches] for a in patches]).double()
    walk = shared / shared.sum(1, keepdim=True).clamp(min=1)
    back = torch.stack([torch.linalg.matrix_power(walk, step).diagonal() for step in (1, 2, 3)], 1)
    return torch.stack([mean(p) for p in range(PATCHES)]) + model.patch_encoder(back)


def attend(mixer: PatchAttention, x: Tensor, patches: list[list[int]]) -> Tensor:
    for layer, norm in enumerate(mixer.norms):
        q, k, v = mixer.qkv[layer](norm(x)).split(DIM, 1)
        heads = []
        for head in range(8):
            c = slice(2 * head, 2 * head + 2)
            score = q[:, c] @ k[:, c].t() / math.sqrt(2)
            score[:, [p for p, nodes in enumerate(patches) if not nodes]] = -torch.inf
            weight = torch.softmax(score, 1)
            if mixer.hadamard:
                weight = weight * torch.tensor([[len(set(a) & set(b)) for b in patches] for a in patches])
            heads.append(weight @ v[:, c])
        x = x + mixer.out[layer](torch.cat(heads, 1))
        ffn = mixer.feed_forwards[layer]
        x = x + ffn.lin_out(torch.relu(ffn.lin_in(mixer.norms_ffn[layer](x))))
    return x


def mix(mixer: PatchMLPs, x: Tensor) -> Tensor:
    for layer in range(2):
        _, into, _, _, out = mixer.patches[layer]
        x = x + out(nn.functional.gelu(into(mixer.norms_patches[layer](x).t()))).t()
        _, into, _, _, out = mixer.channels[layer]
        x = x + out(nn.functional.gelu(into(mixer.norms_channels[layer](x))))
    return mixer.norm_out(x)


@pytest.mark.parametrize("mixer", ["mlp", "hadamard", "standard"])
def test_the_model_is_its_equations(mixer: Any) -> None:
    model = build(mixer=mixer)
    batch, patches = patched()
    expected = []
    for number in range(3):
        graph = alone(batch.replace(edge_sets={}), number)
        states = local_part(model, graph, patches[number])
        is_mlp = isinstance(model.mixer, PatchMLPs)
        states = mix(model.mixer, states) if is_mlp else attend(model.mixer, states, patches[number])
        rows = states[[p for p, nodes in enumerate(patches[number]) if nodes]].mean(0, keepdim=True)
        expected.append(model.head.mlp(rows))
    torch.testing.assert_close(model(batch), torch.cat(expected))


def test_patches_are_needed_and_asked_for() -> None:
    with pytest.raises(ValueError, match="GraphMixer reads the edge sets Patches and PatchEdges"):
        build()(example_batch(SIZES))
    asked = GraphMixer.required_transforms({"patches": 8, "hops": 0, "partition": "metis"})
    assert asked["Patches"] == asked["PatchEdges"] == {"patches": 8, "hops": 0, "method": "metis"}


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"layers": 0}, "1 or more local layers"),
        ({"dim_encoded": 4}, "received 4 and 16 columns"),
        ({"mixer": "sum"}, "mlp, hadamard, standard; received 'sum'"),
        ({"dim": 12, "dim_encoded": 12, "mixer": "standard"}, "a multiple of 8"),
    ],
)
def test_wrong_values_are_named(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**own)
