"""The stand-in answers what a real Coder was asked as that one did: the same status, an answer of the same shape."""

import re
from collections import defaultdict
from contextlib import suppress
from typing import Any

import httpx
from tests.integration.coder.shapes import Shape, recorded

from pallas_demo.coder import CoderStandIn, StandInSettings, TerminalSettings

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
EXCHANGES: list[dict[str, Any]] = recorded("coder-recordings")
NAMES = {
    answer["id"]: answer["name"]
    for one in EXCHANGES
    for answer in (
        (one["response"] or {}).get("workspaces") or [one["response"]] if isinstance(one["response"], dict) else []
    )
    if answer and "name" in answer and ("latest_build" in answer or "workspace_id" in answer)
}
"""The recorded workspaces."""


def route(one: dict[str, Any]) -> tuple[str, str, int]:
    """What exchanges of one kind have in common."""
    return one["method"], ID.sub("ID", one["path"]), one["status"]


SHAPES: dict[tuple[str, str, int], Shape] = defaultdict(Shape)
for exchange in EXCHANGES:
    SHAPES[route(exchange)].add(exchange["response"])


async def known(client: httpx.AsyncClient, coder: CoderStandIn, name: str, template: str) -> str:
    """The id of our workspace of a name, made if need be. Its program is on and waits."""
    templates = {one["display_name"]: one["id"] for one in (await client.get("/api/v2/templates")).json()}
    body = {"name": name, "template_id": templates[template]}
    made = await client.post("/api/v2/users/me/workspaces", json=body)
    assert made.status_code in (201, 409)
    await coder.agent(name).until("stable" if template == "Setup" else "running")
    return coder.agent(name).workspace.id


async def gone(client: httpx.AsyncClient, coder: CoderStandIn, name: str) -> None:
    """Delete our workspace of a name, if there is one."""
    with suppress(LookupError):
        agent = coder.agent(name)
        await agent.until("stable", "running")
        await client.post(f"/api/v2/workspaces/{agent.workspace.id}/builds", json={"transition": "delete"})
        await agent.until("deleted")


async def faults(client: httpx.AsyncClient, coder: CoderStandIn, one: dict[str, Any]) -> list[str]:
    """Ask what was asked, with the id of our workspace for the recorded one, and compare."""
    path, body = str(one["path"]), one["request"]
    if (match := re.search(f"(?:workspaces|owner)/({ID.pattern})", path)) is not None:
        template = "Plain" if path.endswith("/logs") and one["status"] == 400 else "Setup"
        name = NAMES.get(match[1], "recorded") + ("-plain" if template == "Plain" else "")
        path = path.replace(match[1], await known(client, coder, name, template))
    answer = await client.request(one["method"], path, json=body)
    if answer.status_code != one["status"]:
        return [f"{answer.status_code}: {answer.text}"]
    if one["status"] >= 400:
        return [] if answer.json() == one["response"] else [answer.text]
    return list(SHAPES[route(one)].faults(answer.json() if answer.content else None))


async def test_recorded_requests_are_answered_as_they_were() -> None:
    settings = StandInSettings(
        build_seconds=0.02, generation="experimental", terminal=TerminalSettings(stable_after=0.12)
    )
    found: dict[int, list[str]] = {}
    async with CoderStandIn(settings) as coder:
        headers = {"Coder-Session-Token": coder.token}
        async with httpx.AsyncClient(base_url=coder.url, headers=headers, trust_env=False) as client:
            for number, one in enumerate(EXCHANGES):
                if one["method"] == "POST" and one["path"].endswith("/workspaces") and one["status"] == 201:
                    await gone(client, coder, one["request"]["name"])
                found[number] = await faults(client, coder, one)
    assert {number: some for number, some in found.items() if some} == {}
    assert len(found) == 55
