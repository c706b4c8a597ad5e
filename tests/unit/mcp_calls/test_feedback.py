"""What an agent says while it works comes in order; a slow reader misses old progress, but no text."""

import asyncio

import pytest

from pallas_mcp_calls import feedback as module
from pallas_mcp_calls.feedback import MOST_WAITING, Feedback
from pallas_mcp_calls.model import Progress, TextDelta


def progress(message: str, value: float = 1.0) -> Progress:
    return Progress(value, None, message)


class Reader:
    """Keeps what it gets. It reads nothing before `go`."""

    def __init__(self, *, text: bool = True) -> None:
        self.seen = list[Progress | TextDelta]()
        self.go = asyncio.Event()
        self.feedback = Feedback(self._take, self._take if text else None)

    async def _take(self, item: Progress | TextDelta) -> None:
        await self.go.wait()
        self.seen.append(item)

    async def get(self, *messages: str) -> list[Progress | TextDelta]:
        async with self.feedback.running():
            for message in messages:
                self.feedback.put(progress(message))
            self.go.set()
        return self.seen


async def test_text_and_progress_are_told_apart_and_come_in_order() -> None:
    seen = await Reader().get("step 1", "text: Hel", "text: lo", "step 2", "text: !", "text restarted", "text: x")
    assert seen == [
        progress("step 1"),
        TextDelta("Hello"),
        progress("step 2"),
        TextDelta("!"),
        TextDelta("x", restarted=True),
    ]


async def test_without_a_reader_of_text_there_is_none() -> None:
    seen = await Reader(text=False).get("text: Hel", "text restarted")
    assert seen == [progress("text: Hel"), progress("text restarted")]


async def test_a_slow_reader_misses_old_progress_and_no_text() -> None:
    words = [f"text: {number} " for number in range(MOST_WAITING)]
    messages = [message for word in words for message in (word, f"after {word}")]
    seen = await Reader().get(*messages)
    assert len(seen) <= MOST_WAITING + 1
    text = "".join(item.text for item in seen if isinstance(item, TextDelta))
    assert text == "".join(word.removeprefix("text: ") for word in words)
    assert seen[-1] == progress(messages[-1])


async def test_a_restart_that_was_dropped_with_what_came_before_it_is_still_told() -> None:
    seen = await Reader().get(
        "text: old", "text restarted", "text: new", *(f"step {number}" for number in range(MOST_WAITING + 5))
    )
    assert [item for item in seen if isinstance(item, TextDelta)] == [TextDelta("new", restarted=True)]


async def test_text_is_bounded_and_a_restart_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_ANSWER", 5)
    seen = await Reader().get("text: abc", "text: abc", "text: d", "text restarted", "text: abc")
    assert seen == [TextDelta("abc"), TextDelta("abc", restarted=True)]


async def test_a_long_message_is_cut() -> None:
    [seen] = await Reader().get("x" * 10_000)
    assert isinstance(seen, Progress)
    assert len(seen.message or "") == 4_000


async def test_a_reader_that_fails_does_not_end_the_call(caplog: pytest.LogCaptureFixture) -> None:
    seen = list[str | None]()

    async def fail(item: Progress) -> None:
        seen.append(item.message)
        raise RuntimeError("broken")

    feedback = Feedback(fail, None)
    async with feedback.running():
        feedback.put(progress("one"))
        feedback.put(progress("two"))
    assert seen == ["one", "two"]
    assert "cannot be passed on" in caplog.text


async def test_an_answer_does_not_wait_for_a_reader_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_END_SECONDS", 0.01)
    reader = Reader()
    async with asyncio.timeout(5), reader.feedback.running():
        reader.feedback.put(progress("one"))
    assert reader.seen == []
