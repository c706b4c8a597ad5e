"""What is refused when a message is sent, and with which words."""

import asyncio
import base64
import json
import uuid
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from tests.integration.workspaces.chat.talk import Talk, attach, begin, reading_events
from tests.integration.workspaces.lab import API, Lab
from tests.requirements import requirement
from tests.workspaces_world.agent import Agent

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


def refusal(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Status, code and field."""
    problem = answer.json()
    return answer.status_code, problem["code"], problem.get("field")


@requirement("A-10.3.1")
async def test_an_agent_of_a_team_that_is_not_attached_is_refused(lab: Lab, talk: Talk) -> None:
    assert refusal(await talk.try_send(server_id="pallas-other")) == (403, "agent_not_attached", None)
    stranger = {"agent_instance_id": str(uuid.uuid4())}
    assert refusal(await talk.try_send(**stranger)) == (403, "agent_not_attached", None)
    assert (await talk.page())["messages"] == []


@requirement("A-10.3.1")
async def test_a_turn_ends_when_its_team_is_detached_meanwhile_and_the_next_is_refused(
    lab: Lab, talk: Talk, harper: Agent
) -> None:
    async with talk.begun(harper) as (stream, sent, work):
        async with lab.service.parts.engine.begin() as connection:
            await connection.execute(text("delete from workspace_pallas_assignments"))
        await work.answer("done")
        await stream.until("message", id=sent["reply_id"], status="answered")
    assert refusal(await talk.try_send()) == (403, "agent_not_attached", None)


@requirement("A-10.3.2")
async def test_each_turn_may_have_another_agent_and_its_id_is_enough_if_it_is_unique(
    lab: Lab, talk: Talk, harper: Agent
) -> None:
    engine = lab.service.parts.engine
    other = await attach(engine, harper, team="Gyges")
    ambiguous = await talk.try_send()
    assert refusal(ambiguous) == (422, "ambiguous_agent", "agent_server_id")
    assert f"Gyges ({other}), Kottos (" in ambiguous.json()["error"]
    sent = await talk.send(agent_instance_id=other)
    await (await harper.next()).answer("hello")
    async with talk.following(after=0) as stream:
        reply = await stream.until("message", id=sent["reply_id"], status="answered")
    assert reply.data["agent_instance_id"] == other


async def test_only_one_reply_at_a_time(talk: Talk, harper: Agent) -> None:
    sent = await talk.send()
    assert refusal(await talk.try_send()) == (409, "answering", None)
    async with talk.following() as stream:
        await (await harper.next()).answer("1")
        await stream.until("message", id=sent["reply_id"], status="answered")
    assert (await talk.try_send()).status_code == 202


async def test_the_same_message_again_is_the_same_message(talk: Talk, harper: Agent) -> None:
    name = str(uuid.uuid4())
    answers = await asyncio.gather(*(talk.try_send("once", id=name) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert answers[0].json()["message_id"] == name
    async with talk.following() as stream:
        await (await harper.next()).answer("1")
        await stream.until("message", status="answered", role="assistant")
    assert (await talk.try_send("once", id=name)).json() == answers[0].json()
    assert harper.executed == ["once"]
    other = await begin(talk.http)
    assert refusal(await other.try_send(id=name)) == (409, "id_taken", "id")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": "x" * 200_001}, "text"),
        ({"text": "  "}, "text"),
        ({"text": "a\0b"}, "text"),
        ({"text": "\ud800"}, "text"),
        ({"id": "1"}, "id"),
        ({"agent_server_id": ""}, "agent_server_id"),
        ({"more": 1}, "more"),
        ({"images": [{"data": "%"}]}, "images.0.data"),
        ({"images": [{"data": base64.b64encode(b"<svg/>").decode(), "mime_type": "image/png"}]}, "images.0.data"),
        ({"images": [{"data": base64.b64encode(PNG).decode()}] * 9}, "images"),
        ({"images": [{"data": base64.b64encode(PNG + bytes(5 * 2**20)).decode()}]}, "images.0.data"),
        ({"images": [{"data": base64.b64encode(PNG + bytes(3 * 2**20)).decode()}] * 3}, "images"),
    ],
)
async def test_bad_input_names_its_field(talk: Talk, body: dict[str, object], field: str) -> None:
    answer = await talk.http.post(
        f"{API}/conversations/{talk.conversation}/messages",
        content=json.dumps({"text": "x", "agent_server_id": "pallas-harper", **body}),
        headers={"content-type": "application/json"},
    )
    assert refusal(answer)[::2] == (422, field), answer.text


async def test_a_conversation_is_made_with_its_first_message_unless_that_is_refused(
    lab: Lab, talk: Talk, harper: Agent
) -> None:
    new = Talk(talk.http, str(uuid.uuid4()))
    image = {"data": base64.b64encode(PNG).decode()}
    faults: tuple[tuple[dict[str, Any], tuple[int, str, str | None]], ...] = (
        ({"server_id": "pallas-other"}, (403, "agent_not_attached", None)),
        ({"workspace_id": "none"}, (404, "unknown_workspace", None)),
        ({"images": [image]}, (422, "no_vision", "images")),
        ({"text": " "}, (422, "invalid", "text")),
    )
    for fault, refused in faults:
        assert refusal(await new.try_send(**{"workspace_id": "ws", **fault})) == refused
        assert (await lab.browser.get(f"{API}/conversations/{new.conversation}")).status_code == 404
    first = {"workspace_id": "ws", "id": str(uuid.uuid4())}
    async with reading_events(lab.browser, f"{API}/events", {}) as stream:
        sent, again = await asyncio.gather(new.send("hello", **first), new.send("hello", **first))
        told = await stream.until("conversation", id=new.conversation)
    assert sent == again
    assert (told.data["title"], told.data["answering"]) == ("hello", True)
    await (await harper.next()).answer("hello")
    assert len((await new.page())["messages"]) == 2
    assert harper.executed == ["hello"]
    async with lab.service.parts.engine.begin() as connection:
        await connection.execute(text("insert into workspaces (id, name) values ('other', 'Other')"))
    stranger = await new.try_send(workspace_id="other")
    assert refusal(stranger) == (409, "id_taken", "id")


async def test_what_is_not_there_is_not_found(talk: Talk) -> None:
    nothing = str(uuid.uuid4())
    for method, path in (
        ("GET", f"/conversations/{nothing}"),
        ("PATCH", f"/conversations/{nothing}"),
        ("DELETE", f"/conversations/{nothing}"),
        ("GET", f"/conversations/{nothing}/events"),
        ("GET", f"/events?conversation={nothing}"),
        ("GET", f"/images/{nothing}"),
        ("POST", f"/messages/{nothing}/cancel"),
        ("POST", f"/messages/{nothing}/retry"),
        ("POST", f"/messages/{nothing}/answer"),
        ("GET", "/workspaces/none/conversations"),
        ("POST", "/workspaces/none/conversations"),
    ):
        body = {"title": "x"} if method == "PATCH" else {"action": "accept"} if path.endswith("answer") else {}
        answer = await talk.http.request(method, API + path, json=body)
        assert answer.status_code == 404, (method, path, answer.text)
