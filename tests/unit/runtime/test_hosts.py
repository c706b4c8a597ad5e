"""The check of Host and Origin headers answers as that of the MCP SDK, without importing it."""

import subprocess
import sys

import pytest
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request

from pallas_runtime.http.senders import accepted_hosts

ACCEPTED = accepted_hosts("https://pallas.example/", ["other.example", "any.example:*"], ["https://page.example"])
HOSTS = (
    None,
    "",
    "localhost",
    "127.0.0.1:8080",
    "localhost.evil",
    "pallas.example",
    "pallas.example:1",
    "any.example:2",
)
ORIGINS = (
    None,
    "",
    "null",
    "http://localhost:5",
    "https://pallas.example",
    "https://page.example",
    "https://page.example.evil",
)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("origin", ORIGINS)
async def test_headers_are_refused_as_the_sdk_refuses_them(host: str | None, origin: str | None) -> None:
    assert ACCEPTED is not None
    given = {"host": host, "origin": origin}
    headers = [(name.encode(), value.encode()) for name, value in given.items() if value is not None]
    request = Request({"type": "http", "method": "GET", "headers": headers})
    settings = TransportSecuritySettings(allowed_hosts=ACCEPTED.hosts, allowed_origins=ACCEPTED.origins)
    expected = await TransportSecurityMiddleware(settings).validate_request(request)
    refused = ACCEPTED.refusal(request.headers)
    assert (refused and (refused.status_code, refused.body)) == (expected and (expected.status_code, expected.body))


@pytest.mark.parametrize("service", ["data_pool", "pipelines"])
def test_a_service_that_does_not_serve_mcp_starts_without_the_sdk(service: str) -> None:
    program = f"import sys, {service}.app; print([name for name in ('mcp', 'mcp_types') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
