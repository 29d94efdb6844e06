"""Names, namespaces, contracts, plug-ins and construction from signatures."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from torch import Tensor, nn

from graphbench import plug_ins, registry
from graphbench.config.values import key_of
from graphbench.errors import ArgumentError, UserError
from graphbench.layers.contract import GlobalAttention, LocalLayer
from graphbench.registry import UNSET, FromContext, namespaces, registrations, source_names
from tests.paths import ROOT


def test_unknown_name_lists_and_suggests() -> None:
    message = r"f.yaml:3: unknown name in layers/local 'GatdGCN'. Did you mean 'GatedGCN'\? Nearest of \d+: GatedGCN, "
    with pytest.raises(UserError, match=message):
        registry.lookup("layers/local", "GatdGCN", "f.yaml:3")


@pytest.mark.parametrize("namespace", registry.NAMESPACES)
def test_names_read_from_the_sources_are_those_that_are_registered(namespace: str) -> None:
    for component in registry.components(namespace):
        assert issubclass(component, registry.base_class(namespace))
    assert set(registry.names(namespace)) == set(registrations._registered[namespace])


def test_the_type_of_a_namespace_is_the_base_class_that_it_names() -> None:
    constants = {name: each for name, each in vars(registry).items() if isinstance(each, registry.Namespace)}
    assert sorted(constants.values()) == sorted(registry.NAMESPACES)
    for name, namespace in constants.items():
        base = registry.base_class(namespace)
        assert namespaces.__annotations__[name] == f"Namespace[{base.__name__}]"
        assert namespace.base == f"{base.__module__}:{base.__qualname__}", "plug-ins are told by where it is defined"


def test_names_are_read_from_any_decorator_with_literals_and_others_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "layer.py"
    file.write_text(
        "@register('Single')\nclass A: ...\n"
        '@register("Noted",  # (why)\n    "Alias", namespace="layers/local")\nclass B: ...\n'
        '@graphbench.registry.register(name="Keyword", group="gt")\nclass C: ...\n'
        '"""\n    @register("Example")\n"""\n'
    )
    assert source_names.registered_names(file) == ["Single", "Noted", "Alias", "Keyword"]
    for wrong in ("NAME", "f'{NAME}2'", "*NAMES"):
        file.write_text(f'NAME = "X"\n\n@register(\n    "Y",\n    {wrong},\n)\nclass A: ...\n')
        with pytest.raises(
            UserError, match=rf"layer.py:5: names in @register are literal .* received {re.escape(wrong)}"
        ):
            source_names.registered_names(file)
    file.write_text('@register("X"\nclass A: ...\n')
    assert source_names.registered_names(file) == [], "importing it says why"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """A process that looks a loss up, says which losses it has imported, and loads a plug-in with the name of DFi."""
    plugin = tmp_path_factory.mktemp("plugin") / "mine.py"
    plugin.write_text(PLUGIN.format(context="", own="gain: float = 2.0").replace("OwnNames", "DFi"))
    code = (
        "import gc; gc.disable(); import sys; from graphbench import plug_ins, registry;"
        "registry.lookup('tasks/losses', 'l1');"
        "print([name for name in sys.modules if name.startswith('graphbench.tasks.losses.')]);"
        f"plug_ins.load_plugin({str(plugin)!r})"
    )
    environment = {**os.environ, "GRAPHBENCH_ALLOW_PLUGINS": "1"}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_look_up_imports_one_module_and_not_its_neighbours(fresh: subprocess.CompletedProcess[str]) -> None:
    assert fresh.stdout.strip() == "['graphbench.tasks.losses.regression']"


class Silent(GlobalAttention):
    """Refused: no forward pass."""

    def __init__(self, dim: FromContext[int]) -> None:
        super().__init__()


class Greedy(Silent):
    """Refused: asks the model for what it does not offer."""

    def __init__(self, dim: FromContext[int], width: FromContext[int]) -> None:
        super().__init__(dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: object) -> Tensor:
        return h


class Plain(Silent):
    """Refused: nothing says that the model fills its width."""

    def __init__(self, dim, scale=0.5, *, hops=2) -> None:  # type: ignore[no-untyped-def]
        super().__init__(dim)

    def forward(self, h: Tensor, e: Tensor | None, batch: object) -> Tensor:
        return h


@pytest.mark.parametrize(
    ("component", "namespace", "message"),
    [
        (nn.Linear, "layers/attention", "Linear .*must be a subclass of graphbench.layers.contract.Attention"),
        (Silent, "layers/attention", r"Silent \(in layers/attention\) lacks forward; see .*contract.Attention"),
        (Greedy, "layers/attention", "unknown FromContext parameter of Greedy 'width'.*heads"),
        (Plain, "layers/attention", r"Plain .*: the parameter 'dim' has no annotation; .* dim: FromContext\[\.\.\.\]"),
        (nn.Linear, None, r"@register\('X'\) of Linear finds no namespace: derive the class from .*contract.Attention"),
    ],
)
def test_a_class_that_breaks_the_contract_is_refused(component: type, namespace: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        registry.register("X", namespace=namespace)(component)


def test_a_plug_in_cannot_take_the_name_of_a_shipped_component_that_nobody_has_imported(
    fresh: subprocess.CompletedProcess[str],
) -> None:
    assert re.search(
        r"UserError: .*mine\.py:6: the name 'DFi' is already taken in layers/attention by DFi of ", fresh.stderr
    )


def test_a_name_has_no_sign_that_joins_names() -> None:
    with pytest.raises(UserError, match=r"the name 'A\+B' has a '\+', which joins names"):
        registry.register("A+B")(registry.lookup("layers/attention", "DFi"))


def test_a_parameter_without_annotation_is_a_key_of_the_type_of_its_default() -> None:
    keys = {name: key_of(parameter) for name, parameter in registry.parameters(Plain).items()}
    assert keys["dim"] is None
    assert [(keys[name].kind, keys[name].default) for name in ("scale", "hops")] == [(float, 0.5), (int, 2)]


def test_a_name_cannot_be_taken_twice() -> None:
    registry.lookup("layers/local", "GCN")

    class Other(LocalLayer):
        def forward(self, h: Tensor, e: Tensor | None, batch: object) -> tuple[Tensor, Tensor | None]:
            return h, e

    with pytest.raises(UserError, match="'GCN' is already taken in layers/local"):
        registry.register("GCN")(Other)


@dataclass(frozen=True)
class Offered:
    a: int = UNSET
    b: int = UNSET
    c: int = UNSET


def test_arguments_win_over_the_context_which_fills_declared_parameters_only() -> None:
    def component(a: FromContext[int], b: FromContext[int] = 2, *, c: int = 3) -> tuple[int, int, int]:
        return a, b, c

    assert registry.construct(component, {}, Offered(a=1, c=9)) == (1, 2, 3)
    assert registry.construct(component, {"a": 5, "c": 7, "unknown": 0}, Offered(a=1, b=9)) == (5, 9, 7)
    with pytest.raises(TypeError, match="needs 'a'"):
        registry.construct(component, {}, Offered())


def test_what_is_fixed_in_the_context_may_be_repeated_only() -> None:
    class Fixing(Offered):
        fixed = ("a",)

    def component(a: FromContext[int], b: FromContext[int] = 2) -> tuple[int, int]:
        return a, b

    assert registry.construct(component, {"a": 1, "b": 5}, Fixing(a=1, b=9)) == (1, 5)
    assert registry.construct(component, {"a": 3}, Fixing()) == (3, 2)
    with pytest.raises(ArgumentError, match="component is 1 in this model, received 3; leave it out") as raised:
        registry.construct(component, {"a": 3}, Fixing(a=1))
    assert raised.value.parameters == ("a",)


@pytest.mark.parametrize("namespace", registry.NAMESPACES)
def test_fixed_are_fields_of_the_context(namespace: str) -> None:
    context = registry.context_class(namespace)
    fields = {field.name for field in dataclasses.fields(context)}
    assert set(getattr(context, "fixed", ())) <= fields


OLD_NAMES = (
    "dim dim_in dim_out dim_edge dim_encoded dim_pe node_in edge_in out_dim num_types heads dropout act batchnorm "
    "layers layers_pre_mp layers_post_mp l2norm pooling encoder edge_encoder block local attention head task task_type "
    "transductive size_average thresh params lr weight_decay momentum fused optimizer max_epoch num_warmup_epochs "
    "steps lr_decay reduce_factor schedule_patience min_lr name ogb_atom_vocabulary attn_dropout degrees equivstable "
    "edge_types max_nodes prepare decoding infer_link_label hidden_dropout use_edge_attr attention_type "
    "num_random_blocks block_size use_bias hidden_act layer_norm_eps slic_compactness train_percent "
    "add_reverse_edges add_self_loops stage_type agg normalize_adj self_msg msg_direction mlp edge_residual "
    "dropout_inside standardize norm residual full_graph gamma mlp_dropout"
).split()
"""Parameters that were filled by their name alone, whatever component had them."""

PLUGIN = """
from graphbench.layers.contract import GlobalAttention
from graphbench.registry import FromContext, register


