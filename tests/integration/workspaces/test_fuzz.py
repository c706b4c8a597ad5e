"""The REST API with input generated from its OpenAPI document: no 5xx but 502 and 503, and nothing undocumented."""

import asyncio
import uuid
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from tests.integration.processes import a_service
from tests.integration.workspaces.lab import API, PASSWORD, environment
from tests.lives import generated
from tests.postgres import PostgresServer

EXAMPLES = 6
CHECKS = [("specs.openapi.checks", "status_code_conformance"), ("specs.openapi.checks", "response_schema_conformance")]
ENDLESS = ("/events", "/login", "/logout")
"""Routes that are left out: streams, and those that would lock the test out."""
KNOWN = {
    "workspace_id": "demo",
    "instance_id": str(uuid.UUID(int=1)),
    "conversation_id": str(uuid.UUID(int=2)),
    "image_id": str(uuid.UUID(int=3)),
    "message_id": str(uuid.UUID(int=4)),
    "reply_id": str(uuid.UUID(int=5)),
}
CONTENT = """
insert into workspaces values ('demo', 'Demo');
insert into pallas_instances (id, name, registry_url, agents) values
  ('{instance_id}', 'Kottos', 'http://127.0.0.1:9', '[{{"server_id": "a", "name": "x/a", "title": "A", "url": "http://127.0.0.1:9/mcp"}}]');
insert into workspace_pallas_assignments values ('demo', '{instance_id}');
insert into agent_connections values ('demo', '{instance_id}', 'a', 'x/a', 'A', null, null, 'http://127.0.0.1:9/mcp');
insert into conversations (id, workspace_id) values ('{conversation_id}', 'demo');
insert into messages (id, conversation_id, seq, role, status, content, agent_instance_id, agent_server_id, key) values
  ('{message_id}', '{conversation_id}', 1, 'user', 'answered', 'hello', '{instance_id}', 'a', null),
  ('{reply_id}', '{conversation_id}', 2, 'assistant', 'failed', '', '{instance_id}', 'a', '{message_id}');
insert into images values ('{image_id}', '{message_id}', 0, 'image/png', '\\x89504e470d0a1a0a');
"""
NETWORKS = {"registry_networks": "192.0.2.0/24"}
"""No registry can be reached, so no test waits for one."""


@pytest.fixture
def service(postgres: PostgresServer, model: str, tmp_path: Path) -> Generator[str]:
    """The address of a process of the service that has something of everything."""
    with asyncio.Runner() as runner:
        database = runner.run(postgres.new_database(like=model))
        content = CONTENT.format(**KNOWN).replace("'", "''")
        runner.run(postgres.say(f"do 'begin {content} end'", database))
        variables = environment(postgres_url=database, teams_url="http://127.0.0.1:9", **NETWORKS)
        process = a_service("workspaces", "nats://127.0.0.1:9", tmp_path, "fuzzed", variables)
        running = runner.run(process.__aenter__())
        try:
            runner.run(running.ready())
            yield running.base
        finally:
            runner.run(process.__aexit__(None, None, None))
    log = running.log.read_text("utf-8")
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:10_000]


@pytest.mark.timeout(300)
def test_no_input_from_the_openapi_document_makes_the_service_fail(service: str) -> None:
    from schemathesis import GenerationMode, openapi  # not by each process that collects tests

    account = ("admin", PASSWORD)
    document: dict[str, Any] = httpx.get(f"{service}{API}/openapi.json", auth=account, trust_env=False).json()
    wanted = [getattr(import_module(f"schemathesis.{module}"), name) for module, name in CHECKS]
    schema: Any = openapi.from_dict(document)
    operations = [found.ok() for found in schema.get_all_operations()]
    tried = [one for one in operations if not one.path.endswith(ENDLESS)]
    assert len(operations) - len(tried) == 5
    for operation in sorted(tried, key=lambda one: one.method.upper() == "DELETE"):
        for mode in GenerationMode:
            calls = operation.as_strategy(generation_mode=mode)

            @generated(EXAMPLES)
            @given(case=calls, known=st.booleans())
            def hold(case: Any, known: bool) -> None:
                if known and case.path_parameters:
                    case.path_parameters |= {name: KNOWN[name] for name in case.path_parameters if name in KNOWN}
                answer = case.call(base_url=service, auth=account)
                assert answer.status_code < 500 or answer.json()["code"] not in ("internal",), answer.text
                case.validate_response(answer, checks=wanted)

            with suppress(Unsatisfiable):  # a route without parameters has no wrong input
                hold()
