"""Positional encoders against GraphGPS."""

from __future__ import annotations

import pytest
import torch

from graphbench.encoders.compose import NodeEncoder
from graphbench.encoders.node.linear import LinearNode
from graphbench.encoders.positional.effective_resistance import ERE, ERN
from graphbench.encoders.positional.equiv_stable_lap_pe import EquivStableLapPE
from graphbench.encoders.positional.kernel_se import RWSE, ElstaticSE, HKdiagSE
from graphbench.encoders.positional.lap_pe import LapPE
from graphbench.encoders.positional.rwse_edge import RWSEEdge
from graphbench.encoders.positional.sign_net import SignNet
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
    prefixes = {"node.": "features.", "pe.": f"positional.{name}.", "rho.": f"positional.{name}.rho."}
    prefixes["phi."] = f"positional.{name}.phi."

    def ours(recorded_name):
        recorded_name = recorded_name.replace(".mlp.", ".") if name == "SignNet" else recorded_name
        for old, new in prefixes.items():
            if recorded_name.startswith(old):
                return new + recorded_name.removeprefix(old)
        raise AssertionError(recorded_name)

    eps = [key for key in recorded if key.startswith("w/") and key.endswith(".eps")]
    assert all(recorded[key] == 0 for key in eps)  # GIN's, which is not learned
    kept = {key: value for key, value in recorded.items() if key not in eps}
    weights = {ours(key[2:]): value.double() for key, value in kept.items() if key.startswith("w/")}
    missing, unexpected = encoder.load_state_dict(packed(weights), strict=False)
    assert not unexpected
    assert all("num_batches_tracked" in key for key in missing)
    encoder.eval()
    h, _ = encoder(batch)
    torch.testing.assert_close(h, recorded["out/x"], rtol=0, atol=1e-11)
    torch.testing.assert_close(encoder.positional[name](batch), recorded["out/pe"], rtol=0, atol=1e-11)
    with torch.no_grad():  # PyTorch switches its transformer layer to another implementation here
        torch.testing.assert_close(encoder(batch)[0], recorded["out/x"], rtol=0, atol=1e-11)
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


def test_hkdiagse_equals_graphgps(golden):
    recorded = golden("graphgps/hkdiagse_linear_batchnorm")
    config = recorded["config"]
    encoder = HKdiagSE(config["dim_pe"], config["times"], model=config["model"], raw_norm_type=config["raw_norm"])
    _compare(recorded, "HKdiagSE", encoder, _recorded_batch(recorded, {"HKdiagSE.heat": recorded["in/stats"]}))


SIGN_NETS = ["signnet_mlp", "signnet_deepset", "signnet_deepset_2layers_post1"]


def _sign_net(config):
    return SignNet(
        config["dim_pe"],
        model=config["model"],
        layers=config["layers"],
        post_layers=config["post_layers"],
        max_freqs=config["max_freqs"],
        phi_hidden_dim=config["phi_hidden"],
        phi_out_dim=config["phi_out"],
    )


@pytest.mark.parametrize("name", SIGN_NETS)
def test_sign_net_equals_graphgps(golden, name):
    recorded = golden(f"graphgps/{name}")
    batch = _recorded_batch(recorded, {"SignNet.eigvecs": recorded["in/eigvecs"]})
    _compare(recorded, "SignNet", _sign_net(recorded["config"]), batch)


@pytest.mark.parametrize("model", ["MLP", "DeepSet"])
def test_sign_net_does_not_see_signs(model):
    batch = _lap_batch("SignNet")
    encoder = SignNet(4, model=model, max_freqs=3, post_layers=2, phi_hidden_dim=5).double().eval()
    signs = torch.tensor([[1.0, -1, 1]] * 4 + [[-1.0, -1, 1]] * 3)
    flipped = batch.replace(pe={"SignNet.eigvecs": batch.pe["SignNet.eigvecs"] * signs})
    torch.testing.assert_close(encoder(flipped), encoder(batch), rtol=0, atol=1e-12)


