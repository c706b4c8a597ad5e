"""Definitions of an attacker who has the broker rights of a worker."""

import json
from typing import Any

from hypothesis import strategies as st

type Json = Any


def nested(levels: int, key: str, inside: Json) -> Json:
    """A value inside `levels` nested objects."""
    for _ in range(levels):
        inside = {key: inside}
    return inside


def doubling(times: int, last: Json = None) -> dict[str, Json]:
    """A schema that applies its last part 2 to the power of `times`."""
    parts: dict[str, Json] = {
        f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(times)
    }
    return {"$defs": parts | {f"d{times}": last or {"type": "string"}}, "properties": {"text": {"$ref": "#/$defs/d0"}}}


SCHEMAS: list[Json] = [
    {"$ref": "http://127.0.0.1:1/schema.json"},
    {"properties": {"text": {"$ref": "file:///etc/passwd"}}},
    {"$id": "http://127.0.0.1:1/", "$ref": "schema.json"},
    {"$dynamicRef": "#node"},
    {"$ref": "#"},
    {"allOf": [{"$ref": "#"}]},
    {"$ref": "#/$defs/none"},
    {"$ref": "#/odd", "odd": {"properties": 5}},
    {"properties": {"text": {"pattern": "^(a+)+$"}}},
    {"properties": {"text": {"pattern": "(?=a)b"}}},
    {"properties": {"text": {"pattern": "(?:a|b)*a(?:a|b){2500}c"}}},
    {"properties": {"text": {"pattern": r"(?:\w{1000}){1000}"}}},
    {"properties": {"text": {"pattern": "["}}},
    {"patternProperties": {"^(a+)+$": {"type": "integer"}}},
    {"properties": {"text": {"format": "regex"}}},
    doubling(60),
    nested(60, "not", {}),
    nested(3000, "not", {}),
    {"properties": {f"p{number}": {"type": "string"} for number in range(3000)}},
    {"enum": list(range(20_000))},
    {"type": "strin"},
    {"required": "text"},
    {"maxLength": 10**400},
    {"multipleOf": 1e-320},
    {"description": "x" * 900_000},
    {"$defs": {"n": {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/n"}] * 3}}}}, "$ref": "#/$defs/n"},
    {"uniqueItems": True, "items": {"$ref": "#"}},
    {"unevaluatedProperties": {"$ref": "#"}},
]
"""Schemas, each of which could stop a process that uses it without bounds."""

_WORDS = st.sampled_from(["", "a", "A.b", "*", ">", "\n", "x" * 70, "x" * 2000, "http://[", "٣", "a b"])
_NUMBERS = st.sampled_from([-1, 0, 1, 65_536, 2**31, 2**63, 10**400, 1e308, 0.5])
_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3),
    max_leaves=5,
)
_KEYWORDS = """
    $ref $id $anchor allOf anyOf not items prefixItems properties patternProperties additionalProperties propertyNames
    pattern enum const type required minimum maxLength dependentSchemas dependentRequired contains unevaluatedItems
    unevaluatedProperties $defs if
"""
_keywords = st.sampled_from(_KEYWORDS.split())
_PLAIN: list[Json] = [{}, "#", "#/$defs/a", "#/properties/text"]
_simple = _VALUES | st.sampled_from(_PLAIN)
_names = st.sampled_from(["a", "text"])
schemas: st.SearchStrategy[Json] = st.sampled_from(SCHEMAS) | st.recursive(
    st.dictionaries(_keywords, _simple),
    lambda inner: st.dictionaries(_keywords, inner | st.lists(inner, max_size=2) | st.dictionaries(_names, inner)),
    max_leaves=6,
)
_TIMES = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:00", "0001-01-01T00:00:00+23:00", "x", 1e300])

_GOOD: dict[str, Json] = {"title": "Good", "updated_at": "2026-01-01T00:00:00Z"}
_tools = st.fixed_dictionaries(
    {"name": st.just("say") | _WORDS, "input_schema": schemas},
    optional=dict.fromkeys(("title", "annotations", "meta", "icons", "aliases", "correlation"), _VALUES),
)
_FIELDS: dict[str, st.SearchStrategy[Json]] = {
    "tools": st.lists(_tools, max_size=2),
    "updated_at": _TIMES,
    "port": _NUMBERS,
    "icons": st.lists(st.fixed_dictionaries({"src": _WORDS}), max_size=2),
    "dependencies": st.lists(
        st.fixed_dictionaries({"name": _WORDS, "key": _WORDS, "transport": st.sampled_from(["http", "stdio"])}),
        max_size=2,
    ),
    "model": st.fixed_dictionaries({"provider": _WORDS, "model": _WORDS, "key": _WORDS}),
    "agents": st.lists(_WORDS, max_size=2),
    "limits": st.dictionaries(
        st.sampled_from(["turn_timeout", "queue_timeout", "max_queued", "max_concurrency", "max_rate"]),
        _NUMBERS,
    ),
    "resources": st.lists(st.fixed_dictionaries({"uri": _WORDS, "name": _WORDS, "template": st.booleans()})),
    "prompts": st.lists(
        st.fixed_dictionaries({"name": _WORDS}, optional={"arguments": _VALUES, "messages": _VALUES}), max_size=2
    ),
    "namespace": _WORDS,
    "version": _WORDS | st.just("9" * 900),
    "title": _WORDS,
    "allow": _VALUES,
    "team": st.just("other"),
    "tool": _VALUES,
}

_PARTS = """
    src sizes theme mimeType name title required readOnlyHint read_only_hint type properties $schema
"""
_parts: st.SearchStrategy[dict[str, Json]] = st.dictionaries(
    st.sampled_from(list[str](_PARTS.split())), _VALUES, min_size=1, max_size=1
)


def _one_with(field: str) -> st.SearchStrategy[list[dict[str, Json]]]:
    return _parts.map(lambda part: [{field: "a", **part}])


_ODD_PARTS: dict[tuple[str, str], st.SearchStrategy[Json]] = {
    **{("tools", name): _parts for name in ("annotations", "input_schema", "output_schema")},
    ("tools", "icons"): _one_with("src"),
    ("prompts", "arguments"): _one_with("name"),
}


@st.composite
def definitions_with_an_odd_part(draw: st.DrawFn, team: str, agent: str) -> bytes:
    """A valid definition, but for one field of one of its icons, annotations, arguments or schemas."""
    section, name = draw(st.sampled_from(list(_ODD_PARTS)))
    part = draw(_ODD_PARTS[section, name])
    return json.dumps({"team": team, "agent": agent, **_GOOD, section: [{"name": "say", name: part}]}).encode()


@st.composite
def definitions(draw: st.DrawFn, team: str, agent: str) -> bytes:
    """The bytes stored for an agent: in most cases nearly a valid definition."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from([b"", b"{", b"null", b"[" * 100_000, b'{"title": NaN}', b'"\xff"', b"7" * 10_000]))
    given = {"team": team, "agent": agent, **_GOOD}
    for name in draw(st.lists(st.sampled_from(sorted(_FIELDS)), min_size=1, max_size=3, unique=True)):
        given[name] = draw(_FIELDS[name])
    return json.dumps(given).encode()
