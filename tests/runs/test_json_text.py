"""JSON that every reader accepts."""

from __future__ import annotations

import json
import math

import pytest

from graphbench.runs.json_text import dumps, parse_object


def no_constant(name: str) -> None:
    pytest.fail(f"{name} is not JSON")


@pytest.mark.parametrize("indent", [None, 2])
def test_what_is_not_finite_is_null(indent: int | None) -> None:
    value = {"a": math.nan, "b": [1.5, (math.inf, -math.inf, 0)], 3: {"c": "NaN"}, "d": 2**70}
    text = dumps(value, indent)
    assert json.loads(text, parse_constant=no_constant) == {
        "a": None,
        "b": [1.5, [None, None, 0]],
        "3": {"c": "NaN"},
        "d": 2**70,
    }


OBJECTS = [
    {"a": 1, "b": [{"y": 0.1, "x": None}], "c": 'one,\n "two": 3'},
    {"a": 1, "b": {}, "é": [], "d": math.nan},
    {"only": {"z": {"q": 1, "p": True}, "a": -0.0}},
    {},
]


@pytest.mark.parametrize("indent", [None, 0, 1, 2])
@pytest.mark.parametrize("value", OBJECTS)
def test_members_are_those_of_the_whole_text(value: dict[str, object], indent: int | None) -> None:
    """However it is laid out: only an indent of one is cut into members."""
    text = json.dumps(value, indent=indent) + "\n"
    content, members = parse_object(text)
    assert repr(content) == repr(json.loads(text))
    whole = json.dumps(value, sort_keys=True, separators=(",", ":"))
    assert "{" + ",".join(members[key] for key in sorted(members)) + "}" == whole


@pytest.mark.parametrize(
    "text",
    [
        '{\n "a": 1,\n "b": [\n 2,\n "c": 3\n]\n}\n',
        '{\n "a": 1,\n "b": 2\n}\n}\n',
        '{\n "a": 1,\n "a\n}\n',
        '{\n "a": "1,\n "b": 2"\n}\n',
        '{\n "a": 1,,\n "b": 2\n}\n',
        '{\n "a": 1,\n "b": 2',
    ],
)
def test_what_is_cut_wrongly_is_refused_as_a_whole(text: str) -> None:
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    with pytest.raises(json.JSONDecodeError):
        parse_object(text)


@pytest.mark.parametrize("text", ['{\n "a": {\n "b": 1,\n "c": 2\n}\n}\n', '{\n "a": 1, "b": 2,\n "a": 3\n}\n'])
def test_other_layouts_are_parsed_as_a_whole(text: str) -> None:
    """Nested members that begin as outer ones do, two members in a line, one key twice."""
    assert parse_object(text)[0] == json.loads(text)


def test_what_two_texts_share_is_one_object() -> None:
    one, other = ({"shared": {"a": [1, 2]}, "own": number} for number in range(2))
    assert parse_object(dumps(one, 1) + "\n")[0]["shared"] is parse_object(dumps(other, 1) + "\n")[0]["shared"]
