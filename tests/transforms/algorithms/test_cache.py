from __future__ import annotations

import hashlib
import importlib
import multiprocessing
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from graphbench import plug_ins
from graphbench.data.generators import BlockModel, sbm_cluster
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.transforms import cell_complex, motifs, patches
from graphbench.transforms.algorithms.cache import apply, describe
from graphbench.transforms.base import Level, Transform
from graphbench.transforms.effective_resistance import EdgeResistance
from graphbench.transforms.electrostatic_se import ElectrostaticSE
from graphbench.transforms.heat_kernel_se import HeatKernelSE
from graphbench.transforms.laplacian_pe import LaplacianPE
from graphbench.transforms.random_walk_edge_se import RandomWalkEdgeSE
from graphbench.transforms.random_walk_se import RandomWalkSE
from graphbench.transforms.ricci_curvature import RicciCurvature


def _store(seed: int = 0) -> GraphStore:
    return sbm_cluster((6,), seed, base=BlockModel(2, 3, 5, 0.7, 0.3))


def _computed(store: GraphStore, cache: Path, **transforms: object) -> list[str]:
    """Names of what had to be computed."""
    told: list[str] = []
    apply(store, transforms, cache, told.append)  # type: ignore[arg-type]
    return [name for line in told for name in line.removeprefix("computing ").split(" of ")[0].split(", ")]


def test_outputs_are_named_after_the_encoder(tmp_path: Path) -> None:
    store = apply(_store(), {"LapPE": LaplacianPE(4), "RWSE": RandomWalkSE([1, 2])}, tmp_path)
    assert {name: tuple(value.shape[1:]) for name, value in store.pe.items()} == {
        "LapPE.eigvecs": (4,),
        "LapPE.eigvals": (4, 1),
        "RWSE.landing": (2,),
    }
    assert store.gather([1]).pe["RWSE.landing"].shape == (int(store.sizes[1]), 2)
    assert store.fingerprint == _store().fingerprint


def test_from_disk_it_is_the_same(tmp_path: Path) -> None:
    first, second = (apply(_store(), {"LapPE": LaplacianPE(9)}, tmp_path).pe for _ in range(2))
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=0, atol=0, equal_nan=True)


def test_only_what_changed_is_computed(tmp_path: Path) -> None:
    store = _store()
    assert _computed(store, tmp_path, LapPE=LaplacianPE(4), RWSE=RandomWalkSE([1, 2])) == ["LapPE", "RWSE"]
    assert _computed(store, tmp_path, LapPE=LaplacianPE(4), RWSE=RandomWalkSE([1, 2])) == []
    assert _computed(store, tmp_path, LapPE=LaplacianPE(5), RWSE=RandomWalkSE([1, 2])) == ["LapPE"]
    assert _computed(store, tmp_path, LapPE=LaplacianPE(5, "none"), RWSE=RandomWalkSE([1, 2, 3])) == ["LapPE", "RWSE"]
    assert _computed(_store(1), tmp_path, RWSE=RandomWalkSE([1, 2])) == ["RWSE"]
    # another encoder that reads the same transform, and a store that has encodings already, find what is there
    assert _computed(store, tmp_path, SignNet=LaplacianPE(4)) == []
    assert _computed(apply(store, {"RWSE": RandomWalkSE([1, 2])}, tmp_path), tmp_path, LapPE=LaplacianPE(4)) == []


