"""Images of messages."""

import base64
from dataclasses import replace

from tests.integration.workspaces.chat.talk import attach, begin
from tests.integration.workspaces.lab import API, Lab
from tests.workspaces_world.agent import Agent

from pallas_postgres.engine import reading
from workspaces.chat.concluding import Concluding
from workspaces.chat.images import Picture
from workspaces.chat.model import Claim, Ending
from workspaces.tables import ChatMessage

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
GIF = b"GIF89a" + bytes(50)


def encoded(*images: bytes) -> list[dict[str, str]]:
    """Images as they are sent, with a wrong type."""
    return [{"data": base64.b64encode(image).decode(), "mime_type": "text/html"} for image in images]


async def test_an_image_is_stored_sent_and_shown_by_what_it_is(lab: Lab, harper: Agent) -> None:
    await attach(lab.service.parts.engine, harper, vision=True)
    talk = await begin(lab.browser)
    sent = await talk.send("", images=encoded(PNG, GIF))
    work = await harper.next()
    assert [(one["mime_type"], base64.b64decode(one["data"])) for one in work.arguments["images"]] == [
        ("image/png", PNG),
        ("image/gif", GIF),
    ]
    page = await talk.page()
    assert page["conversation"]["title"] == "Image"
    asked = next(one for one in page["messages"] if one["id"] == sent["message_id"])
    assert [(one["mime_type"], one["bytes"]) for one in asked["images"]] == [("image/png", 108), ("image/gif", 56)]
    shown = await lab.browser.get(f"{API}/images/{asked['images'][0]['id']}")
    assert shown.content == PNG
    assert shown.headers["content-type"] == "image/png"
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert "immutable" in shown.headers["cache-control"]
    assert (await lab.stranger.get(f"{API}/images/{asked['images'][0]['id']}")).status_code == 401


async def test_images_of_an_answer_are_stored_and_shown_if_they_are_safe(lab: Lab, harper: Agent) -> None:
    await attach(lab.service.parts.engine, harper, vision=True)
    talk = await begin(lab.browser)
    svg = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'/>").decode()
    png = base64.b64encode(PNG).decode()
    async with talk.following() as stream:
        sent = await talk.send("draw")
        await (await harper.next()).answer(
            "Here:", ("image/png", png), ("image/svg+xml", svg), ("image/gif", "no base64")
        )
        reply = (await stream.until("message", id=sent["reply_id"], status="answered")).data
        assert reply == await talk.reply(sent["reply_id"])
        assert [(one["mime_type"], one["bytes"]) for one in reply["images"]] == [("image/png", len(PNG))]
        assert "image/png" not in reply["content"]
        assert "[image/svg+xml, 1 kB: not shown]" in reply["content"]
        assert (await lab.browser.get(f"{API}/images/{reply['images'][0]['id']}")).content == PNG
        sent = await talk.send("more")
        work = await harper.next(2)
        assert "images" not in work.arguments["history"][1]
        assert work.arguments["history"][1]["content"].endswith("[image]")
        await work.answer("Many.", *[("image/png", png)] * 10)
        reply = (await stream.until("message", id=sent["reply_id"], status="answered")).data
        assert (len(reply["images"]), reply["content"].count("not shown")) == (8, 2)


async def test_an_answer_that_comes_twice_keeps_its_images(lab: Lab, harper: Agent) -> None:
    engine, ending = lab.service.parts.engine, Ending("answered", "Here", pictures=(Picture("image/png", PNG),))
    await attach(engine, harper, vision=True)
    talk = await begin(lab.browser)
    sent = await talk.send("draw")
    async with reading(engine) as session:
        claim = Claim.of(await session.get_one(ChatMessage, sent["reply_id"]))
    concluding, again = Concluding(engine, lab.service.parts.hub), replace(claim, attempt=2, called="here")
    assert [await concluding.conclude(each, ending) for each in (claim, again)] == [True, False]
    [image] = (await talk.reply(sent["reply_id"]))["images"]
    assert (await lab.browser.get(f"{API}/images/{image['id']}")).content == PNG


async def test_an_agent_without_vision_is_sent_no_images(lab: Lab, harper: Agent) -> None:
    seeing = await attach(lab.service.parts.engine, harper, vision=True)
    blind = await attach(lab.service.parts.engine, harper, team="Blind")
    talk = await begin(lab.browser)
    refused = await talk.try_send(images=encoded(PNG), agent_instance_id=blind)
    assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (422, "no_vision", "images")
    async with talk.following() as stream:
        sent = await talk.send("look", images=encoded(PNG), agent_instance_id=seeing)
        await (await harper.next()).answer("I see.")
        await stream.until("message", id=sent["reply_id"], status="answered")
        again = await talk.send("again", agent_instance_id=seeing)
        work = await harper.next(2)
        assert work.arguments["history"][0]["images"] == [
            {"data": base64.b64encode(PNG).decode(), "mime_type": "image/png"}
        ]
        await work.answer("I saw.")
        await stream.until("message", id=again["reply_id"], status="answered")
    await talk.send("and you", agent_instance_id=blind)
    assert (await harper.next(3)).arguments["history"] == [
        {"role": "user", "content": "look\n[image]"},
        {"role": "assistant", "content": "I see."},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": "I saw."},
    ]
