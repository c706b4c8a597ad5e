"""Calls a function of an agent by JSON-RPC, at a gateway (`data-agent-pool.md`, section 3.1)."""

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import httpx

from pallas_cli.refused import Refused, not_reached, not_there
from pallas_mcp_calls.model import CallFailed

_CONNECT_SECONDS = 30.0


def execute(
    gateway: str, agent: str, function: str, given: dict[str, Any], meta: dict[str, Any], token: str | None
) -> dict[str, Any]:
    """The response to `agent.execute`: `result` or `error`, and `meta`. `agent` is `NAME` or `TEAM/NAME`.

    `meta` has `task_id`, and `timeout` (seconds) and `idempotency_key` if they are wanted. Ctrl-C ends the turn.

    Raises:
        Refused: the gateway cannot be reached, or something else answers.
    """
    team, _, name = agent.rpartition("/")
    url = f"{gateway.rstrip('/')}/teams/{team}/rpc" if team else f"{gateway.rstrip('/')}/rpc"
    meta = {"timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"), **meta}
    params = {"agent_id": name, "function": function, "input": given, "meta": meta}
    request = {"jsonrpc": "2.0", "id": 1, "method": "agent.execute", "params": params}
    try:
        response = _post(url, request, token)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise not_reached(f"the gateway at {gateway}") from error
    try:
        answer = response.json()
    except ValueError:
        answer = None
    match answer:
        case {"jsonrpc": "2.0", "result": _} | {"jsonrpc": "2.0", "error": {"code": _, "message": _}}:
            return {**answer}
        case _:
            raise Refused(f"{url} answers with HTTP status {response.status_code}, but not as a gateway")


def _post(url: str, request: dict[str, Any], token: str | None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # Loading the certificates takes longer than most calls, and plain HTTP needs none.
    verify = not url.startswith("http://")
    timeout = httpx.Timeout(_CONNECT_SECONDS, read=None)
    return httpx.post(url, json=request, headers=headers, timeout=timeout, verify=verify)


_OTHERWISE = "; `pallas agents list` shows all agents"


@contextmanager
def naming_agents(gateway: str, agent: str, token: str | None) -> Generator[None]:
    """While an agent is connected over MCP: an error for one that is not there names those that are like it.

    Raises:
        Refused: there is no such agent at the gateway.
        CallFailed: it cannot be called for another reason.
    """
    try:
        yield
    except CallFailed as error:
        if error.code != "not_found":
            raise
        reason, known = _known(gateway, agent, token)
        if reason == "unknown agent":
            raise not_there("agent", agent, known, otherwise=_OTHERWISE) from error
        if known:
            raise Refused(
                f"{reason}: name one of {', '.join(known)}", word="ambiguous", details={"agents": known}
            ) from error
        raise not_there("agent", agent, otherwise=_OTHERWISE) from error


def _known(gateway: str, agent: str, token: str | None) -> tuple[str, list[str]]:
    """Why the gateway does not know which agent is meant, and the ids that this caller may mean."""
    facts = execute(gateway, agent, "-", {}, {"task_id": "which-agents"}, token).get("error", {}).get("data", {})
    team, slash, _ = agent.rpartition("/")
    return str(facts.get("reason", "")), [f"{team}{slash}{each}" for each in facts.get("known", ())]