def test_one_pass_gives_what_each_transform_gives_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # undirected, directed, with self loops and repeated edges
    directed = GraphStore.from_arrays([6, 5], [4, 3], torch.tensor([[0, 1, 1, 2, 0, 3, 3], [1, 2, 2, 0, 0, 4, 4]]))
    batch, sizes = directed.gather([0, 1]), [*directed.sizes.tolist(), *_store().sizes.tolist()]
    local = batch.edge_index - torch.tensor([0] * 4 + [6] * 3)
    edges = torch.cat([local, _store().edge_index], 1)
    store = GraphStore.from_arrays(sizes, [4, 3, *_store().edge_counts.tolist()], edges)
    transforms = {
        "LapPE": LaplacianPE(4),
        "SignNet": LaplacianPE(6, "none"),
        "RWSE": RandomWalkSE([1, 2, 5]),
        "HKdiagSE": HeatKernelSE([1.0, 2.0]),
        "ElstaticSE": ElectrostaticSE(),
        "RWSEe": RandomWalkEdgeSE([1, 4]),
        "ERe": EdgeResistance(),
    }
    alone = {
        name: {f"{name}.{key}": value for key, value in transform(store).items()}
        for name, transform in transforms.items()
    }
    decomposed: list[int] = []
    original = torch.linalg.eigh

    def counting(matrices: Tensor) -> Any:
        decomposed.append(len(matrices))
        return original(matrices)

    monkeypatch.setattr(torch.linalg, "eigh", counting)
    told: list[str] = []
    encoded = apply(store, transforms, tmp_path, told.append)
    assert len(told) == 1
    assert sum(decomposed) == 2 * store.num_graphs  # two Laplacians, once each
    for values in alone.values():
        for name, value in values.items():
            there = encoded.pe.get(name, encoded.edge_pe.get(name))
            torch.testing.assert_close(there, value, rtol=0, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(
    ("module", "search", "transforms"),
    [
        (motifs, "induced_paths", [motifs.Motifs, motifs.MotifNodes]),
        (patches, "_members", [patches.Patches, patches.PatchEdges]),
        (cell_complex, "cycles", [cell_complex.Rings, cell_complex.UndirectedEdges, cell_complex.RingEdges]),
    ],
)
def test_one_search_serves_both_edge_sets(
    module: ModuleType, search: str, transforms: list[type[Transform]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {each.__name__: each()(_store()) for each in transforms}
    original, searched = getattr(module, search), []

    def counting(*arguments: Any, **named: Any) -> Any:
        searched.append(arguments)
        return original(*arguments, **named)

    monkeypatch.setattr(module, search, counting)
    assert _computed(_store(), tmp_path, **{each.__name__: each() for each in transforms}) == list(alone)
    assert len(searched) == 1
    there = apply(_store(), {each.__name__: each() for each in transforms}, tmp_path, pytest.fail).edge_sets
    for name, outputs in alone.items():
        assert all(torch.equal(getattr(there[name], output), value) for output, value in outputs.items())
    # With other arguments nothing of a search is used again, neither of one on disk nor of one in the same pass.
    first, other = transforms[0](), transforms[-1](3 if module is cell_complex else 7)
    assert _computed(_store(), tmp_path, A=first, B=other) == ["B"]
    assert _computed(_store(1), tmp_path, A=first, B=other) == ["A", "B"]
    assert len(searched) == 4


def test_changing_one_encoding_leaves_the_files_of_the_others(tmp_path: Path) -> None:
    apply(_store(), {"LapPE": LaplacianPE(4), "RWSE": RandomWalkSE([1, 2])}, tmp_path)
    [before] = tmp_path.rglob("RandomWalkSE-*.safetensors")
    written = before.stat().st_mtime_ns
    apply(_store(), {"LapPE": LaplacianPE(6), "RWSE": RandomWalkSE([1, 2])}, tmp_path)
    assert [path.stat().st_mtime_ns for path in tmp_path.rglob("RandomWalkSE-*.safetensors")] == [written]
    assert len(list(tmp_path.rglob("LaplacianPE-*.safetensors"))) == 2


def test_a_new_version_is_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _computed(_store(), tmp_path, RWSE=RandomWalkSE([1])) == ["RWSE"]
    monkeypatch.setattr(RandomWalkSE, "version", RandomWalkSE.version + 1)
    assert _computed(_store(), tmp_path, RWSE=RandomWalkSE([1])) == ["RWSE"]


PLUG_IN = """
import torch
from graphbench.transforms.base import Transform

class Hers(Transform):
    version = 1
    outputs = ("ones",)

    def __call__(self, store):
        return {"ones": torch.ones(store.num_nodes, 1)}
"""


def test_an_edited_plug_in_is_computed_again_and_its_copy_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def transform(folder: str, text: str = PLUG_IN) -> Transform:
        file = tmp_path / folder / "hers.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        made: Transform = plug_ins.load_plugin(str(file)).Hers()
        return made

    assert _computed(_store(), tmp_path, Hers=transform("project")) == ["Hers"]
    assert _computed(_store(), tmp_path, Hers=transform("run")) == []
    edited = transform("project", PLUG_IN.replace("torch.ones(", "2 * torch.ones("))
    assert _computed(_store(), tmp_path, Hers=edited) == ["Hers"]
    assert float(apply(_store(), {"Hers": edited}, tmp_path).pe["Hers.ones"].max()) == 2
    (tmp_path / "imported_encodings.py").write_text(PLUG_IN)
    monkeypatch.syspath_prepend(tmp_path)
    imported = importlib.import_module("imported_encodings").Hers()
    monkeypatch.delitem(sys.modules, "imported_encodings")
    assert describe(imported)["code"] == [hashlib.sha256(PLUG_IN.encode()).hexdigest()], (
        "of no plug-in, and an edit counts"
    )
    assert "code" not in describe(RandomWalkSE([1]))  # addresses of shipped transforms stay


def test_every_file_of_a_package_is_in_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "package_of_encodings"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import Hers\n")
    (package / "inner.py").write_text(PLUG_IN)
    hers = plug_ins.load_plugin("package_of_encodings").Hers()
    assert describe(hers)["code"] == [hashlib.sha256(b"from .inner import Hers\n" + PLUG_IN.encode()).hexdigest()]


def test_an_installed_package_is_in_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    codes = []
    for text in (PLUG_IN, PLUG_IN.replace("torch.ones(", "2 * torch.ones(")):
        (site / "installed_encodings.py").write_text(text)
        monkeypatch.delitem(sys.modules, "installed_encodings", raising=False)
        importlib.invalidate_caches()
        codes.append(describe(importlib.import_module("installed_encodings").Hers())["code"])
    monkeypatch.delitem(sys.modules, "installed_encodings")
    assert codes[0] != codes[1]


class Undefined(Transform):
    """One over the number of the node (or edge) in all graphs together, less seven."""

    version = 1
    outputs = ("inverse", "count")

    def __init__(self, level: Level) -> None:
        self.level = level

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        count = torch.arange(store.num_nodes if self.level == "node" else store.num_edges)
        return {"count": count, "inverse": 1.0 / (count[:, None] - 7)}


@pytest.mark.parametrize("level", ["node", "edge"])
def test_an_encoding_that_is_no_number_is_told_with_its_graph(tmp_path: Path, level: Level) -> None:
    store = GraphStore.from_arrays([3, 4, 3], [0, 7, 2], torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0, 1]] * 2))
    told = r"encoding 'Mine\.inverse' has 1 values that are nan or infinite, the first in graph 2 \(computed by "
    for _ in range(2):  # nothing of it is kept
        with pytest.raises(ValueError, match=told + r"Undefined, \S+test_cache\.py:\d+\)"):
            apply(store, {"Mine": Undefined(level)}, tmp_path)
    assert apply(store, {"LapPE": LaplacianPE(9)}, tmp_path).pe["LapPE.eigvals"].isnan().any(), "frequencies it lacks"
    lengths = apply(store, {"R": RicciCurvature(pairs=True)}, tmp_path).pair_pe["R.length"]
    assert lengths.isinf().any(), "pairs without a path"
    assert not lengths.isnan().any()


