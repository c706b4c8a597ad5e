"""Log lines: one JSON object each, with what the work is about."""

import asyncio
import json
import logging
from collections.abc import Generator
from typing import Any

import pytest

from pallas_runtime.logs import configure_logs, log_context

log = logging.getLogger("pallas_test")


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


def test_a_line_says_who_when_and_what_about(capsys: pytest.CaptureFixture[str]) -> None:
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


async def test_turns_that_run_at_once_do_not_mix_their_ids(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")

    async def work(turn: str) -> None:
        with log_context(turn=turn):
            for _ in range(3):
                await asyncio.sleep(0)
                log.info(turn)

    await asyncio.gather(*(work(f"turn-{number}") for number in range(5)))
    assert all(line["turn"] == line["event"] for line in lines(capsys))


def test_an_exception_is_in_the_line_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    [line] = lines(capsys)
    assert line["exception"].splitlines()[-1] == "ValueError: broken"
    assert "Traceback" in line["exception"]


def test_less_than_the_level_and_the_chatter_of_libraries_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "json")
    log.debug("detail")
    logging.getLogger("httpx").info("HTTP Request: GET http://secret@example")
    assert lines(capsys) == []


def test_text_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs("agent-worker", "w1", "INFO", "text")
    log.info("started", extra={"port": 1})
    written = capsys.readouterr().err
    assert "started" in written
    assert not written.startswith("{")
