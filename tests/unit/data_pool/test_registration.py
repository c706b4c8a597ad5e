"""Registrations: what is read from both forms, and the field of every fault."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.requirements import requirement

from data_pool.registering.registration import (
    MOST_FAULTS,
    InvalidRegistration,
    Registration,
    check_schemas,
    read_registration,
)
from data_pool.registering.registrations import Registrars
from pallas_contracts.agents import LARGEST_DEFINITION
from pallas_contracts.errors import Denied, Rejected
from pallas_contracts.turns import Principal
from pallas_schemas.tool_schema import ToolSchema

NOW = datetime(2026, 11, 23, tzinfo=UTC)

NESTED: dict[str, Any] = {
    "agent_id": "feature_extractor",
    "capabilities": {
        "tools": ["extract_features"],
        "resources": ["ohlcv_source"],
        "schema": {
            "extract_features": {
                "input": {"symbol": "string", "interval": "string"},
                "output": {"features": "list[float]"},
            }
        },
    },
    "heartbeat_interval": 60,
}
"""The example of the contract, section 3.2."""

FLAT: dict[str, Any] = {
    "agent_id": "binance_agent",
    "tools": ["fetch_ohlcv"],
    "resources": ["binance_api"],
    "schema": {
        "fetch_ohlcv": {
            "input": {"symbol": "string", "interval": "string"},
            "output": {"ohlcv": "list[list[float]]"},
        }
    },
    "constraints": {"timeout": 5, "memory": "128MB"},
}
"""The example of the contract, section 4."""


def read(params: dict[str, Any], *, one_at_a_time: bool = False, largest: int = LARGEST_DEFINITION) -> Registration:
    return read_registration(params, NOW, one_at_a_time=one_at_a_time, largest=largest)


def faults(params: dict[str, Any]) -> dict[str, str]:
    """The faults of a registration, by field."""
    with pytest.raises(InvalidRegistration) as error:
        asyncio.run(check_schemas(read(params).definition, Principal(id="127.0.0.1")))
    found = TypeAdapter(list[dict[str, str]]).validate_python(error.value.facts["faults"])
    return {fault["field"]: fault["reason"] for fault in found}


@requirement("D-3.2.1", "D-3.2.2")
def test_the_nested_example_of_the_contract_is_an_agent() -> None:
    found = read(NESTED)
    [tool] = found.definition.tools
    text = {"type": "string"}
    assert tool.name == "extract_features"
    assert tool.input_schema == {
        "type": "object",
        "properties": {"symbol": text, "interval": text},
        "required": ["symbol", "interval"],
    }
    assert tool.output_schema == {
        "type": "object",
        "properties": {"features": {"type": "array", "items": {"type": "number"}}},
        "required": ["features"],
    }
    assert (found.heartbeat_interval, tool.meta, found.warnings) == (60, None, ())
    assert found.definition.facts is not None
    assert found.definition.facts["resources"] == ["ohlcv_source"]


@requirement("D-4.2")
def test_the_flat_example_of_the_contract_is_an_agent_with_its_limits() -> None:
    found = read(FLAT).definition
    assert (found.team, found.agent, found.kind, found.title) == ("data", "binance_agent", "data", "binance_agent")
    assert (found.limits.turn_timeout, found.limits.max_concurrency, found.retry) == (5, 64, "unsafe")
    assert found.facts is not None
    assert found.facts["constraints"] == {"timeout": 5, "memory": "128MB", "idempotent": False}
    least = read({name: FLAT[name] for name in ("agent_id", "tools", "schema")})
    assert (least.definition.limits.turn_timeout, least.heartbeat_interval) == (60, None)


def test_what_is_given_twice_counts_as_in_capabilities_with_a_warning() -> None:
    found = read(
        {**NESTED, "tools": ["other"], "schema": NESTED["capabilities"]["schema"], "constraints": {"timeout": 9}}
    )
    assert [tool.name for tool in found.definition.tools] == ["extract_features"]
    assert found.warnings == ("tools is given twice: that in capabilities counts",)
    assert found.definition.limits.turn_timeout == 9


def test_a_field_that_is_not_known_is_ignored_with_a_warning() -> None:
    misspelt = {"heartbeat": 5, "constraints": {"time_limit": 5}, "allow": {"token": ["t-1"]}}
    assert read({**FLAT, **misspelt}).warnings == (
        "heartbeat is not known and has no effect",
        "constraints.time_limit is not known and has no effect",
        "allow.token is not known and has no effect",
    )


@pytest.mark.parametrize("url", ["http://x:99999/", "http://x:0/", "http://x:y/", "http://a b/"])
def test_an_endpoint_has_an_address_that_can_be_one(url: str) -> None:
    assert list(faults({**FLAT, "endpoint": {"url": url}})) == ["endpoint"]


def test_a_value_of_the_wrong_kind_is_named_in_words_of_json() -> None:
    wrong: dict[str, Any] = {"constraints": [], "tools": "f", "endpoint": "http://x", "schema": {"f": 5}}
    assert set(faults({**FLAT, **wrong}).values()) == {"must be an object", "must be a list"}


def test_our_own_fields_are_read() -> None:
    own = {
        "title": "Candles",
        "description": "Market data.",
        "descriptions": {"fetch_ohlcv": "Candles of a symbol."},
        "allow": {"types": ["team"], "teams": ["t-1"]},
        "endpoint": {"url": "https://agents.example/rpc", "protocol": "mcp"},
        "constraints": {"max_concurrency": 3, "idempotent": True, "policy": {"region": "eu"}},
    }
    found = read({**FLAT, **own})
    assert (found.definition.title, found.definition.tools[0].description) == ("Candles", "Candles of a symbol.")
    assert (found.definition.limits.max_concurrency, found.definition.retry) == (3, "safe")
    assert found.definition.allow is not None
    assert found.definition.allow.teams == ("t-1",)
    assert found.endpoint is not None
    assert found.endpoint.protocol == "mcp"
    assert found.definition.tools[0].annotations == {"idempotentHint": True}


def test_an_agent_without_ids_is_called_one_call_at_a_time() -> None:
    assert read(FLAT, one_at_a_time=True).definition.limits.max_concurrency == 1


@pytest.mark.parametrize("output", ["list[int]", {"$schema": "x", "type": "array"}, "int?"])
def test_an_output_that_is_no_object_is_wrapped(output: Any) -> None:
    schema: dict[str, Any] = {"fetch_ohlcv": {"input": {}, "output": output}}
    found = read({**FLAT, "schema": schema})
    assert found.definition.tools[0].meta == {"pallas/wrapped": True}
    assert found.definition.tools[0].output_schema is not None
    assert list(found.definition.tools[0].output_schema["properties"]) == ["result"]


def test_an_output_that_is_wrapped_may_refer_to_its_definitions() -> None:
    output = {"$schema": "x", "type": "array", "items": {"$ref": "#/$defs/Row"}, "$defs": {"Row": {"type": "integer"}}}
    found = read({**FLAT, "schema": {"fetch_ohlcv": {"input": {}, "output": output}}})
    asyncio.run(check_schemas(found.definition, Principal(id="127.0.0.1")))
    schema = ToolSchema(found.definition.tools[0].output_schema or {})
    assert schema.faults({"result": [1]}) == []
    assert schema.faults({"result": ["x"]}) != []


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
        {"type": "object", "properties": {"x": {}}},
    ],
)
def test_a_json_schema_is_taken_as_it_is(schema: dict[str, Any]) -> None:
    found = read({**FLAT, "schema": {"fetch_ohlcv": {"input": schema, "output": schema}}})
    assert found.definition.tools[0].input_schema == found.definition.tools[0].output_schema == schema


@requirement("D-4.1")
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"agent_id": "Big"}, "agent_id"),
        ({"agent_id": "a__b"}, "agent_id"),
        ({"agent_id": "x" * 65}, "agent_id"),
        ({"agent_id": 3}, "agent_id"),
        ({"tools": "fetch_ohlcv"}, "tools"),
        ({"tools": []}, "tools"),
        ({"tools": ["fetch_ohlcv"] * 2}, "tools"),
        ({"tools": ["fetch_ohlcv", "more"]}, "schema.more"),
        ({"tools": ["get_health"]}, "tools.0"),
        ({"tools": ["a b"]}, "tools.0"),
        ({"tools": [f"t{number}" for number in range(201)]}, "tools"),
        ({"schema": []}, "schema"),
        ({"schema": {"fetch_ohlcv": 1}}, "schema.fetch_ohlcv"),
        ({"schema": {"fetch_ohlcv": {"output": {}}}}, "schema.fetch_ohlcv.input"),
        ({"schema": {"fetch_ohlcv": {"input": {}}}}, "schema.fetch_ohlcv.output"),
        ({"schema": {"fetch_ohlcv": {"input": "list[int]", "output": {}}}}, "schema.fetch_ohlcv.input"),
        ({"schema": {"fetch_ohlcv": {"input": {"a": {"b": "flot"}}, "output": {}}}}, "schema.fetch_ohlcv.input.a.b"),
        ({"schema": {**FLAT["schema"], "gone": {"input": {}, "output": {}}}}, "schema.gone"),
        (
            {"schema": {"fetch_ohlcv": {"input": {"type": "object", "properties": {"x": 3}}, "output": {}}}},
            "schema.fetch_ohlcv.input",
        ),
        (
            {
                "schema": {
                    "fetch_ohlcv": {"input": {"type": "object", "properties": {"x": {"pattern": "(a"}}}, "output": {}}
                }
            },
            "schema.fetch_ohlcv.input",
        ),
        ({"heartbeat_interval": 0}, "heartbeat_interval"),
        ({"heartbeat_interval": 86_401}, "heartbeat_interval"),
        ({"heartbeat_interval": "60"}, "heartbeat_interval"),
        ({"heartbeat_interval": True}, "heartbeat_interval"),
        ({"constraints": {"timeout": 0}}, "constraints.timeout"),
        ({"constraints": {"memory": "much"}}, "constraints.memory"),
        ({"constraints": {"max_concurrency": 1.5}}, "constraints.max_concurrency"),
        ({"constraints": {"idempotent": "yes"}}, "constraints.idempotent"),
        ({"endpoint": {"url": "ftp://x"}}, "endpoint"),
        ({"endpoint": {"url": "https://ann:secret@x/"}}, "endpoint"),
        ({"endpoint": {"url": "https://x", "protocol": "soap"}}, "endpoint.protocol"),
        ({"allow": {"teams": "t-1"}}, "allow.teams"),
        ({"descriptions": {"fetch_ohlcv": 3}}, "descriptions.fetch_ohlcv"),
        ({"title": "x" * 1001}, "title"),
        ({"capabilities": []}, "capabilities"),
        ({"capabilities": {"tools": []}}, "capabilities.tools"),
        (
            {"capabilities": {"schema": {"fetch_ohlcv": {"input": {"x": "int int"}, "output": {}}}}},
            "capabilities.schema.fetch_ohlcv.input.x",
        ),
    ],
    ids=str,
)
def test_every_fault_names_its_field(change: dict[str, Any], field: str) -> None:
    found = faults({**FLAT, **change})
    assert any(each == field or each.startswith(f"{field}.") for each in found), found
    assert "secret" not in str(found)


@requirement("D-4.1")
@pytest.mark.parametrize("field", ["agent_id", "tools", "schema"])
def test_what_has_to_be_there_is_missed(field: str) -> None:
    assert field in faults({name: value for name, value in FLAT.items() if name != field})


def test_an_agent_that_is_too_large_is_refused() -> None:
    long = {f"field_{number}": "string" for number in range(500)}
    schema = {"fetch_ohlcv": {"input": long, "output": {}}}
    with pytest.raises(InvalidRegistration, match="exceeds 10000 bytes"):
        read({**FLAT, "schema": schema}, largest=10_000)
    many = {f"field_{number}": "string" for number in range(20_000)}
    assert any(
        field.startswith("schema")
        for field in faults({**FLAT, "schema": {"fetch_ohlcv": {"input": many, "output": {}}}})
    )


def test_registrars_are_types_teams_and_tokens() -> None:
    registrars = Registrars(frozenset({"user", "token:ann"}))
    for caller in (Principal(type="user", id="x"), Principal(type="token", id="ann")):
        registrars.check(caller)
    for caller in (
        Principal(type="token", id="ben"),
        Principal(type="peer", id="ann"),
        Principal(type="team", id="user"),
    ):
        with pytest.raises(Denied):
            registrars.check(caller)
    with pytest.raises(Rejected, match="everybody"):
        Registrars(frozenset({"everybody"}))


def test_an_answer_has_a_bounded_number_of_faults() -> None:
    many = {f"field_{number}": "no type" for number in range(5000)}
    assert len(faults({**FLAT, "schema": {"fetch_ohlcv": {"input": many, "output": {}}}})) == MOST_FAULTS
