"""The load generator reads answers in pieces of any size, and reports every wrong answer as a fault."""

import json
from typing import Any

import pytest
from tests.bench.calls import Call, fault_of, messages
from tests.bench.http_client import Answer, AnswerReader

CALL = Call(1, "/mcp", "work", {"message": "hello"}, "done: hello", 2)


def progress(message: str = "step") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "message": message}}


def result(text: str = "done: hello", **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}], **more}}


def stream(*sent: dict[str, Any], newline: str = "\r\n") -> Answer:
    lines = [f"event: message{newline}data: {json.dumps(each)}{newline}{newline}" for each in sent]
    return Answer(200, True, f": ping{newline}{newline}{''.join(lines)}".encode())


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_event_stream_is_read_message_by_message_without_its_pings(newline: str) -> None:
    sent = [progress(), result()]
    assert list(messages(stream(*sent, newline=newline))) == sent


def test_a_single_json_body_is_one_message() -> None:
    assert list(messages(Answer(200, False, json.dumps(result()).encode()))) == [result()]


def test_the_right_text_after_the_right_number_of_progress_notifications_is_no_fault() -> None:
    assert fault_of(CALL, stream(progress(), progress(), result())) is None


def test_a_line_about_the_queue_comes_on_top_of_the_expected_progress() -> None:
    assert fault_of(CALL, stream(progress("worker queued: 3 ahead"), progress(), progress(), result())) is None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (stream(progress(), result()), "1 progress"),
        (stream(progress(), progress(), progress(), result()), "3 progress"),
        (stream(progress(), progress(), result("another")), "another answer"),
        (stream(progress(), progress(), result(isError=True)), "another answer"),
        (stream(progress(), progress()), "another answer"),
        (Answer(503, False, b"busy"), "status 503"),
    ],
)
def test_a_wrong_answer_is_a_fault(answer: Answer, reason: str) -> None:
    fault = fault_of(CALL, answer)
    assert fault is not None
    assert reason in fault


@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_chunked_answer_is_put_together_from_pieces_of_any_size(step: int) -> None:
    body = stream(progress(), progress(), result()).body
    wire, reader = chunked(body, 33), AnswerReader()
    answers = [reader.feed(wire[start : start + step]) for start in range(0, len(wire), step)]
    assert answers[:-1] == [None] * (len(answers) - 1)
    assert answers[-1] == Answer(200, True, body)


def test_answers_on_one_connection_are_read_separately() -> None:
    reader = AnswerReader()
    plain = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: abc\r\ncontent-length: 2\r\n\r\n{}"
    assert reader.feed(plain) == Answer(200, False, b"{}", "abc")
    assert reader.feed(chunked(b"data: {}\n\n", 4)) == Answer(200, True, b"data: {}\n\n")
    assert reader.feed(plain) == Answer(200, False, b"{}", "abc")