def test_sign_net_sees_eigenvectors_and_the_edges_between_nodes():
    batch = _lap_batch("SignNet")
    encoder = SignNet(4, model="DeepSet", max_freqs=3, phi_hidden_dim=5).eval()
    pe = encoder(batch)
    other = batch.replace(edge_index=torch.tensor([[0, 1], [1, 0]]))
    changed = (encoder(other) != pe).any(1)
    assert changed.tolist() == [True, True, False, False, False, False, False]
    shuffled = batch.replace(pe={"SignNet.eigvecs": batch.pe["SignNet.eigvecs"].roll(1, 0)})
    assert not torch.allclose(encoder(shuffled), pe)


def test_sign_net_masks_absent_frequencies_in_the_sum_only():
    batch = _lap_batch("SignNet")
    shorter = batch.replace(pe={"SignNet.eigvecs": batch.pe["SignNet.eigvecs"][:, :2]})
    encoder = SignNet(4, model="DeepSet", max_freqs=3, phi_hidden_dim=5).eval()
    cut = SignNet(4, model="DeepSet", max_freqs=2, phi_hidden_dim=5).eval()
    cut.load_state_dict(encoder.state_dict())
    torch.testing.assert_close(encoder(batch)[-1], cut(shorter)[-1])
    assert not torch.allclose(encoder(batch)[0], cut(shorter)[0])


@pytest.mark.parametrize("name", ["equivstable_lappe", "equivstable_lappe_batchnorm"])
def test_equiv_stable_lap_pe_equals_graphgps(golden, name):
    recorded = golden(f"graphgps/{name}")
    config = recorded["config"]
    encoder = EquivStableLapPE(config["dim"], max_freqs=config["max_freqs"], raw_norm_type=config["raw_norm"]).double()
    weights = {key.removeprefix("w/pe."): value for key, value in recorded.items() if key.startswith("w/pe.")}
    missing, unexpected = encoder.load_state_dict(weights, strict=False)
    assert not unexpected
    assert all("num_batches_tracked" in key for key in missing)
    encoder.eval()
    pe = {"EquivStableLapPE.eigvecs": recorded["in/eigvecs"]}
    batch = GraphBatch(Ragged.from_sizes(recorded["in/ptr"].diff().tolist()), recorded["in/edge_index"], pe=pe)
    states = torch.randn(batch.num_nodes, 3)
    h, after = encoder(states, batch)
    assert h is states
    torch.testing.assert_close(after.state.stable_encoding, recorded["out/pe"], rtol=0, atol=1e-12)
    (after.state.stable_encoding * recorded["in/grad_seed.pe"]).sum().backward()
    for key, parameter in encoder.named_parameters():
        torch.testing.assert_close(parameter.grad, recorded[f"grad/pe.{key}"], rtol=0, atol=1e-11)


def _count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_parameters_as_in_the_originals():
    d, t, k = 6, 9, 7
    assert _count(HKdiagSE(d, list(range(t)), model="linear")) == (t + 1) * d
    assert _count(ElstaticSE(d, list(range(10)), model="mlp", layers=1, raw_norm_type="BatchNorm")) == 11 * d + 20
    three = (10 + 1) * 2 * d + (2 * d + 1) * 2 * d + (2 * d + 1) * d
    assert _count(ElstaticSE(d, list(range(10)), model="mlp", layers=3)) == three
    assert _count(EquivStableLapPE(d, max_freqs=k)) == (k + 1) * d
    assert _count(EquivStableLapPE(d, max_freqs=k, raw_norm_type="BatchNorm")) == (k + 1) * d + 2 * k
    # GIN of 4 layers, each linear, norm, linear, with a norm before all but the first; then two maps with a norm
    hidden, out = 5, 3
    first, inner = 2 * hidden, (hidden + 1) * hidden
    phi = first + 6 * inner + (hidden + 1) * out + (4 + 3) * 2 * hidden
    rho = 2 * hidden + (hidden + 1) * d
    options = {"layers": 4, "post_layers": 2, "phi_hidden_dim": hidden, "phi_out_dim": out, "max_freqs": k}
    assert _count(SignNet(d, model="DeepSet", **options)) == phi + (out + 1) * hidden + rho
    assert _count(SignNet(d, model="MLP", **options)) == phi + (k * out + 1) * hidden + rho
    edge = 2 * (t + 1) + (t + 1 + 1) * d + (d + 1) * d + 2 * d
    assert _count(RWSEEdge(d, list(range(1, t + 1)))) == edge
    assert _count(ERN(d, model="Linear", er_dim=k)) == (k + 1) * d
    assert _count(ERN(d, model="Linear", max_nodes=2 * k + 1, post_layers=1)) == (k + 1) * d + (d + 1) * d
    assert _count(ERN(d, model="DeepSet", layers=3)) == 2 * d + 2 * (d + 1) * d
    layer = 4 * (d + 1) * d + (d + 1) * 2048 + (2048 + 1) * d + 4 * d
    assert _count(ERN(d, model="Transformer", layers=2, n_heads=2)) == 2 * d + 2 * layer
    assert _count(ERE(d, layers=3)) == 2 * d + 2 * (d + 1) * d


