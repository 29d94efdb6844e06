"""What every data set has to declare; a new one is found by itself."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import pytest
import torch

from graphbench import registry
from graphbench.data.builder import DatasetBuilder, DatasetCollection, LoadedDataset
from graphbench.data.datasets.ogb import OGB
from graphbench.data.datasets.tu import TUDataset
from graphbench.data.files.roots import Roots
from graphbench.errors import UserError
from tests.link_graphs import Contacts

REGISTERED = {
    name: builder
    for name in registry.names("data/datasets")
    if (builder := registry.lookup("data/datasets", name)).__module__.startswith("graphbench.")  # not of other tests
}
MEMBERS = {builder for builder, _ in OGB.members().values()}
BUILDERS = sorted({*REGISTERED.values(), *MEMBERS}, key=lambda builder: str(builder.__name__))


@pytest.mark.parametrize("name", REGISTERED)
def test_it_is_a_builder(name: str) -> None:
    assert issubclass(REGISTERED[name], DatasetBuilder)
    assert REGISTERED[name].registered_name == name


@pytest.mark.parametrize(("builder", "name"), [(builder, name) for builder in BUILDERS for name in builder.names])
def test_every_name_has_a_card_without_data(builder: Any, name: str) -> None:
    card = builder(name).card
    if card is None:  # measured, where the collection's table says nothing about it
        assert builder is TUDataset
    else:
        assert card.node_in >= 1
        assert card.out_dim >= 1
        assert card.source
        assert card.files or card.licence.startswith("generated")
        assert registry.lookup("tasks/metrics", card.metric).maximize is card.maximize


@pytest.mark.parametrize("builder", [builder for builder in BUILDERS if builder.names and builder is not TUDataset])
def test_other_names_are_refused(builder: Any) -> None:
    name = builder.names[-1]
    with pytest.raises(UserError, match=rf"unknown {builder.registered_name} data set .*\. Did you mean '{name}'"):
        builder(f"{name}x")


def test_what_is_not_implemented_is_refused() -> None:
    class CardOnly(DatasetBuilder):
        card = None

    with pytest.raises(TypeError, match=r"CardOnly.*abstract method '?load'?"):
        CardOnly()  # type: ignore[abstract]


class Family(Contacts):
    names = ("small", "large")
    offered_by: ClassVar = {"Collection": {"tiny": "small", "any-*": "*"}}

    def __init__(self, name: str, *, colours: int = 2) -> None:
        super().__init__(name)
        self.colours = colours


class Inherits(Family):
    """Is not offered a second time."""


class Collection(DatasetCollection):
    pass


@pytest.mark.parametrize("builder", BUILDERS, ids=lambda builder: builder.__name__)
def test_every_constructor_hands_its_name_to_the_base_class(builder: type[DatasetBuilder]) -> None:
    """Which checks and keeps it: the name of one that only checks is nowhere to be read."""
    for name in builder.names:
        assert builder(name).name == name


@pytest.mark.parametrize(("name", "own"), [("tiny", "small"), ("any-thing", "thing")])
def test_a_collection_builds_its_members(name: str, own: str) -> None:
    options: dict[str, Any] = {"colours": 3, "unknown_to_it": 1}
    collection = Collection(name, **options)
    assert type(collection.builder) is Family
    assert (collection.builder.name, collection.builder.colours) == (own, 3)
    assert collection.card == Family("small").card
    assert isinstance(collection.load(Roots.from_environment("nowhere")), LoadedDataset)


def test_rows_of_predictions_are_numbered_as_in_the_data_set() -> None:
    contacts = Contacts("small").load(Roots.from_environment("nowhere"))
    store, part = contacts.store.replace(y=None, y_level="node"), torch.tensor([2, 0])
    both = contacts.card.replace(task="node", transductive=True)
    nodes = dataclasses.replace(contacts, store=store).rows_of(part)
    assert nodes["graph"].tolist() == [2] * 8 + [0] * 6
    assert nodes["node"].tolist() == [*range(8), *range(6)]
    seen_whole = dataclasses.replace(contacts, store=store, card=both).rows_of(torch.tensor([7, 5]))
    assert {name: column.tolist() for name, column in seen_whole.items()} == {"graph": [1, 0], "node": [1, 5]}
    graphs = dataclasses.replace(contacts, store=store.replace(y_level="graph")).rows_of(part)
    assert (list(graphs), graphs["graph"].tolist()) == (["graph"], [2, 0])
    assert contacts.rows_of(part) == {}, "negative pairs are drawn anew"
    pairs = dataclasses.replace(contacts, card=both).rows_of(part)
    assert (list(pairs), pairs["pair"].tolist()) == (["pair"], [2, 0])


@pytest.mark.parametrize("name", ["small", "any-", "none"])
def test_what_a_collection_does_not_offer(name: str) -> None:
    with pytest.raises(UserError, match=rf"unknown Collection data set .*'{name}'.* Allowed: any-\*, tiny"):
        Collection(name)
