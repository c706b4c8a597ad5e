"""Messages and replies, as a browser has them."""

from tests.integration.workspaces.chat.talk import Talk
from tests.requirements import requirement
from tests.workspaces_world.agent import Agent


@requirement("P-5.17")
async def test_an_answer_comes_over_the_event_stream(talk: Talk, harper: Agent) -> None:
    async with talk.following() as stream:
        sent = await talk.send("What is new?")
        work = await harper.next()
        assert work.wants_progress
        assert work.arguments == {"message": "What is new?", "conversation_id": talk.conversation}
        await work.progress("harper step 1 (llm)")
        assert (await stream.until("progress")).data["message"] == "harper step 1 (llm)"
        await work.answer("Nothing.")
        reply = (await stream.until("message", id=sent["reply_id"], status="answered")).data
        assert reply["content"] == "Nothing."
        assert reply["turn_id"] == f"turn-{sent['message_id']}"
    page = await talk.page()
    assert [one["content"] for one in page["messages"]] == ["What is new?", "Nothing."]
    assert page["conversation"]["title"] == "What is new?"
    assert not page["conversation"]["answering"]
