"""Log lines: one JSON object each, with what the work is about."""

import asyncio
import json
import logging
from collections.abc import Generator
from typing import Any

import pytest
from opentelemetry import context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import BaseModel, ValidationError
from tests.waiting import eventually

from pallas_contracts.errors import Rejected, Unavailable
from pallas_runtime import logs
from pallas_runtime.logs import configure_logs, log_context, with_turn

log = logging.getLogger("pallas_test")

PRIVATE = "what a caller said"


class Arguments(BaseModel):
    """What pydantic quotes when it does not fit."""

    age: int


@pytest.fixture(autouse=True)
def keep_logging_as_it_was() -> Generator[None]:
    """Logging belongs to the whole process: put back what a test configures."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_line_has_service_instance_time_event_and_context(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    with log_context(turn="0192", conversation="c-1", team=None):
        log.info("started", extra={"attempt": 2})
    log.info("idle")
    [inside, outside] = lines(capsys)
    expected = {"service": "agent-worker", "instance": "w1", "event": "started", "level": "info", "attempt": 2}
    assert expected.items() <= inside.items()
    assert (inside["turn"], inside["conversation"], "team" in inside) == ("0192", "c-1", False)
    assert inside["timestamp"].endswith("Z")
    assert "turn" not in outside


def test_extra_fields_of_a_line_replace_none_of_the_standard_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    log.info("stream resumed", extra={"event": 6, "service": "toolbox", "attempt": 2})
    [line] = lines(capsys)
    assert (line["event"], line["service"], line["attempt"]) == ("stream resumed", "agent-worker", 2)


async def test_concurrent_turns_do_not_mix_their_ids(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")

    async def work(turn: str) -> None:
        with log_context(turn=turn):
            for _ in range(3):
                await asyncio.sleep(0)
                log.info(turn)

    await asyncio.gather(*(work(f"turn-{number}") for number in range(5)))
    assert all(line["turn"] == line["event"] for line in lines(capsys))


def test_an_exception_is_logged_with_its_traceback_and_without_its_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    try:
        raise ValueError(PRIVATE)
    except ValueError:
        log.exception("failed")
    [line] = lines(capsys)
    assert line["exception"].splitlines()[-1] == "ValueError"
    assert "Traceback" in line["exception"]
    assert "test_logs.py" in line["exception"]
    assert PRIVATE not in json.dumps(line)


def test_a_pallas_error_is_logged_with_its_text_and_its_causes_without_theirs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    try:
        try:
            Arguments.model_validate({"age": PRIVATE})
        except ValidationError as error:
            raise Rejected("the arguments do not fit") from error
    except Rejected:
        log.exception("failed")
    [line] = lines(capsys)
    written = line["exception"].splitlines()
    assert written[-1] == "pallas_contracts.errors.Rejected: the arguments do not fit"
    assert "pydantic_core._pydantic_core.ValidationError" in written
    assert "The above exception was the direct cause of the following exception:" in written
    assert PRIVATE not in json.dumps(line)


def test_an_exception_group_is_logged_with_its_members_and_without_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    failed = Unavailable("no broker")
    log.error("failed", exc_info=ExceptionGroup(PRIVATE, [ValueError(PRIVATE), failed]))
    [line] = lines(capsys)
    expected = ["ExceptionGroup", "  1:", "  ValueError", "  2:", "  pallas_contracts.errors.Unavailable: no broker"]
    assert line["exception"].splitlines() == expected


def test_errors_in_a_circle_of_causes_are_logged_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    first, second = ValueError(PRIVATE), KeyError(PRIVATE)
    first.__cause__, second.__cause__ = second, first
    log.error("failed", exc_info=first)
    [line] = lines(capsys)
    assert [name for name in line["exception"].splitlines() if "Error" in name] == ["KeyError", "ValueError"]


def test_lines_below_the_level_and_info_lines_of_libraries_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    log.debug("detail")
    logging.getLogger("httpx").info("HTTP Request: GET http://secret@example")
    assert lines(capsys) == []


def test_the_text_format_is_not_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "text")
    log.info("started", extra={"port": 1})
    written = capsys.readouterr().err
    assert "started" in written
    assert not written.startswith("{")


def test_a_line_within_a_trace_has_the_ids_of_trace_span_and_turn(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("auth-resolver", "r1", "INFO", "json")
    parent = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    within = with_turn({"pallas.turn": "0192"}, TraceContextTextMapPropagator().extract(parent))
    token = context.attach(within)
    log.info("inside")
    context.detach(token)
    log.info("outside")
    [inside, outside] = lines(capsys)
    ids = {"trace": "4bf92f3577b34da6a3ce929d0e0e4736", "span": "00f067aa0ba902b7", "turn": "0192"}
    assert ids.items() <= inside.items()
    assert ids.keys().isdisjoint(outside)


def test_a_line_of_text_has_the_trace_but_not_the_span(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("auth-resolver", "r1", "INFO", "text")
    parent = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    token = context.attach(TraceContextTextMapPropagator().extract(parent))
    log.info("inside")
    context.detach(token)
    assert capsys.readouterr().err.endswith("pallas_test: inside trace=4bf92f3577b34da6a3ce929d0e0e4736\n")


def test_repeated_lines_are_left_out_and_told_as_a_number(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "WINDOW_SECONDS", 3600.0)
    configure_logs("agent-worker", "w1", "INFO", "json")
    for number in range(1000):
        log.warning("refused", extra={"address": number})
    log.warning("something else")
    assert [line["event"] for line in lines(capsys)] == ["refused"] * 20 + ["something else"]
    monkeypatch.setattr(logs, "WINDOW_SECONDS", -1.0)
    log.warning("refused")
    assert [line["event"] for line in lines(capsys)] == ["980 more like this: refused", "refused"]


def test_lines_about_different_agents_are_no_repetition(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    for number in range(50):
        log.warning("degraded", extra={"agent": f"a{number}"})
        with log_context(team=f"t{number}"):
            log.warning("degraded")
    assert len(lines(capsys)) == 100


def test_lines_of_ever_new_texts_are_limited_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_KINDS", 10)
    configure_logs("agent-worker", "w1", "INFO", "json")
    for number in range(1000):
        log.warning(f"text {number}")
    assert len(lines(capsys)) == 30


def test_a_library_may_log_a_value_that_is_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    log.warning(["no", "text"])
    assert [line["event"] for line in lines(capsys)] == ["['no', 'text']"]


async def test_what_was_left_out_is_told_when_nothing_else_is_logged(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "WINDOW_SECONDS", 0.01)
    configure_logs("agent-worker", "w1", "INFO", "json")
    for _ in range(1000):
        log.warning("refused")
    await eventually(lambda: "more like this: refused" in capsys.readouterr().err)


def test_a_line_that_cannot_be_formatted_harms_no_later_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    configure_logs("agent-worker", "w1", "INFO", "json")
    for _ in range(25):
        log.warning("%d turns", "no number")
    monkeypatch.setattr(logs, "WINDOW_SECONDS", -1.0)
    log.warning("refused")
    assert [line["event"] for line in lines(capsys)] == ["5 more like this: %d turns", "refused"]


def test_what_was_left_out_is_told_when_the_process_ends(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    for _ in range(25):
        log.warning("refused")
    logging.getLogger().handlers[0].close()
    assert lines(capsys)[-1]["event"] == "5 more like this: refused"
