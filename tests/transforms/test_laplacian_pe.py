from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.transforms.algorithms import dense_blocks, large_graphs
from graphbench.transforms.laplacian_pe import NORMS, LaplacianPE
from tests.transforms.small_graphs import store_of, undirected

RECORDED = [
    *(f"stats_LapPE_{norm}" for norm in ("none", "sym", "rw")),
    *(f"stats_LapPE_none_{norm}" for norm in NORMS if norm != "L2"),
]


@pytest.mark.parametrize("name", RECORDED)
def test_equals_graphgps(name: str, golden: Callable[[str], dict[str, Any]]) -> None:
    recorded = golden(f"graphgps/{name}")
    config = recorded["config"]
    encode = LaplacianPE(config["max_freqs"], config["laplacian_norm"], config["eigvec_norm"])
    store = store_of(recorded["in/edge_index"], recorded["in/ptr"])
    values, vectors = _decompose(encode, store)
    expected_values = recorded["out/eigvals_float64"][..., 0]
    expected_vectors = recorded["out/eigvecs_float64"]
    torch.testing.assert_close(values, expected_values, atol=1e-12, rtol=0, equal_nan=True)
    assert torch.equal(vectors.isnan(), expected_vectors.isnan())
    compared = 0
    for rows in torch.arange(store.num_nodes).split(store.sizes.tolist()):
        spectrum = expected_values[rows[0]]
        for value in _distinct(spectrum):
            same = (spectrum - value).abs() < 1e-6
            alone = int(same.sum()) == 1
            cut = len(rows) > len(spectrum) and bool(same[-1])  # the rest of the eigenspace is not among max_freqs
            if not alone and (cut or config["eigvec_norm"] != "L2"):
                continue  # scaling acts on an arbitrary basis: nothing to compare
            ours, theirs = vectors[rows][:, same], expected_vectors[rows][:, same]
            # The original passes eigenvectors through float32, hence 1e-6.
            torch.testing.assert_close(ours @ ours.T, theirs @ theirs.T, atol=1e-6, rtol=1e-6)
            compared += int(same.sum())
    assert compared >= 10


def _decompose(encode: LaplacianPE, store: GraphStore) -> tuple[Tensor, Tensor]:
    out = encode.exact(store)
    return out["eigvals"][..., 0], out["eigvecs"]


def _distinct(spectrum: Tensor) -> list[float]:
    found: list[float] = []
    for value in spectrum[~spectrum.isnan()].tolist():
        if not found or value - found[-1] > 1e-6:
            found.append(value)
    return found


def test_a_path_by_hand() -> None:
    encode = LaplacianPE(5, "none")
    out = encode(undirected(3, (0, 1), (1, 2)))
    assert out["eigvals"].shape == (3, 5, 1)
    assert out["eigvecs"].shape == (3, 5)
    assert out["eigvals"].dtype == out["eigvecs"].dtype == torch.float32
    torch.testing.assert_close(out["eigvals"][:, :3, 0], torch.tensor([[0.0, 1.0, 3.0]] * 3), atol=1e-6, rtol=0)
    assert out["eigvals"][:, 3:].isnan().all()
    assert out["eigvecs"][:, 3:].isnan().all()
    torch.testing.assert_close(out["eigvecs"][:, 0].abs(), torch.full((3,), 3**-0.5))
    torch.testing.assert_close(out["eigvecs"][:, 1].abs(), torch.tensor([2**-0.5, 0, 2**-0.5]), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("norm", "isolated"), [("none", 0.0), ("sym", 1.0), ("rw", 1.0)])
def test_isolated_nodes_and_self_loops(norm: Any, isolated: float) -> None:
    values, vectors = _decompose(LaplacianPE(3, norm), undirected(3, (0, 1), (1, 1)))
    assert isolated in values[0].round(decimals=9).tolist()
    assert not vectors.isnan().any()
    one_node, _ = _decompose(LaplacianPE(2, norm), undirected(1))
    assert one_node[0, 0] == isolated


def test_zero_repeats_once_per_component() -> None:
    values, _ = _decompose(LaplacianPE(5, "sym"), undirected(5, (0, 1), (2, 3), (3, 4)))
    assert (values[0] < 1e-12).sum() == 2


@pytest.mark.parametrize("cells", [1, 300, 1 << 24])
@pytest.mark.parametrize("norm", ["none", "sym"])
def test_eigenvectors_satisfy_their_equation_in_stacks_of_any_size(
    norm: Any, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_blocks, "_CELLS", cells)
    store = sbm_cluster((12,), 0, base=BlockModel(3, 2, 9, 0.6, 0.2))
    values, vectors = _decompose(LaplacianPE(6, norm), store)
    for graph, rows in enumerate(torch.arange(store.num_nodes).split(store.sizes.tolist())):
        adjacency = torch.zeros(len(rows), len(rows), dtype=torch.float64)
        adjacency[tuple(store.gather([graph]).edge_index)] = 1
        degree = adjacency.sum(1)
        matrix = torch.diag(degree) - adjacency
        if norm == "sym":
            root = torch.where(degree > 0, degree.clamp_min(1).rsqrt(), 0)
            matrix = torch.eye(len(rows), dtype=torch.float64) - root[:, None] * adjacency * root
        kept = min(6, len(rows))
        basis, spectrum = vectors[rows][:, :kept], values[rows[0], :kept]
        torch.testing.assert_close(matrix @ basis, basis * spectrum, atol=1e-10, rtol=0)
        torch.testing.assert_close(basis.T @ basis, torch.eye(kept, dtype=torch.float64), atol=1e-10, rtol=0)
        torch.testing.assert_close(spectrum, torch.linalg.eigvalsh(matrix)[:kept].clamp_min(0), atol=1e-10, rtol=0)


