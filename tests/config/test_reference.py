import pytest

from graphbench.config.key import Key
from graphbench.config.reference import SECTIONS, allowed_text, docstring_entries, key_entries
from graphbench.config.schema import SCHEMA


def test_every_key_stands_in_it_once_with_a_meaning_of_one_line() -> None:
    entries = list(key_entries())
    names = [entry.name for entry in entries]
    assert len(set(names)) == len(names)
    assert {name for name, key in SCHEMA.items() if not key.inert} <= set(names)
    ours = [entry for entry in entries if not entry.name.startswith("dataset.PyG-")]  # which other tests have named
    assert not [entry.name for entry in ours if "\n" in entry.meaning or not entry.meaning]
    by_name = {entry.name: entry for entry in entries}
    assert by_name["gt.SGFormer.combine"].meaning.startswith('`"mean"` of the heads')
    assert by_name["posenc_HopMask.cutoff"].meaning, "of the encoder's transform"
    assert all(group in ("", *{name.partition(".")[0] for name in SCHEMA}) for _, group in SECTIONS.values())


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (Key("a", "", allowed=("a", "b")), "a, b"),
        (Key("gcn", "", namespaces=("layers/local", "layers/blocks")), "names of layers/local, layers/blocks"),
        (Key(1, "", minimum=0, maximum=8), "int, at least 0, at most 8"),
        (Key(None, "", holds=float, optional=True), "float or none"),
        (Key([], "", item=int), "list of int"),
    ],
)
def test_allowed_values_in_words(key: Key, text: str) -> None:
    assert allowed_text(key) == text


def test_entries_of_a_docstring() -> None:
    text = "A.\n\nArgs:\n    dim: width of\n        :class:`~a.b.Layer`.\n    heads: ``h``.\n\nRaises:\n    E: never."
    assert docstring_entries(text, "Args") == {"dim": "width of `Layer`.", "heads": "`h`."}