@register("OwnNames")
class OwnNames(GlobalAttention):
    def __init__(self, {context}*, {own}):
        super().__init__()
        self.received = dict(locals())

    def forward(self, h, e, batch):
        return h
"""


def test_a_parameter_of_a_plug_in_is_its_own_unless_it_says_otherwise(tmp_path: Path) -> None:
    """Each of the names that were once filled from outside gets the plug-in's own default, and is a key."""
    from graphbench.config import load_config
    from graphbench.factory.data import declared_info
    from graphbench.factory.model import build_model

    (tmp_path / "plugin.py").write_text(PLUGIN.format(context="", own=", ".join(f"{n}: int = 77" for n in OLD_NAMES)))
    yaml = tmp_path / "c.yaml"
    yaml.write_text(
        f"_base_: {ROOT}/configs/quickstart.yaml\nplugins: [plugin.py]\ngt: {{layer_type: None+OwnNames, layers: 1}}\n"
    )
    try:
        config = load_config(yaml, ["gt.OwnNames.heads", "5"])
        info = declared_info(config)
        assert info is not None
        layer = build_model(config, info).layers[0].sublayers[1]
    finally:
        registry.forget("layers/attention", "OwnNames")
    received = {name: layer.received[name] for name in OLD_NAMES}
    assert received == {**dict.fromkeys(OLD_NAMES, 77), "heads": 5}
    assert config.component_args("gt", "OwnNames") == received
    assert "gt.OwnNames.heads" in config.settings


