"""Metadata of workspaces: what scripts in them report, such as the pull request that an agent works on."""

import asyncio
import re

import httpx2
from pydantic import BaseModel, TypeAdapter

from fleet.coder.model import Text, Workspace
from fleet.coder.rest import ABSENT, Rest, segment
from fleet.reaching.http import Answer
from fleet.reaching.peer import explain
from fleet.reaching.reading import read_part

SECONDS = 3.0
_NUMBER = re.compile(r"\d+_")
_ABSENT = frozenset({"", "n/a"})


class _Result(BaseModel):
    value: Text = ""
    error: Text = ""


class _Description(BaseModel):
    key: str


class _Item(BaseModel):
    result: _Result
    description: _Description


_ITEMS = TypeAdapter(list[_Item])


async def metadata_of(rest: Rest, workspace: Workspace) -> dict[str, str]:
    """The metadata by key, without the numbers that only order them, and without absent ones.

    Raises:
        Unavailable: Coder does not answer.
    """
    agents = [agent for agent in workspace.agents if agent.ready]
    found: dict[str, str] = {}
    for items in await asyncio.gather(*(_items(rest, agent.id) for agent in agents)):
        for item in items:
            value = item.result.value.strip()
            if not item.result.error and value.lower() not in _ABSENT:
                found.setdefault(_NUMBER.sub("", item.description.key, count=1), value)
    return found


async def _items(rest: Rest, agent: str) -> list[_Item]:
    """What is told first; nothing if Coder has nothing to tell in time."""
    stream = await rest.http.stream(rest.peer, rest.url(f"api/v2/workspaceagents/{segment(agent)}/watch-metadata"))
    try:
        if stream.status_code in ABSENT:
            return []
        if stream.status_code != 200:
            raise rest.refused(Answer(stream.status_code, "", b""))
        if not rest.http.has_events(stream):
            raise rest.peer.unusable("not_json", "answers with something that is not a stream of events", status=200)
        async with asyncio.timeout(SECONDS):
            async for event in httpx2.EventSource(stream, max_event_size=rest.http.limits.answer):
                if event.event == "data":
                    return read_part(_ITEMS, event.data) or []
    except TimeoutError:
        pass
    except httpx2.TransportError as error:
        raise rest.peer.away(*explain(error)) from error
    finally:
        await stream.aclose()
    return []
