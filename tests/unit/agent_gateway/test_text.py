"""The text of the agent's own model as progress: joined, in order, and begun anew when an attempt is."""

from dataclasses import replace

import pytest

from agent_gateway.answers.progress import Line, ProgressObserver
from agent_gateway.handshake.event_stream import FollowedCall, StreamObserver, event_id, read_event_id
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import Continued, LogMessage, Principal, Step, TextDelta, ToolStarted
from pallas_turns.claims import Cursor, TurnRef

KEY = LogKey("a key of the tests that is long enough")
STARTED = ToolStarted(call="1", server="argos", tool="search")


def said(text: str, agent: str = "harper") -> TextDelta:
    return TextDelta(agent=agent, text=text)


def llm(number: int, agent: str = "harper") -> Step:
    return Step(agent=agent, n=number, kind="llm")


class Caller:
    """A caller that asked for text. `clock` is the time; `pause` lets some of it pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, modern: bool = True, text: bool = True) -> None:
        self.lines: list[Line] = []
        self.clock = 100.0
        monkeypatch.setattr("agent_gateway.answers.progress.time.monotonic", lambda: self.clock)
        self.observer = ProgressObserver("harper", modern, self._report, self._log, text=text)

    async def _report(self, value: float, total: float | None, message: str | None) -> None:
        self.lines.append(Line(value, total, message))

    async def _log(self, message: LogMessage) -> None:
        self.lines.append(Line(0, None, f"log {message.level}"))

    async def notify(self, *events: object, pause: float = 1.0) -> list[str | None]:
        for event in events:
            await self.observer.on_event(event, Cursor(1, 1))
            self.clock += pause
        return [line.message for line in self.lines]


async def test_the_text_of_the_own_model_is_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(monkeypatch)
    assert await caller.notify(llm(1), said("Hel"), said("lo", "research"), said("lo")) == [
        "harper step 1 (llm)",
        "text: Hel",
        "text: lo",
    ]
    assert [line.progress for line in caller.lines] == [1, 2, 3]
    assert {line.total for line in caller.lines} == {None}


async def test_in_the_handshake_era_it_has_the_value_of_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(monkeypatch, modern=False)
    await caller.notify(said("Hello"))
    assert caller.lines == [Line(0, None, "text: Hello")]


async def test_nobody_gets_text_who_did_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(monkeypatch, text=False)
    await caller.observer.on_attempt(2)
    assert await caller.notify(said("Hello"), llm(1)) == ["harper attempt 2: taken up again", "harper step 1 (llm)"]


async def test_pieces_that_come_fast_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(monkeypatch)
    pieces = [said(f"{number} ") for number in range(1000)]
    messages = await caller.notify(*pieces, STARTED, pause=0.001)
    assert len(messages) <= 22, "at most twenty a second"
    assert "".join((message or "").removeprefix("text: ") for message in messages[:-1]) == "".join(
        piece.text for piece in pieces
    )
    assert messages[-1] == "argos/search: started", "what was held back comes before what happened after it"


async def test_a_joined_piece_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(monkeypatch)
    messages = await caller.notify(*[said("x" * 1000)] * 200, pause=0)
    assert max(len(message or "") for message in messages) < 40_000


async def test_texts_of_several_steps_are_paragraphs_as_in_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(monkeypatch)
    turn = (llm(1), said("I will look."), STARTED, llm(7, "research"), llm(2), said("There "), said("it is."))
    messages = await caller.notify(*turn)
    text = "".join((message or "")[6:] for message in messages if (message or "").startswith("text: "))
    assert text == "I will look.\n\nThere it is."


async def test_a_new_attempt_says_that_text_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(monkeypatch)
    await caller.notify(said("Hel"), said("lost"), pause=0)
    await caller.observer.on_attempt(2)
    messages = await caller.notify(llm(1), said("Hello"))
    assert messages == [
        "text: Hel",
        "harper attempt 2: taken up again",
        "text restarted",
        "harper step 1 (llm)",
        "text: Hello",
    ]


async def test_an_attempt_that_goes_on_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(monkeypatch, modern=False)
    assert await caller.notify(said("Hel"), Continued(n=1, taken=()), said("Hello")) == [
        "text: Hel",
        "text restarted",
        "text: Hello",
    ]


def followed(*, text: bool) -> FollowedCall:
    return FollowedCall(TurnRef("lab", "harper", "0" * 32), 7, "t", None, Principal(type="peer", id="::1"), text)


@pytest.mark.parametrize("tool", ["count", None])
@pytest.mark.parametrize("text", [True, False])
def test_the_id_of_an_event_says_whether_text_is_wanted_and_which_tool_is_checked(text: bool, tool: str | None) -> None:
    call = replace(followed(text=text), tool=tool)
    token = event_id(KEY, call, Cursor(1, 5))
    assert read_event_id(KEY, token, "lab", "harper", call.caller) == (call, Cursor(1, 5))


async def test_text_that_was_held_back_has_an_id_before_that_of_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = list[bytes]()

    async def write(frame: bytes) -> None:
        frames.append(frame)

    monkeypatch.setattr("agent_gateway.answers.progress.time.monotonic", lambda: 100.0)
    call = followed(text=True)
    observer = StreamObserver(KEY, call, write)
    for number, event in enumerate((said("a"), said("b"), said("c"), STARTED), 1):
        await observer.on_event(event, Cursor(1, number))
    ids = [frame.split(b"\r\n")[0].removeprefix(b"id: ").decode() for frame in frames]
    cursors = [read_event_id(KEY, token, "lab", "harper", call.caller)[1] for token in ids]
    assert cursors == [Cursor(1, 1), Cursor(1, 3), Cursor(1, 4)]
    assert [b"text: a" in frames[0], b"text: bc" in frames[1], b"started" in frames[2]] == [True] * 3
