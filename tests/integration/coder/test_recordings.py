"""The stand-in answers what a real Coder was asked as that one did: the same status, an answer of the same shape."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import httpx
from tests.integration.coder.shapes import Shape, kind_of, recorded

from pallas_demo.coder import CoderStandIn, StandInSettings, TerminalSettings

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
EXCHANGES: list[dict[str, Any]] = recorded("coder-recordings")


def names(found: Any) -> Iterator[tuple[str, str]]:
    """Ids and names of the workspaces in an answer."""
    if kind_of(found) == "object":
        answer: dict[str, Any] = found
        if "name" in answer and ("latest_build" in answer or "workspace_id" in answer):
            yield answer["id"], answer["name"]
        for one in answer.get("workspaces", []):
            yield from names(one)


NAMES = {id_: name for exchange in EXCHANGES for id_, name in names(exchange["response"])}
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


async def replayed(exchanges: list[dict[str, Any]]) -> list[str]:
    """The faults of one recording, on a stand-in of its own."""
    terminal = TerminalSettings(stable_after=0.15)
    settings = StandInSettings(build_seconds=0.02, generation="experimental", terminal=terminal)
    async with CoderStandIn(settings) as coder:
        headers = {"Coder-Session-Token": coder.token}
        async with httpx.AsyncClient(base_url=coder.url, headers=headers, trust_env=False, timeout=30) as client:
            return [f"{one['path']} {fault}" for one in exchanges for fault in await faults(client, coder, one)]


async def test_recorded_requests_are_answered_as_they_were() -> None:
    recordings: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in EXCHANGES:
        recordings[one["cassette"]].append(one)
    found = await asyncio.gather(*map(replayed, recordings.values()))
    assert {name: some for name, some in zip(recordings, found, strict=True) if some} == {}
    assert len(EXCHANGES) == 55