def test_directed_graphs_are_symmetrised_one_by_one() -> None:
    # graph 0: directed path; graph 1: an undirected path with one edge stored twice, which stays a double edge
    edges = torch.tensor([[0, 1, 0, 1, 1, 2, 0, 1], [1, 2, 1, 0, 2, 1, 1, 0]])
    store = GraphStore.from_arrays([3, 3], [2, 6], edges)
    values, _ = _decompose(LaplacianPE(3, "none"), store)
    torch.testing.assert_close(values[0], torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64), atol=1e-12, rtol=0)
    doubled = torch.linalg.eigvalsh(torch.tensor([[2.0, -2, 0], [-2, 3, -1], [0, -1, 1]], dtype=torch.float64))
    torch.testing.assert_close(values[3], doubled.clamp_min(0), atol=1e-12, rtol=0)


def test_no_graphs_and_empty_graphs() -> None:
    out = LaplacianPE(3)(GraphStore.from_arrays([0, 2, 0], [0, 2, 0], torch.tensor([[0, 1], [1, 0]])))
    assert out["eigvecs"].shape == (2, 3)
    assert LaplacianPE(3)(GraphStore.from_graphs([]))["eigvals"].shape == (0, 3, 1)


@pytest.mark.parametrize("norm", NORMS)
def test_every_scaling_is_finite_also_for_eigenvalue_zero(norm: Any) -> None:
    out = LaplacianPE(4, "none", norm)(undirected(4, (0, 1)))
    assert torch.isfinite(out["eigvecs"]).all()


def test_largest_entry_and_wavelength() -> None:
    path = undirected(4, (0, 1), (1, 2), (2, 3))
    values, largest = _decompose(LaplacianPE(4, "none", "abs-max"), path)
    _, wave = _decompose(LaplacianPE(4, "none", "wavelength"), path)
    assert largest.abs().amax(0).tolist() == pytest.approx([1] * 4)
    assert wave.abs().amax(0)[1:].tolist() == pytest.approx((np.pi / 2 / values[0, 1:].sqrt()).tolist())


@pytest.mark.parametrize("dense", [2, 1024])
@pytest.mark.parametrize("norm", ["none", "sym", "rw"])
def test_large_graphs_have_the_same_eigenpairs(norm: Any, dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # directed, with a self loop, of three components of 30 nodes and an isolated node
    store = sbm_cluster((3,), 0, base=BlockModel(2, 15, 15, 0.4, 0.2))
    ends = torch.cat([store.gather([0, 1, 2]).edge_index, torch.tensor([[0, 4], [0, 60]])], 1)[:, ::3]
    graph = GraphStore.from_arrays([91, 2], [ends.shape[1], 1], torch.cat([ends, torch.tensor([[0], [1]])], 1))
    expected_values, expected = _decompose(LaplacianPE(12, norm), graph)
    monkeypatch.setattr(LaplacianPE, "large_from", 50)
    monkeypatch.setattr(large_graphs, "_DENSE", dense)
    values, vectors = _decompose(LaplacianPE(12, norm), graph)
    torch.testing.assert_close(values, expected_values, atol=1e-8, rtol=0, equal_nan=True)
    spectrum = expected_values[0].tolist()
    for start, value in enumerate(spectrum):
        stop = start + sum(abs(other - value) < 1e-6 for other in spectrum)
        if (start and spectrum[start - 1] > value - 1e-6) or stop == len(spectrum):
            continue  # not the first of its eigenspace, or an eigenspace that may go on
        ours, theirs = vectors[:91, start:stop], expected[:91, start:stop]
        torch.testing.assert_close(ours @ ours.T, theirs @ theirs.T, atol=1e-5, rtol=0)
    torch.testing.assert_close(vectors[91:].abs(), expected[91:].abs(), equal_nan=True)


def test_eigenvalues_too_close_for_the_iteration_are_found_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LaplacianPE, "large_from", 400)
    monkeypatch.setattr(large_graphs, "_DENSE", 10)
    monkeypatch.setattr(large_graphs, "_RESTARTS", 2)
    path = undirected(400, *((i, i + 1) for i in range(399)))
    values, vectors = _decompose(LaplacianPE(4, "none"), path)
    expected = 2 - 2 * torch.cos(torch.arange(4, dtype=torch.float64) * torch.pi / 400)
    torch.testing.assert_close(values[0], expected, atol=1e-10, rtol=0)
    # the second eigenvector of a path is half a wave
    wave = torch.cos((torch.arange(400, dtype=torch.float64) + 0.5) * torch.pi / 400)
    torch.testing.assert_close(vectors[:, 1].abs(), (wave / wave.norm()).abs(), atol=1e-8, rtol=0)


def test_large_graphs_of_isolated_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LaplacianPE, "large_from", 5)
    out = LaplacianPE(3, "none")(undirected(50, (7, 8)))
    assert out["eigvals"].abs().max() < 1e-6
    torch.testing.assert_close(out["eigvecs"].norm(dim=0), torch.ones(3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_freqs": 0}, "max_freqs must be at least 1, received 0"),
        ({"laplacian_norm": "None"}, "laplacian_norm must be one of none, sym, rw; received 'None'"),
        ({"eigvec_norm": "l2"}, "eigvec_norm must be one of L1, L2, .* received 'l2'"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LaplacianPE(**arguments)
