"""Payloads as earlier releases wrote them: a later release still reads them with the same meaning.

Goldens are added to, never edited: a payload that is stored somewhere does not change either.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pallas_contracts.catalog import BUCKETS, CONTRACTS, QUESTIONS
from pallas_contracts.generate import messages, parts
from pallas_contracts.message import Message

GOLDENS = sorted((Path(__file__).parent / "goldens").glob("*.json"))

MESSAGE_TYPES: dict[str, type[Message]] = {
    **{contract.name: contract.message for contract in CONTRACTS},
    **{bucket.name: bucket.message for bucket in BUCKETS},
    **{f"{question.name}.question": question.question for question in QUESTIONS},
    **{f"{question.name}.answer": question.answer for question in QUESTIONS},
}
"""What a golden's name stands for: a contract, a bucket, or a question's two sides."""

each_golden = pytest.mark.parametrize("path", GOLDENS, ids=lambda path: path.stem)


def name_of(path: Path) -> str:
    return path.stem.rpartition("-")[0]


def parsed(path: Path) -> Message:
    return MESSAGE_TYPES[name_of(path)].model_validate_json(path.read_bytes())


def inside(value: Message) -> Iterator[Message]:
    yield value
    for name in type(value).model_fields:
        for each in messages_of(getattr(value, name)).values():
            yield from inside(each)


def messages_of(value: object) -> dict[Any, Message]:
    """The messages a field holds: itself, or those of a list or a dictionary by their place in it."""
    if isinstance(value, Message):
        return {None: value}
    several = cast("tuple[object, ...] | dict[Any, object]", value if isinstance(value, tuple | dict) else ())
    places = several.items() if isinstance(several, dict) else enumerate(several)
    return {place: each for place, each in places if isinstance(each, Message)}


@each_golden
def test_a_golden_is_read_and_written_with_the_same_meaning(path: Path) -> None:
    message = parsed(path)
    assert type(message).model_validate_json(message.model_dump_json()) == message
    written, given = json.loads(message.model_dump_json(exclude_unset=True)), json.loads(path.read_bytes())
    assert written == given


@each_golden
def test_fields_of_a_later_release_are_ignored_at_every_depth(path: Path) -> None:
    later = with_unknown_fields(json.loads(path.read_bytes()), parsed(path))
    assert type(parsed(path)).model_validate_json(json.dumps(later)) == parsed(path)


def with_unknown_fields(given: dict[str, Any], message: Message) -> dict[str, Any]:
    """The payload with an unknown field in it and in every message inside it."""
    grown: dict[str, Any] = {**given, "of_a_later_release": {"x": [1]}}
    for name in given:
        held = getattr(message, name)
        if isinstance(held, Message):
            grown[name] = with_unknown_fields(given[name], held)
        else:
            for place, each in messages_of(held).items():
                grown[name][place] = with_unknown_fields(given[name][place], each)
    return grown


def test_every_message_type_has_a_golden() -> None:
    assert {name_of(path) for path in GOLDENS} == set(MESSAGE_TYPES)


def test_every_field_of_every_message_is_given_in_a_golden() -> None:
    given: dict[type[Message], set[str]] = {message: set() for message in parts(messages())}
    for path in GOLDENS:
        for message in inside(parsed(path)):
            given[type(message)] |= message.model_fields_set
    missing = {kind.__name__: set(kind.model_fields) - names for kind, names in given.items()}
    assert {name: fields for name, fields in missing.items() if fields} == {}
