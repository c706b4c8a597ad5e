"""Prints messages of all streams as they are stored."""

import json
from datetime import UTC

from pallas_bus.history.recorded import Recorded, streams_of
from pallas_bus.history.tail import tail_streams
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.subjects import subject_filter
from pallas_cli.moments import moment_of
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import WrongUsage
from pallas_contracts.errors import Rejected


def filter_of(text: str) -> str:
    """The subject filter that the user typed.

    Raises:
        Refused: it is invalid, or no stream has matching subjects.
    """
    try:
        subject = subject_filter(text)
    except Rejected as error:
        raise WrongUsage(error.message) from error
    if not streams_of(subject):
        raise WrongUsage(f"no stream has subjects that match {subject!r}; docs/contracts.md lists all subjects")
    return subject


async def tail(bus: Bus, *, subject: str, since: str | None, as_json: bool) -> None:
    """Print messages as they are stored, until interrupted.

    Raises:
        Refused: the subject or the time is invalid.
    """
    wanted, begin = filter_of(subject), moment_of(since) if since else None
    async with tail_streams(bus, wanted, since=begin) as messages:
        while True:
            message = await messages.get()
            if as_json:
                print(json.dumps(document_of(message)), flush=True)
            else:
                print_plain(line_of(message))


def line_of(message: Recorded) -> str:
    """Time, stream, position, subject and size of a message, without its body."""
    record = message.record
    time = record.time.astimezone(UTC).strftime("%H:%M:%S.%f")[:-3]
    return f"{time} {message.stream} {record.seq} {record.subject} {len(record.data)} B"


def document_of(message: Recorded) -> dict[str, object]:
    """The whole message; `body` is JSON, or text if it is not JSON."""
    record = message.record
    try:
        body: object = json.loads(record.data)
    except ValueError:
        body = record.data.decode(errors="replace")
    return {
        "stream": message.stream,
        "position": record.seq,
        "time": record.time.astimezone(UTC).isoformat(),
        "subject": record.subject,
        "headers": record.headers,
        "body": body,
    }