def test_damage_is_repaired(tmp_path: Path) -> None:
    expected = (
        apply(_store(), {"RWSE": RandomWalkSE([1, 2])}, tmp_path).pe["RWSE.landing"].clone()
    )  # no view of the file
    [file] = tmp_path.rglob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 0xFF
    file.write_bytes(bytes(content))
    assert _computed(_store(), tmp_path, RWSE=RandomWalkSE([1, 2])) == ["RWSE"]
    again = apply(_store(), {"RWSE": RandomWalkSE([1, 2])}, tmp_path).pe["RWSE.landing"]
    torch.testing.assert_close(again, expected, rtol=0, atol=0)


class CountingSE(Transform):
    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("ones",)

    def __init__(self, log: str) -> None:
        self.log = log

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        with open(self.log, "a") as file:
            file.write("computed\n")
        return {"ones": torch.ones(store.num_nodes, 1)}


def _apply_counting(cache: Path, log: Path) -> None:
    assert apply(_store(), {"C": CountingSE(str(log))}, cache).pe["C.ones"].shape[1] == 1


@pytest.mark.parametrize(
    ("returned", "received"),
    [
        (torch.zeros(3, 1), r"float32 of shape \(3, 1\)"),
        ({"zeros": torch.zeros(3, 1)}, r"{'zeros': float32 of shape \(3, 1\)}"),
        ({"ones": [1.0]}, "{'ones': list}"),
        (None, "None: is there a return"),
    ],
)
def test_what_is_not_a_dict_of_the_declared_outputs_is_refused(
    returned: Any, received: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(CountingSE):
        def __call__(self, store: GraphStore) -> dict[str, Tensor]:
            return returned  # type: ignore[no-any-return]

    with pytest.raises(
        UserError,
        match=rf"{Path(__file__).name}:\d+: .*Wrong.__call__ must return a dict .* named ones .*; .*{received}",
    ):
        apply(_store(), {"C": Wrong(str(tmp_path))}, tmp_path)
    joint = type("Joint", (RandomWalkSE,), {"together": staticmethod(lambda store, transforms: [returned])})
    with pytest.raises(UserError, match=rf"must return a dict of tensors named landing .*; received .*{received}"):
        apply(_store(), {"C": joint([1])}, tmp_path)


@pytest.mark.slow
def test_processes_do_the_work_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    log = tmp_path / "log"
    processes = [context.Process(target=_apply_counting, args=(tmp_path / "cache", log)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 3
    assert log.read_text() == "computed\n"