def test_a_plug_in_filled_from_the_context_says_so(tmp_path: Path) -> None:
    from graphbench.config import load_config
    from graphbench.factory.data import declared_info
    from graphbench.factory.model import build_model

    source = PLUGIN.format(
        context="dim: FromContext[int], dropout: FromContext[float] = 0.0, ", own="gain: float = 2.0"
    )
    (tmp_path / "plugin.py").write_text(source)
    yaml = tmp_path / "c.yaml"
    base = f"_base_: {ROOT}/configs/quickstart.yaml\nplugins: [plugin.py]\n"
    yaml.write_text(base + "gt: {layer_type: None+OwnNames, layers: 1, attn_dropout: 0.25}\n")
    try:
        config = load_config(yaml)
        info = declared_info(config)
        assert info is not None
        received = build_model(config, info).layers[0].sublayers[1].received
    finally:
        registry.forget("layers/attention", "OwnNames")
    assert (received["dim"], received["dropout"], received["gain"]) == (config.tree.gt.dim_hidden, 0.25, 2.0)
    assert config.component_args("gt", "OwnNames") == {"gain": 2.0}


def test_a_module_of_the_working_directory_is_a_plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "package_of_hers").mkdir()
    (tmp_path / "package_of_hers/__init__.py").write_text("SCALE = 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    assert plug_ins.load_plugin("package_of_hers").SCALE == 2
    monkeypatch.delitem(sys.modules, "package_of_hers")


def test_broken_plugin_is_one_message(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import not_a_module_anywhere\n")
    with pytest.raises(UserError, match=r"f.yaml:1: plug-in '.*broken.py' cannot be loaded: ModuleNotFoundError"):
        plug_ins.load_plugin(str(path), "f.yaml:1")


def test_a_plug_in_may_compute_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        PLUGIN.format(context="", own="a: int = 2").replace('"OwnNames"', "'Own' + 'Names'")
    )
    try:
        plug_ins.load_plugin(str(tmp_path / "mine.py"))
        assert registry.is_known("layers/attention", "OwnNames")
    finally:
        registry.forget("layers/attention", "OwnNames")


def test_copies_of_a_plug_in_are_one_and_an_edited_one_takes_its_names_over(tmp_path: Path) -> None:
    def write(run: str, gain: str) -> Path:
        (tmp_path / run).mkdir(exist_ok=True)
        (tmp_path / run / "mine.py").write_text(PLUGIN.format(context="", own=f"gain: float = {gain}"))
        return tmp_path / run / "mine.py"

    def gain() -> object:
        return registry.parameters(registry.lookup("layers/attention", "OwnNames"))["gain"].default

    try:
        first = plug_ins.load_plugin(str(write("0", "2.0")))
        assert plug_ins.load_plugin(str(write("1", "2.0"))) is first
        edited = plug_ins.load_plugin(str(write("0", "3.0")))  # within the same second, of the same size
        assert gain() == 3.0
        assert plug_ins.plugin_source(edited) != plug_ins.plugin_source(first)
        with pytest.raises(UserError, match=r"1/mine.py:6: the name 'OwnNames' is already taken in .* by .*0/mine.py"):
            plug_ins.load_plugin(str(write("1", "4.0")))
        assert gain() == 3.0
        plug_ins.load_plugin(str(write("0", "2.0")))  # the edit undone
        assert gain() == 2.0
    finally:
        registry.forget("layers/attention", "OwnNames")
    assert not list(tmp_path.rglob("*.pyc"))


def test_unset_stays_itself_in_copies_and_pickles() -> None:
    """It is told by identity: a context in a block that was copied must not offer it as a value."""
    assert copy.deepcopy(UNSET) is UNSET
    assert pickle.loads(pickle.dumps(UNSET)) is UNSET


def test_constructions_are_noted_where_somebody_asks() -> None:
    @dataclass(frozen=True)
    class Width:
        dim: int = UNSET

    class Line:
        def __init__(self, dim: FromContext[int], *, slope: float = 1.0) -> None:
            self.dim, self.slope = dim, slope

    with registry.constructions() as outer:
        with registry.constructions() as inner:
            registry.construct(Line, {"slope": 2.0}, Width(3))
        registry.construct(Line, {"dim": 4})
    registry.construct(Line, {"dim": 5})
    assert inner == [registry.Construction(Line, {"slope": 2.0}, Width(3))]
    assert outer == [*inner, registry.Construction(Line, {"dim": 4}, None)]
