"""How events are packed into messages that are not too large for the broker."""

import pytest

from pallas_contracts.errors import Rejected
from pallas_contracts.turns import AnyEvent, Fault, InputRequired, LogMessage, Result, TextDelta, ToolProgress
from pallas_turns.events import LEFT_OUT, batches, lightened


def written(events: list[AnyEvent]) -> bytes:
    return b"".join(event.model_dump_json().encode() for event in events)


def texts(*words: str) -> list[AnyEvent]:
    return [TextDelta(agent="harper", text=word, seq=number) for number, word in enumerate(words, 1)]


def test_events_that_fit_go_in_one_message() -> None:
    [batch] = batches(texts("a", "b"), written, 10_000)
    assert (batch.events, batch.payload) == (texts("a", "b"), written(texts("a", "b")))


def test_no_events_make_no_message() -> None:
    assert batches([], written, 10) == []


def test_events_that_do_not_fit_go_in_several_messages_in_order() -> None:
    events = texts(*(letter * 300 for letter in "abcdefg"))
    several = batches(events, written, 1000)
    assert [event for batch in several for event in batch.events] == events
    assert 1 < len(several) < len(events)
    assert all(len(batch.payload) <= 1000 for batch in several)


def test_only_the_event_that_is_too_large_by_itself_loses_its_data() -> None:
    events = texts("a", "b" * 10_000, "c")
    sent = [event for batch in batches(events, written, 5000) for event in batch.events]
    assert [event.seq for event in sent] == [1, 2, 3]
    assert (sent[0], sent[2]) == (events[0], events[2])
    assert isinstance(sent[1], TextDelta)
    assert sent[1].text.startswith("bbb")
    assert sent[1].text.endswith(LEFT_OUT)


@pytest.mark.parametrize(
    "event",
    [
        LogMessage(level="info", data={"rows": "x" * 10_000}, seq=7),
        LogMessage(level="info", data=["x" * 10_000], seq=7),
        LogMessage(level="info", data=object(), seq=7),
        LogMessage(level="info", data={"half": "\ud800"}, seq=7),
        ToolProgress(call="1", server="demo", tool="add", progress=0.5, message="x" * 10_000, seq=7),
        Fault(message="x" * 10_000, protocol_code=-32000, data={"rows": ["x" * 10_000]}, seq=7),
    ],
    ids=["object in a log message", "list in a log message", "no JSON", "lone surrogate", "progress", "a fault"],
)
def test_an_event_without_its_data_keeps_its_number_and_can_be_read(event: AnyEvent) -> None:
    light = lightened(event)
    assert len(written([light])) < 2000
    assert LEFT_OUT in written([light]).decode()
    assert (type(light).model_validate_json(written([light])), light.seq) == (light, 7)


@pytest.mark.parametrize(
    "event", [TextDelta(agent="harper", text="\ud800"), LogMessage(level="info", data=object())], ids=["text", "object"]
)
def test_an_event_that_cannot_be_serialised_does_not_affect_the_others(event: AnyEvent) -> None:
    events = [
        *texts("a"),
        event.model_copy(update={"seq": 2}),
        *(it.model_copy(update={"seq": 3}) for it in texts("c")),
    ]
    sent = [event for batch in batches(events, written, 5000) for event in batch.events]
    assert [each.seq for each in sent] == [1, 2, 3]
    assert (sent[0], sent[2]) == (events[0], events[2])


@pytest.mark.parametrize(
    "answer",
    [Result(structured="x" * 10_000), InputRequired(input_requests={"a": "x" * 10_000})],
    ids=["result", "input required"],
)
def test_an_answer_that_is_too_large_is_refused_as_a_whole(answer: AnyEvent) -> None:
    with pytest.raises(Rejected) as refused:
        batches([*texts("a"), answer], written, 5000)
    assert refused.value.code == "too_large"
