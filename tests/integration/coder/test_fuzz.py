"""Input generated from the OpenAPI documents of Coder and AgentAPI: no 5xx, and answers as the documents have them.

Three things in Coder's document differ from what real answers are, and are set right here: a field may be null, an id
that may be null is a string, and what makes something answers 201.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from tests.integration.coder.shapes import kind_of, recorded

EXAMPLES = 4
CHECKS = [
    ("checks", "not_a_server_error"),
    ("specs.openapi.checks", "status_code_conformance"),
    ("specs.openapi.checks", "response_schema_conformance"),
]
TOKEN = "s3cret"


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Generator[Any]:
    """Starts the command with arguments, and returns the address that it prints."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> str:
        command = [sys.executable, "-m", "pallas_demo.coder", "--port", "0", *arguments]
        folder = tmp_path_factory.mktemp("coder")
        environment = {"PALLAS_CODER_TOKEN": TOKEN, "PATH": "/usr/bin:/bin"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment)
        started.append(process)
        assert process.stdout
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found
        return found[0]

    yield start
    for process in started:
        process.terminate()
        assert process.wait(10) == 0
        assert process.stdout
        process.stdout.close()


def nullable(schema: Any) -> Any:
    """The document with every field of an answer allowed to be null."""
    if kind_of(schema) == "array":
        return [nullable(one) for one in schema]
    if kind_of(schema) != "object":
        return schema
    found: dict[str, Any] = {name: nullable(one) for name, one in schema.items()}
    for name, field in found.get("properties", {}).items():
        reference = field.get("$ref")
        found["properties"][name] = (
            {"allOf": [{"$ref": reference}], "x-nullable": True} if reference else field | {"x-nullable": True}
        )
    return found


def hold(cases: Any, base: str, headers: dict[str, str], values: dict[str, str]) -> None:
    """Call one operation; `values` take the place of generated ones in the path."""
    wanted = [getattr(import_module(f"schemathesis.{module}"), name) for module, name in CHECKS]

    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        derandomize="PALLAS_TEST_SEED" not in os.environ,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(case=cases)
    def call(case: Any) -> None:
        generated: dict[str, Any] = case.path_parameters or {}
        case.path_parameters = {name: values.get(name, value) for name, value in generated.items()}
        answer = case.call(base_url=base, headers=headers)
        busy = case.path == "/message" and "failed to send message" in answer.text  # AgentAPI answers 500 then
        case.validate_response(answer, checks=wanted[busy:])

    with suppress(Unsatisfiable):  # nothing can be wrong in an operation without parameters
        call()


def hold_for_all(document: dict[str, Any], base: str, headers: dict[str, str], **known: str) -> int:
    """Call each operation with inputs that fit the document and with some that do not; return how many there are."""
    from schemathesis import GenerationMode, openapi  # not by each process that collects tests

    tried = 0
    schema: Any = openapi.from_dict(document)
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.startswith(("/events", "/workspaceagents/{workspaceagent}")):
            continue  # their answers do not end
        for mode in GenerationMode:
            values = known if mode is GenerationMode.POSITIVE else {}
            hold(operation.as_strategy(generation_mode=mode), base, headers, values)
        tried += 1
    return tried


def test_coders_openapi_document_holds(serve: Any) -> None:
    base = serve("--build-seconds", "0.05")
    document = nullable(recorded("coder-swagger-subset"))
    document["definitions"]["uuid.NullUUID"] = {"type": "string", "format": "uuid", "x-nullable": True}
    refusal = {"description": "refused", "schema": {"$ref": "#/definitions/codersdk.Response"}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            answers["default"] = refusal
            if method == "post" and path.endswith(("/workspaces", "/builds")):
                answers["201"] = answers.pop("200")
    headers = {"Coder-Session-Token": TOKEN}
    with httpx.Client(base_url=f"{base}/api/v2", headers=headers, trust_env=False) as client:
        templates = {one["name"]: one for one in client.get("/templates").json()}
        setup = templates["coder-devcontainer"]
        made = client.post("/users/me/workspaces", json={"name": "papi", "template_id": setup["id"]}).json()
        known = {
            "user": "me", "organization": made["organization_id"], "template": setup["id"], "workspacename": "papi",
            "templateversion": setup["active_version_id"], "templatename": setup["name"], "workspace": made["id"],
            "workspacebuild": made["latest_build"]["id"], "task": made["task_id"],
        }  # fmt: skip
        assert hold_for_all(document, f"{base}/api/v2", headers, **known) == 27


@pytest.fixture
def terminal(serve: Any) -> str:
    """The address of AgentAPI in front of a demo agent that waits for input."""
    program = Path(str(import_module("pallas_demo.coder").__file__)).with_name("demo_agent.py")
    base: str = serve("--agentapi", f"{sys.executable} {program}")
    with httpx.Client(base_url=base, trust_env=False) as client:
        until = time.monotonic() + 30
        while client.get("/status").json()["status"] != "stable":
            assert time.monotonic() < until
            time.sleep(0.02)
    return base


def test_nothing_that_is_typed_ends_the_agent(terminal: str) -> None:
    keys = ["\x03", "\x04", "\x1c", "\x1a", "\x00", "\x1b", "\x9b", "\ud800", "\r"]
    prompts = ["write \x00: x", "write .: x", "work 1x s", "work 1e999 s", "exit", "\ud800"]
    with httpx.Client(base_url=terminal, trust_env=False, timeout=20) as client:

        def type_in(kind: str, content: str) -> int:
            body = json.dumps({"type": kind, "content": content})
            return client.post("/message", content=body, headers={"content-type": "application/json"}).status_code

        assert [type_in("raw", key) for key in keys] == [200] * len(keys)
        for prompt in prompts:
            while type_in("user", prompt) == 500:  # it still works on the one before
                time.sleep(0.02)
        assert client.get("/status").status_code == 200


def test_agentapis_openapi_document_holds(terminal: str) -> None:
    document = recorded("agentapi-openapi")
    hosts = document["paths"]["/status"]["get"]["responses"]
    assert set(hosts) == {"200", "default"}
    assert hold_for_all(document, terminal, {}) == 4
