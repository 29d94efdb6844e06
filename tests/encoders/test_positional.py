"""LapPE and RWSE against GraphGPS."""

from __future__ import annotations

import pytest
import torch

from graphbench.encoders.compose import NodeEncoder
from graphbench.encoders.node.linear import LinearNode
from graphbench.encoders.positional.lap_pe import LapPE
from graphbench.encoders.positional.rwse import RWSE
from graphbench.structures import GraphBatch, Ragged

LAPPE = [
    "lappe_deepset_1layer_post1_bn",
    "lappe_deepset_2layers",
    "lappe_deepset_4layers_post2",
    "lappe_deepset_batchnorm",
    "lappe_transformer_1layer",
    "lappe_transformer_1layer_post2",
]
RWSES = ["rwse_linear", "rwse_linear_batchnorm", "rwse_mlp1", "rwse_mlp2_batchnorm", "rwse_mlp3"]


def packed(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Recorded names of a transformer layer -> PyTorch's, with q, k and v in one tensor."""
    renamed = {}
    for name, value in weights.items():
        for old, new in (
            ("attn.out", "self_attn.out_proj"),
            ("ffn.in", "linear1"),
            ("ffn.out", "linear2"),
            ("norm_attn", "norm1"),
            ("norm_ffn", "norm2"),
        ):
            name = name.replace(f".{old}.", f".{new}.")
        if ".attn.q." in name:
            k, v = (weights[name.replace(".attn.q.", f".attn.{each}.")] for each in "kv")
            name = name.replace(".attn.q.", ".self_attn.in_proj_")
            value = torch.cat([value, k, v])
        if ".attn." not in name:
            renamed[name] = value
    return renamed


def _recorded_batch(recorded, pe):
    sizes = recorded["in/ptr"].diff().tolist()
    x = recorded["in/x"].double().requires_grad_()
    return GraphBatch(Ragged.from_sizes(sizes), recorded["in/edge_index"], x=x, pe=pe)


def _compare(recorded, name, positional, batch):
    config = recorded["config"]
    features = LinearNode(config["dim_emb"] - config["dim_pe"], config["dim_in"])
    encoder = NodeEncoder(features, {name: positional}, config["dim_emb"], batch_norm=False).double()
    prefixes = {"node.": "features.", "pe.": f"positional.{name}."}

    def ours(recorded_name):
        for old, new in prefixes.items():
            if recorded_name.startswith(old):
                return new + recorded_name.removeprefix(old)
        raise AssertionError(recorded_name)

    weights = {ours(key[2:]): value.double() for key, value in recorded.items() if key.startswith("w/")}
    missing, unexpected = encoder.load_state_dict(packed(weights), strict=False)
    assert not unexpected
    assert all("num_batches_tracked" in key for key in missing)
    encoder.eval()
    h = encoder(batch)
    torch.testing.assert_close(h, recorded["out/x"], rtol=0, atol=1e-11)
    torch.testing.assert_close(encoder.positional[name](batch), recorded["out/pe"], rtol=0, atol=1e-11)
    with torch.no_grad():  # PyTorch switches its transformer layer to another implementation here
        torch.testing.assert_close(encoder(batch), recorded["out/x"], rtol=0, atol=1e-11)
    (h * recorded["in/grad_seed.x"]).sum().backward()
    torch.testing.assert_close(batch.x.grad, recorded["grad/in.x"], rtol=0, atol=1e-11)
    gradients = {ours(key[5:]): v for key, v in recorded.items() if key.startswith("grad/") and "in.x" not in key}
    compared = 0
    parameters = dict(encoder.named_parameters())
    for key, expected in packed(gradients).items():
        torch.testing.assert_close(parameters[key].grad, expected, rtol=1e-9, atol=1e-11)
        compared += 1
    assert compared >= 4


@pytest.mark.parametrize("name", LAPPE)
def test_lap_pe_equals_graphgps(golden, name):
    recorded = golden(f"graphgps/{name}")
    config = recorded["config"]
    encoder = LapPE(
        config["dim_pe"],
        model=config["model"],
        layers=config["layers"],
        n_heads=config["heads"],
        post_layers=config["post_layers"],
        raw_norm_type=config["raw_norm"],
        max_freqs=config["max_freqs"],
    )
    pe = {"LapPE.eigvecs": recorded["in/eigvecs"], "LapPE.eigvals": recorded["in/eigvals"]}
    _compare(recorded, "LapPE", encoder, _recorded_batch(recorded, pe))


@pytest.mark.parametrize("name", RWSES)
def test_rwse_equals_graphgps(golden, name):
    recorded = golden(f"graphgps/{name}")
    config = recorded["config"]
    encoder = RWSE(
        config["dim_pe"],
        config["times"],
        model=config["model"],
        layers=config["layers"],
        raw_norm_type=config["raw_norm"],
    )
    _compare(recorded, "RWSE", encoder, _recorded_batch(recorded, {"RWSE.landing": recorded["in/stats"]}))


def _lap_batch(sizes=(4, 3), frequencies=3):
    nodes = sum(sizes)
    eigvecs = torch.randn(nodes, frequencies)
    eigvecs[-1, -1] = torch.nan
    eigvals = torch.rand(nodes, frequencies).masked_fill(eigvecs.isnan(), torch.nan)
    return GraphBatch(
        Ragged.from_sizes(sizes),
        torch.zeros(2, 0, dtype=torch.int64),
        pe={"LapPE.eigvecs": eigvecs, "LapPE.eigvals": eigvals},
    )


def test_signs_flip_in_training_only_and_a_whole_eigenvector_at_a_time():
    torch.manual_seed(1)
    batch = _lap_batch()
    encoder = LapPE(4, model="DeepSet", layers=2, max_freqs=3)
    assert torch.equal(encoder.eval()(batch), encoder(batch))
    encoder.train()
    plain = batch.pe["LapPE.eigvecs"]
    possible = []
    for bits in range(8):  # every choice of three signs, applied to a graph as a whole
        signs = torch.tensor([1.0 if bits >> k & 1 else -1.0 for k in range(3)])
        flipped = batch.replace(pe={**batch.pe, "LapPE.eigvecs": plain * signs})
        possible.append(encoder.eval()(flipped))
    encoder.train()
    seen: set[tuple[int, int]] = set()
    for _ in range(60):
        pe = encoder(batch)
        match = [
            {i for i, each in enumerate(possible) if torch.allclose(each[rows], pe[rows], atol=1e-6)}
            for rows in (slice(0, 4), slice(4, 7))
        ]
        assert all(match), "a graph's eigenvectors were not flipped as a whole"
        seen.add((min(match[0]), min(match[1])))
    assert len({a for a, _ in seen}) > 3
    assert any(a != b for a, b in seen), "graphs draw their signs independently"


def test_absent_frequencies_have_no_influence():
    batch = _lap_batch()
    for model in ("DeepSet", "Transformer"):
        encoder = LapPE(4, model=model, layers=2, n_heads=2, max_freqs=3).eval()
        shorter = LapPE(4, model=model, layers=2, n_heads=2, max_freqs=2).eval()
        shorter.load_state_dict(encoder.state_dict())
        cut = batch.replace(pe={name: value[:, :2] for name, value in batch.pe.items()})
        torch.testing.assert_close(encoder(batch)[-1], shorter(cut)[-1])


@pytest.mark.parametrize("model", ["DeepSet", "Transformer"])
@pytest.mark.parametrize("training", [True, False])
def test_lap_pe_of_no_nodes(model, training):
    encoder = LapPE(4, model=model, layers=1, n_heads=2, max_freqs=3).train(training)
    assert encoder(_empty(3)).shape == (0, 4)


def _empty(frequencies):
    return GraphBatch(
        Ragged.from_sizes([0]),
        torch.zeros(2, 0, dtype=torch.int64),
        pe={"LapPE.eigvecs": torch.zeros(0, frequencies), "LapPE.eigvals": torch.zeros(0, frequencies, 1)},
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LapPE(4, model="none"), "DeepSet or Transformer, received 'none'"),
        (lambda: LapPE(4, raw_norm_type="layer"), "none or BatchNorm, received 'layer'"),
        (lambda: LapPE(6, model="Transformer", n_heads=4), "divide dim_pe, received 4 and 6"),
        (lambda: LapPE(4, layers=0), "1 or more"),
        (lambda: RWSE(4, []), "received none"),
        (lambda: RWSE(4, [1], model="deepset"), "mlp or linear, received 'deepset'"),
        (lambda: RWSE(4, [1], raw_norm_type="layer"), "none or BatchNorm"),
        (lambda: RWSE(0, [1]), "1 or more, received 0"),
        (lambda: RWSE(4, [1, 2])(_lap_batch()), r"RWSE.landing.*the batch has \['LapPE.eigvals', 'LapPE.eigvecs'\]"),
        (lambda: LapPE(4, max_freqs=8)(_lap_batch()), "built for 8 numbers per node.* has 3"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