def test_rwse_edge_is_two_maps_between_norms():
    encoder = RWSEEdge(4, [1, 2], act="gelu").eval()
    landing = torch.rand(5, 3)
    batch = GraphBatch(Ragged.from_sizes([2]), torch.zeros(2, 5, dtype=torch.int64))
    batch = batch.replace(edge_pe={"RWSEEdge.landing": landing})
    scale = 1 / (1 + 1e-5) ** 0.5  # a fresh BatchNorm in evaluation
    first, last = encoder.mlp[0], encoder.mlp[2]
    hidden = torch.nn.functional.gelu(landing * scale @ first.weight.T + first.bias)
    torch.testing.assert_close(encoder(batch), (hidden @ last.weight.T + last.bias) * scale)


def _resistance_batch(columns):
    embedding = torch.randn(4, columns)
    return GraphBatch(Ragged.from_sizes([4]), torch.zeros(2, 0, dtype=torch.int64), pe={"ERN.embedding": embedding})


@pytest.mark.parametrize("model", ["DeepSet", "Transformer"])
def test_ern_reads_its_entries_as_a_set(model):
    batch = _resistance_batch(5)
    encoder = ERN(4, model=model, layers=2, n_heads=2, post_layers=1).eval()
    shuffled = batch.replace(pe={"ERN.embedding": batch.pe["ERN.embedding"][:, torch.randperm(5)]})
    torch.testing.assert_close(encoder(shuffled), encoder(batch))


def test_ern_linear_fills_rows_up_and_shuffles_them_in_training():
    batch = _resistance_batch(3)
    encoder = ERN(4, model="Linear", er_dim=5).eval()
    expected = batch.pe["ERN.embedding"] @ encoder.linear.weight[:, :3].T + encoder.linear.bias
    torch.testing.assert_close(encoder(batch), expected)
    encoder.train()
    seen = [encoder(batch) for _ in range(5)]
    assert any(not torch.allclose(each, expected) for each in seen)


