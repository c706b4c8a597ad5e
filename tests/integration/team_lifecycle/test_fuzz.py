"""The REST API with input generated from its OpenAPI document: no 5xx, and no undocumented response."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis.errors import Unsatisfiable
from tests.embedded import NatsServer, RedisServer
from tests.integration.team_lifecycle.lab import ADMIN_PASSWORD, SERVICE_PASSWORD, environment
from tests.integration.team_lifecycle.replica import Replica
from tests.lives import generated
from tests.postgres import PostgresServer
from tests.requirements import requirement

EXAMPLES = 12
CHECKS = [
    ("checks", "not_a_server_error"),
    ("specs.openapi.checks", "status_code_conformance"),
    ("specs.openapi.checks", "response_schema_conformance"),
]
OPERATIONS = 37
TRIES = 3
"""Calls that follow one that was to be made again."""


@pytest.fixture
def service(postgres: PostgresServer, redis: RedisServer, nats_server: NatsServer, tmp_path: Path) -> Generator[str]:
    """The address of a process of the service."""
    database = asyncio.run(postgres.new_database(like="model"))
    urls = {"postgres_url": database, "redis_url": redis.url, "nats_url": nats_server.url}
    with asyncio.Runner() as runner:
        replica = Replica(environment(**urls), tmp_path / "log")
        runner.run(replica.start())
        try:
            yield replica.base
        finally:
            assert runner.run(replica.end(signal.SIGTERM)) == 0
            assert "Traceback" not in (tmp_path / "log").read_text("utf-8")


@requirement("K-pkg-2")
@pytest.mark.timeout(300)
def test_no_input_from_the_openapi_document_makes_the_service_fail(service: str) -> None:
    from schemathesis import GenerationMode, openapi  # not by each process that collects tests

    document: dict[str, Any] = httpx.get(f"{service}/openapi.json", trust_env=False).json()
    wanted = [getattr(import_module(f"schemathesis.{module}"), name) for module, name in CHECKS]
    schema: Any = openapi.from_dict(document)
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        for mode in GenerationMode:
            calls = operation.as_strategy(generation_mode=mode)

            @generated(EXAMPLES)
            @given(case=calls)
            def hold(case: Any) -> None:
                account = ("admin", ADMIN_PASSWORD)
                if case.path.startswith("/mcp_server"):
                    account = ("daedalus-service", SERVICE_PASSWORD)
                answer = case.call(base_url=service, auth=account)
                for _ in range(TRIES):
                    if answer.status_code != 503:
                        break
                    # The machine may pause for longer than the timeout of Redis.
                    assert "retry-after" in answer.headers
                    answer = case.call(base_url=service, auth=account)
                case.validate_response(answer, checks=wanted)

            # A route without parameters has no wrong input.
            with nullcontext() if mode is GenerationMode.POSITIVE else suppress(Unsatisfiable):
                hold()
        tried += 1
    assert tried == OPERATIONS