def _lap_batch(name="LapPE", sizes=(4, 3), frequencies=3):
    nodes = sum(sizes)
    eigvecs = torch.randn(nodes, frequencies)
    eigvecs[-1, -1] = torch.nan
    eigvals = torch.rand(nodes, frequencies).masked_fill(eigvecs.isnan(), torch.nan)
    return GraphBatch(
        Ragged.from_sizes(sizes),
        torch.zeros(2, 0, dtype=torch.int64),
        pe={f"{name}.eigvecs": eigvecs, f"{name}.eigvals": eigvals},
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


@pytest.mark.parametrize("model", ["MLP", "DeepSet"])
@pytest.mark.parametrize("training", [True, False])
def test_sign_net_of_no_nodes(model, training):
    encoder = SignNet(4, model=model, max_freqs=3, phi_hidden_dim=5).train(training)
    assert encoder(_empty(3)).shape == (0, 4)


def _empty(frequencies):
    return GraphBatch(
        Ragged.from_sizes([0]),
        torch.zeros(2, 0, dtype=torch.int64),
        pe={
            "LapPE.eigvecs": torch.zeros(0, frequencies),
            "LapPE.eigvals": torch.zeros(0, frequencies, 1),
            "SignNet.eigvecs": torch.zeros(0, frequencies),
        },
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LapPE(4, model="none"), "Transformer or Linear, received 'none'"),
        (lambda: LapPE(4, raw_norm_type="layer"), "none or BatchNorm, received 'layer'"),
        (lambda: LapPE(6, model="Transformer", n_heads=4), "divide dim_pe, received 4 and 6"),
        (lambda: LapPE(4, layers=0), "layers must be at least 1, received 0"),
        (lambda: RWSE(4, []), "received none"),
        (lambda: RWSE(4, [1], model="deepset"), "mlp, linear or normed_linear, received 'deepset'"),
        (lambda: RWSE(4, [1], raw_norm_type="layer"), "none or BatchNorm"),
        (lambda: RWSE(0, [1]), "dim_pe must be at least 1, received 0"),
        (lambda: RWSE(4, [1, 2])(_lap_batch()), r"RWSE.landing.*the batch has \['LapPE.eigvals', 'LapPE.eigvecs'\]"),
        (lambda: LapPE(4, max_freqs=8)(_lap_batch()), "built for 8 numbers per node.* has 3"),
        (
            lambda: HKdiagSE(4, [1], model="none"),
            "HKdiagSE: model must be mlp, linear or normed_linear, received 'none'",
        ),
        (lambda: ElstaticSE(4, [1, 2]), r"ElstaticSE has 10 numbers per node.*range\(10\).*received 2"),
        (lambda: SignNet(4, model="Transformer"), "MLP or DeepSet, received 'Transformer'"),
        (lambda: SignNet(4, layers=1), "layers must be at least 2, received 1"),
        (lambda: SignNet(4, post_layers=0), "post_layers must be at least 1, received 0"),
        (lambda: SignNet(4, phi_out_dim=0), "phi_out_dim must be at least 1, received 0"),
        (lambda: EquivStableLapPE(4, max_freqs=0), "must be at least 1, received 0"),
        (lambda: EquivStableLapPE(4, raw_norm_type="layer"), "EquivStableLapPE: raw_norm_type must be none"),
        (lambda: RWSEEdge(4, []), r"RWSEEdge: times must name at least one.*received none"),
        (lambda: RWSEEdge(4, [1])(_lap_batch()), r"RWSEEdge reads batch.edge_pe\['RWSEEdge.landing'\].*no encodings"),
        (lambda: ERE(4)(_lap_batch()), r"ERE reads batch.edge_pe\['ERE.resistance'\]"),
        (lambda: ERE(4, layers=0), "must be at least 1, received 0"),
        (lambda: ERN(4, model="mlp"), "Linear, DeepSet or Transformer, received 'mlp'"),
        (lambda: ERN(4, model="DeepSet", layers=0), "layers must be at least 1, received 0"),
        (lambda: ERN(6, model="Transformer"), "divide dim_pe, received 4 and 6"),
        (lambda: ERN(4), "er_dim none is half the nodes of the largest graph, which is not known"),
        (lambda: ERN(4, er_dim=0), "er_dim must be at least 1, received 0"),
        (lambda: ERN(4, er_dim=2)(_resistance_batch(3)), "rows of 2 entries.*has 3; set posenc_ERN.er_dim to 3"),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_eigenvectors_through_one_map() -> None:
    encoder = LapPE(2, model="Linear", max_freqs=3, raw_norm_type="BatchNorm").eval()
    with torch.no_grad():
        encoder.lin_in.weight.copy_(torch.tensor([[1.0, 0, 0], [0, 1, 1]]))
        encoder.lin_in.bias.zero_()
    batch = _lap_batch()
    vectors = batch.pe["LapPE.eigvecs"].nan_to_num(0.0)
    expected = torch.stack([vectors[:, 0], vectors[:, 1] + vectors[:, 2]], dim=1) / (1 + encoder.raw_norm.eps) ** 0.5
    torch.testing.assert_close(encoder(batch), expected.to(encoder.lin_in.weight.dtype), atol=1e-5, rtol=1e-5)
